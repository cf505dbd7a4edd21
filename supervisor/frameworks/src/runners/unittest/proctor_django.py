"""Runs the tests of a Django project as `python manage.py test` does, and writes proctor's report.

Arguments: the path of manage.py, then `-k=PATTERN` or nothing, then `--list` or nothing. The project's own test runner creates
the databases and runs the tests; a subclass of it adds the report.
"""

import os
import runpy
import sys

import proctor_coverage
import proctor_python
import proctor_unittest

# unittest hides frames of modules with this name in their globals, as its own.
__unittest = True

# Exit status of a shell that does not find a program.
NOT_FOUND = 127


def main(arguments):
    proctor_python.print_stacks_on_signal()
    proctor_python.remove_stale_bytecode()
    proctor_coverage.start()
    manage, more = arguments[0], arguments[1:]
    try:
        import django.test.utils as utils
    except ModuleNotFoundError as error:
        sys.stderr.write("proctor: django is not installed for %s (%s): install what the project needs\n" % (sys.executable, error))
        return NOT_FOUND
    report = proctor_python.Report()
    report.write("begin")
    run = Run(report, "--list" in more)
    get_runner = utils.get_runner
    utils.get_runner = lambda *settings, **named: run.through(get_runner(*settings, **named))
    patterns = [argument[len("-k=") :] for argument in more if argument.startswith("-k=")]
    sys.argv = [manage, "test", "--no-input"] + [word for pattern in patterns for word in ("-k", pattern)]
    # As Python does with the directory of a script that it runs.
    sys.path[0] = os.path.dirname(os.path.abspath(manage))
    runpy.run_path(manage, run_name="__main__")
    return 0


class Run:
    """One run of the project's test runner."""

    def __init__(self, report, lists):
        self.report = report
        self.lists = lists
        self.names = proctor_python.UniqueNames()
        self.results = []
        self.unbegun = None

    def through(self, runner):
        """The project's runner, subclassed. A runner that overrides how suites are built and run is noticed at the end."""
        run = self

        class Runner(runner):
            def build_suite(self, *arguments, **named):
                suite = super().build_suite(*arguments, **named)
                selection = proctor_python.Selection(proctor_unittest.wholes)
                suite = proctor_unittest.chosen(suite, selection)
                run.unbegun = proctor_unittest.Unbegun(suite)
                return run.list(suite) if run.lists else suite

            def get_resultclass(self):
                return run.result

            def run_tests(self, *arguments, **named):
                failures = super().run_tests(*arguments, **named)
                proctor_unittest.end_coverage()
                run.end(runner)
                return failures

        Runner.__name__, Runner.__qualname__, Runner.__module__ = runner.__name__, runner.__qualname__, runner.__module__
        return Runner

    def result(self, *arguments, **named):
        self.results.append(proctor_unittest.Result(self.report, self.names, self.unbegun, *arguments, **named))
        return self.results[-1]

    def list(self, suite):
        status = proctor_unittest.list_tests(suite, self.report)
        self.report.end()
        raise SystemExit(status)

    def end(self, runner):
        if not self.results or self.unbegun is None:
            text = "%s.%s does not run tests as django.test.runner.DiscoverRunner does: what it ran is not known"
            return self.report.write("note", text=text % (runner.__module__, runner.__qualname__))
        return self.report.end(self.unbegun.tell(self.report, self.names, self.results[-1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
