"""Runs the tests of unittest as `python -m unittest discover` does, and writes proctor's report.

Proof of a pass: every test of the loaded suite was begun and reported, or a fixture around it, or a `run` of its class, says that it
is not to run. A suite that a test has stopped (`result.stop()`, `failfast`) is no proof.

Arguments: a start directory, then `-k=PATTERN` or nothing, then `--list` or nothing.
"""

import fnmatch
import inspect
import io
import os
import re
import sys
import types
import unittest
# By name, so that a test that replaces a clock replaces none of these.
from time import perf_counter, process_time

import proctor_coverage
import proctor_python
import proctor_sample

# unittest hides frames of modules with this name in their globals, as its own.
__unittest = True

# The initial working directory. A test may change it, and even remove the new one.
START = os.getcwd()

# The tests that the project file leaves in. Created before any module of the project is loaded.
SCOPE = proctor_python.Scope()

# What unittest's own command does with warnings.
WARNINGS = None if sys.warnoptions else "default"

# Exit status of unittest's own command when no test ran, since Python 3.12.
NO_TESTS = 5

# Fixtures of classes and modules. unittest puts a stand-in named after a failed one in the place of its tests.
FIXTURES = ("setUpClass", "setUpModule", "tearDownClass", "tearDownModule")

# Modules that run a test, and call setUp and the like.
TESTS_RUN_IN = ("unittest.case", "unittest.async_case")

# Class that unittest puts in the place of a module that cannot be loaded.
UNLOADABLE = "_FailedTest"

# Files in which pytest looks for tests.
OF_PYTEST = ("test_*.py", "*_test.py")

# Functions of unittest's own conventions whose names begin like tests.
CONVENTIONS = ("test", "test_main", "test_suite")

# The attribute of a test that names the file of the first module that added it.
BROUGHT_BY = "proctor_brought_by"

# The attribute of a test that has its number among the tests of the run.
NUMBER = "proctor_number"


def main(arguments):
    proctor_python.print_stacks_on_signal()
    proctor_python.remove_stale_bytecode()
    proctor_coverage.start()
    start = arguments[0]
    patterns = [argument[len("-k=") :] for argument in arguments[1:] if argument.startswith("-k=")]
    report = proctor_python.Report()
    report.write("begin")
    loader = Loader()
    if patterns:
        loader.testNamePatterns = [pattern if "*" in pattern else "*%s*" % pattern for pattern in patterns]
    found, selection = loader.discover(start), proctor_python.Selection(wholes)
    has_others = tell_others(loader, found, selection, report)
    suite = chosen(found, selection)
    left = 0
    if "--list" in arguments:
        status = list_tests(suite, report)
    else:
        status, left = run(suite, report)
    report.end(left)
    return 1 if has_others and status in (0, NO_TESTS) else status


def run(suite, report):
    """Runs the tests. Returns the exit status of unittest's command, and how many unreported tests are left."""
    names, unbegun = proctor_python.UniqueNames(), Unbegun(suite)

    def result(*arguments, **named):
        return Result(report, names, unbegun, *arguments, **named)

    time_methods()
    report.write("total", tests=sum(1 for test in each(suite) if type(test).__name__ != UNLOADABLE))
    Result.has_plain_suites = all(type(one) is unittest.TestSuite for one in suites(suite))
    sample = start_sample(suite)
    outcome = unittest.TextTestRunner(resultclass=result, warnings=WARNINGS).run(suite)
    if sample is not None:
        sample.end({} if outcome.shouldStop else Result.took.by_number)
    end_coverage()
    left = unbegun.tell(report, names, outcome)
    if outcome.testsRun == 0 and outcome.wasSuccessful() and not outcome.skipped:
        return NO_TESTS, left
    return (0 if outcome.wasSuccessful() else 1), left


def start_sample(suite):
    """The process that runs a sample of these tests once more; None if there is none."""
    tests = [test for test in each(suite) if type(test).__name__ != UNLOADABLE]
    for number, test in enumerate(tests):
        getattr(test, "__dict__", {})[NUMBER] = number
    if proctor_coverage.current is None or len(tests) < 2:
        return None
    # unittest releases each test after running it, and so does this. The process has all of them.
    return proctor_sample.start(proctor_coverage.current, lambda number: run_alone(suite, number), has_fixtures_between=True)


def run_alone(suite, number):
    """Runs a test with the fixtures of its class and module, and measures all of it."""
    test = next(test for test in each(suite) if getattr(test, NUMBER, None) == number)
    proctor_coverage.current.restart()
    proctor_coverage.current.begin()
    outcome = unittest.TextTestRunner(io.StringIO(), warnings=WARNINGS).run(unittest.TestSuite([test]))
    if outcome.testsRun == 1 and outcome.wasSuccessful() and not outcome.skipped:
        proctor_coverage.current.end(*place(test))


def end_coverage():
    """Ends the measurement of lines, with the fixtures around the last test."""
    if proctor_coverage.current is not None:
        proctor_coverage.current.finish(Result.between())


def list_tests(suite, report):
    status, names = 0, proctor_python.UniqueNames()
    for test in each(suite):
        if type(test).__name__ == UNLOADABLE:
            unloadable(test, report)
            status = 1
        else:
            package, name = place(test)
            report.write("listed", package=package, name=names.unique(package, name))
    return status


def suites(suite):
    yield suite
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from suites(one)


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def tell_others(loader, suite, selection, report):
    """Reports functions and methods that are named like tests and that unittest does not run, and whether they are pytest's.

    A run without them would prove less than it seems to. Only files that are selected as a whole are considered.
    """
    own = {code(test) for test in each(suite)}
    others = [(module.__file__, list(loader.others(module, own))) for module in loader.modules]
    others = [(file, [one for one in names if SCOPE.has(relative(file), one[0])]) for file, names in others]
    others = [(file, names) for file, names in others if names and selection.has(relative(file), "")]
    if others and "pytest" not in sys.modules:
        one = others[0][1][0][0], relative(others[0][0])
        what = "unittest does not run what is called like a test in %d file(s), such as %s in %s" % ((len(others),) + one)
        report.write("note", text=what + ": if it is pytest's, pass framework pytest")
        return False
    for file, names in others:
        report.write(
            "collector",
            nodeid=file,
            file=file,
            line=names[0][1].co_firstlineno,
            message="%s has tests for pytest, which unittest does not run: pass framework pytest" % os.path.basename(file),
            output="\n".join(name for name, _ in names),
        )
    return bool(others)


def chosen(suite, selection):
    """The suite without the tests that are not selected. Classes and modules stay together, for their fixtures."""

    def is_wanted(test):
        package, name = place(test)
        if not (SCOPE.has_file(package) if type(test).__name__ == UNLOADABLE else SCOPE.has(package, name)):
            return False
        return selection.has(package, *(part for own in (name, test.id()) for part in (own, own.rpartition(".")[0] + ".")))

    order = proctor_python.Order()
    if not order.is_own:
        return unittest.TestSuite(order.of([test for test in each(suite) if is_wanted(test)], place))
    return unittest.TestSuite(filter(is_wanted, each(suite))) if selection.tests or not SCOPE.is_everything else suite


def wholes(names):
    """What failed fixtures select: all tests of a class, `Class.`, or of a module, ``."""
    parts = (name.rpartition(".") for name in names)
    return {dotted and dotted + "." for dotted, _, last in parts if last in FIXTURES}


class Loader(unittest.TestLoader):
    """Loads as unittest does. A module's `load_tests` adds tests from elsewhere, so the module is recorded on each test."""

    def __init__(self):
        super().__init__()
        self.modules = []

    def loadTestsFromModule(self, module, *arguments, **named):
        name = os.path.basename(getattr(module, "__file__", None) or "")
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in OF_PYTEST):
            self.modules.append(module)
        suite = super().loadTestsFromModule(module, *arguments, **named)
        for test in each([suite]):
            getattr(test, "__dict__", {}).setdefault(BROUGHT_BY, getattr(module, "__file__", None))
        return suite


    def others(self, module, own):
        """Name and code of what is named like a test in a module and not in `own`, unless the patterns exclude it."""
        patterns = self.testNamePatterns or ["*"]
        for name, function in called_like_tests(module):
            is_meant = any(fnmatch.fnmatchcase("%s.%s" % (module.__name__, name), pattern) for pattern in patterns)
            if is_meant and code_of(function) not in own:
                yield name, code_of(function)


def called_like_tests(module):
    """The functions of a module, and methods of its classes, that pytest would run as tests and unittest's loader does not."""
    for name, thing in list(vars(module).items()):
        is_function = name.startswith("test") and type(thing) is types.FunctionType and name not in CONVENTIONS
        is_class = name.startswith("Test") and issubclass(type(thing), type) and is_plain(thing)
        if not (is_function or is_class) or thing.__module__ != module.__name__ or not getattr(thing, "__test__", True):
            continue
        if is_function:
            yield name, thing
        for method in (method for method in dir(thing) if is_class and method.startswith("test")):
            function = inspect.getattr_static(thing, method)
            if type(function) is types.FunctionType:
                yield "%s.%s" % (name, method), function


def is_plain(kind):
    """Whether pytest would collect a class: created without arguments. One that a TestCase inherits is unittest's."""
    kinds = [kind]
    for other in kinds:
        kinds.extend(type.__subclasses__(other))
    is_made = kind.__init__ is object.__init__ and kind.__new__ is object.__new__
    return is_made and not any(issubclass(other, unittest.TestCase) for other in kinds)


def place(test):
    """The file of a test, relative to the initial working directory, and the test's name within it."""
    file, name = defined(test)
    # The code of a library's test is outside the workspace, where no rerun could begin.
    files = (os.path.join(START, file) for file in (file, getattr(test, BROUGHT_BY, None)) if file)
    return next(map(relative, filter(proctor_python.is_project_file, files)), "."), name


def defined(test):
    """The file with the code of a test, if it is known, and the test's name there."""
    if type(test).__module__ == "unittest.loader":  # a module that cannot be loaded, or that is skipped
        return unloaded_file(test), test._testMethodName
    if hasattr(test, "_dt_test"):
        file = test._dt_test.filename
        return (file if os.path.isfile(os.path.join(START, file)) else None), test.id()
    if hasattr(test, "_testFunc"):
        return getattr(code(test), "co_filename", None), test.id()
    if isinstance(test, unittest.TestCase):
        module = type(test).__module__
        name = test.id()
        name = name[len(module) + 1 :] if name.startswith(module + ".") else name
    else:  # a stand-in: `setUpClass (module.Class)`, `setUpModule (module)`
        name, _, of = test.id().partition(" (")
        module = of.rstrip(")")
        while module and module not in sys.modules:
            module = module.rpartition(".")[0]
        name = ("%s.%s" % (of.rstrip(")")[len(module) + 1 :], name)).lstrip(".")
    return getattr(sys.modules.get(module), "__file__", None), name


def relative(file):
    return os.path.relpath(os.path.join(START, file), START)


def unloaded_file(test):
    """The file of a module that could not be loaded: unittest keeps only the module's name."""
    path = test._testMethodName.replace(".", os.sep)
    for root in sys.path:
        for file in (path + ".py", os.path.join(path, "__init__.py")):
            if os.path.isfile(os.path.join(START, root, file)):
                return relative(os.path.join(root, file))
    return "."


def unloadable(test, report, error=None):
    """Reports a module that could not be loaded: unittest keeps only the text of the error."""
    words = str(getattr(test, "_exception", None) or error).strip()
    file = os.path.normpath(os.path.join(START, unloaded_file(test)))
    frames = re.findall(r'^ +File "(.+)", line (\d+)', words, re.MULTILINE)
    own = [frame for frame in frames if proctor_python.is_project_file(frame[0])] or [(file, 1)]
    report.write(
        "collector",
        nodeid=file + "/." if file == proctor_python.workspace() else file,
        file=own[-1][0],
        line=int(own[-1][1]),
        message=words.split("\n")[-1],
        output=words,
    )


class Unbegun:
    """The tests of a suite that have not begun, by package and name: unittest releases each test after running it."""

    def __init__(self, suite):
        self._tests = {}
        for test in each(suite):
            if isinstance(test, unittest.TestCase):
                self._tests.setdefault(place(test), []).append((type(test), getattr(test, "_testMethodName", "")))
        self._passed_over = set()

    def begin(self, test):
        """Records that a test begins."""
        same = self._tests.get(place(test))
        if same:
            same.pop()

    def pass_over(self, fixture):
        """Records that a fixture of a class or module failed or was skipped: unittest does not begin the tests within."""
        self._passed_over.add(fixture)

    def tell(self, report, names, outcome):
        """Reports tests that should have begun and did not, in a run that looks successful. Returns how many are left unreported."""
        left = [(at, test) for at, same in self._tests.items() for test in same if not self._is_excused(test[0])]
        if not outcome.shouldStop:
            runs = [test for test in left if getattr(test[1][0].run, "__module__", None) not in TESTS_RUN_IN]
            if runs:
                report.write("note", text="%d test(s) did not begin: the `run` of their class passed them over" % len(runs))
            left = [test for test in left if test not in runs]
        if left and not outcome.wasSuccessful():
            report.write("note", text="%d test(s) did not run: unittest was stopped before them" % len(left), unreached=True)
            return len(left)
        for (package, name), (kind, method) in left[: proctor_python.UNREPORTED_MAX]:
            told = {"message": "did not run: unittest was stopped before it, or its suite passed it over"}
            of = code_of(getattr(kind, method, None))
            if of is not None and proctor_python.is_project_file(of.co_filename):
                told.update(file=of.co_filename, line=of.co_firstlineno)
            report.write("finished", package=package, name=names.unique(package, name), outcome="error", **told)
        return max(0, len(left) - proctor_python.UNREPORTED_MAX)

    def _is_excused(self, kind):
        around = "setUpClass (%s.%s)" % (kind.__module__, kind.__qualname__), "setUpModule (%s)" % kind.__module__
        return not self._passed_over.isdisjoint(around)


class Durations:
    """Seconds that tests take, with the fixtures of their class and module."""

    def __init__(self):
        self._ended, self._latest, self._fixtures = perf_counter(), (None, None), {}
        # Of tests that may run alone.
        self.by_number = {}

    def begin(self, test):
        """A test begins. What ran since the last one is of its class, or of its module."""
        module, kind = self._latest
        self._latest = type(test).__module__, type(test)
        if self._latest != (module, kind):
            of = self._latest[module == self._latest[0]]
            self._fixtures[of] = self._fixtures.get(of, 0) + perf_counter() - self._ended

    def end(self, ended, duration):
        """The test has ended. Returns its seconds with those of its fixtures."""
        self._ended = ended
        return duration + sum(self._fixtures.get(one, 0) for one in self._latest)


class Result(unittest.TextTestResult):
    """Writes unittest's own output, and reports each test when it ends.

    An exception is described before unittest removes its own frames from it.
    """

    # File of the test that began last.
    latest = None

    # Whether no suite of the project's own runs anything around its tests.
    has_plain_suites = True

    # Of all tests of the process. `durations` is an attribute of unittest's own.
    took = Durations()

    def __init__(self, report, names, unbegun, *arguments, **named):
        super().__init__(*arguments, **named)
        if proctor_coverage.current is not None:
            proctor_coverage.current.outside()
        self._report = report
        self._unbegun = unbegun
        self._names = names
        self._began, self._used_before = {}, {}
        self._told = {}
        self._parts = {}

    def startTest(self, test):
        super().startTest(test)
        self.took.begin(test)
        self._unbegun.begin(test)
        self._written = Written()
        self._began[id(test)], self._used_before[id(test)] = perf_counter(), process_time()
        in_methods[:] = []
        self._told[id(test)] = None
        self._parts[id(test)] = set()
        if type(test).__name__ != UNLOADABLE:
            package, name = place(test)
            self._report.write("started", package=package, name=name)
            if proctor_coverage.current is not None:
                proctor_coverage.current.begin(self.between(package))
                Result.latest = package

    @classmethod
    def between(cls, *packages):
        """The files whose tests need what ran since the last test, as fixtures of classes and modules; None for all."""
        files = {cls.latest, *packages}
        return tuple(sorted(files)) if cls.has_plain_suites and cls.latest is not None else None

    def stopTest(self, test):
        ended, used_by_end = perf_counter(), process_time()
        began, used = self._began.pop(id(test), None), self._used_before.pop(id(test), None)
        parts, told = self._parts.pop(id(test), ()), self._told.pop(id(test), None)
        told = told or interrupted(sys.exc_info()[1]) or self._unsaid(parts)
        if type(test).__name__ != UNLOADABLE:
            self._end_measuring(test, self.took.end(ended, ended - began), told["outcome"] == "passed")
        super().stopTest(test)
        output = self._written.stop()
        if type(test).__name__ != UNLOADABLE:
            duration = ended - began
            times = {"cpu_s": round(used_by_end - used, 6)}
            if in_methods:
                times["setup_s"] = round(max(0, duration - in_methods[-1]), 6)
            self._tell(test, dict(told, output=output, **times), duration)

    def _end_measuring(self, test, seconds, has_passed):
        if proctor_coverage.current is not None:
            seconds = proctor_coverage.current.end(*place(test), seconds=seconds if has_passed else None)
            if seconds is not None and hasattr(test, NUMBER):
                self.took.by_number[getattr(test, NUMBER)] = seconds

    @staticmethod
    def _unsaid(parts):
        """Outcome of a test without a result of its own: some of its subtests failed, or were only skipped."""
        return {"outcome": "passed" if "skipped" in parts and "failed" not in parts else "failed"}

    def addSuccess(self, test):
        super().addSuccess(test)
        self._ended(test, {"outcome": "passed"})

    def addFailure(self, test, err):
        told = describe_failure(test, err[1])
        super().addFailure(test, err)
        self._ended(test, dict(told, outcome="failed"))

    def addError(self, test, err):
        told, is_fixture = describe_failure(test, err[1]), self._is_fixture(err[1].__traceback__)
        super().addError(test, err)
        if type(test).__name__ == UNLOADABLE:
            unloadable(test, self._report, err[1])
        else:
            # An exception in a test is a failed test, although unittest calls it an error.
            is_test = isinstance(test, unittest.TestCase) and not is_fixture
            self._ended(test, dict(told, outcome="failed" if is_test else "error"))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        whole = getattr(test, "test_case", None)
        if whole is None:
            self._ended(test, dict(where(test), outcome="skipped", message=reason))
        else:
            self._part(whole, test, dict(where(whole), outcome="skipped", message=reason))

    def addExpectedFailure(self, test, err):
        told = proctor_python.describe_exception(err[1])
        super().addExpectedFailure(test, err)
        self._ended(test, dict(told, outcome="xfailed"))

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        # unittest counts it as a failure, and so does its exit status.
        self._ended(test, dict(where(test), outcome="failed", message="Unexpected success"))

    def addSubTest(self, test, subtest, err):
        told = {"outcome": "passed"}
        if err is not None:
            told = dict(proctor_python.describe_exception(err[1]), outcome="failed")
        super().addSubTest(test, subtest, err)
        self._part(test, subtest, told)

    def _part(self, test, subtest, told):
        self._parts.setdefault(id(test), set()).add(told["outcome"])
        self._tell(test, told, None, "/" + subtest._subDescription())

    @staticmethod
    def _is_fixture(tb):
        """Whether an exception came out of setUp, tearDown or a cleanup."""
        names = []
        while tb is not None:
            if tb.tb_frame.f_globals.get("__name__") in TESTS_RUN_IN:
                names.append(tb.tb_frame.f_code.co_name)
            tb = tb.tb_next
        return not {"_callSetUp", "_callTearDown", "_callCleanup", "doCleanups"}.isdisjoint(names)

    def _ended(self, test, told):
        if id(test) not in self._told:
            self._unbegun.pass_over(test.id())
            self._tell(test, told, None)
        elif self._told[id(test)] is None or self._told[id(test)]["outcome"] in ("passed", "skipped"):
            self._told[id(test)] = told

    def _tell(self, test, told, duration, part=""):
        package, name = place(test)
        unique = self._names.unique(package, name + part)
        whole = test.id() if type(test).__module__ != "unittest.loader" else name
        nodeid = whole + part + unique[len(name + part) :]
        self._report.write("finished", package=package, name=unique, nodeid=nodeid, duration_s=duration, **told)


# Seconds in the method of the running test; empty for a test whose class calls its method in its own way.
in_methods = []


def time_methods():
    """Measures the time in tests' methods, and so what is left for setUp, tearDown and cleanups."""
    plain = getattr(unittest.TestCase, "_callTestMethod", None)
    if plain is None:  # before Python 3.8
        return

    def _callTestMethod(self, method):
        began = perf_counter()
        try:
            plain(self, method)
        finally:
            in_methods.append(perf_counter() - began)

    unittest.TestCase._callTestMethod = _callTestMethod


class Tee(io.TextIOBase):
    """A stream that records what is written through it. Everything else is delegated to the stream."""

    OWN = frozenset(("__class__", "_keep", "_stream", "close", "write", "writelines"))

    def __init__(self, stream, keep):
        self._stream = stream
        self._keep = keep

    def __getattribute__(self, name):
        own = object.__getattribute__
        return own(self, name) if name in own(self, "OWN") else getattr(own(self, "_stream"), name)

    def write(self, text):
        count = self._stream.write(text)
        self._keep(text)
        return count

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def close(self):
        """Does nothing: Python closes discarded objects, and the stream itself stays in use."""


class Written:
    """Records what is written to `sys.stdout` and `sys.stderr`, from creation until `stop`."""

    def __init__(self):
        self._parts, self._length, self._left_out = [], 0, 0
        self._streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
        self._tees = {name: Tee(stream, self._keep) for name, stream in self._streams.items()}
        vars(sys).update(self._tees)

    def _keep(self, text):
        self._parts.append(text)
        self._length += len(text)
        if self._length > 2 * proctor_python.TEXT_MAX:
            printed = "".join(self._parts)
            end = printed[-proctor_python.TEXT_MAX :]
            self._left_out += len(printed[: -len(end)].encode("utf-8", "replace"))
            self._parts, self._length = [end], len(end)

    def stop(self):
        """Returns the recorded text, or None. A stream that a test has installed stays."""
        for name, stream in self._streams.items():
            if getattr(sys, name) is self._tees[name]:
                setattr(sys, name, stream)
        return proctor_python.keep_end("".join(self._parts), self._left_out) or None


def interrupted(error):
    """Result of a test that ends with an exception that unittest does not catch: KeyboardInterrupt."""
    return error and dict(proctor_python.describe_exception(error), outcome="failed")


def describe_failure(test, error):
    """Description of an exception. A doctest's is raised outside of the example, and its text names the line."""
    told = proctor_python.describe_exception(error)
    if told["file"]:
        return told
    told.update(where(test))
    example = re.search(r'^File ".*", line (\d+), in .*\n', told["message"], re.MULTILINE)
    if hasattr(test, "_dt_test") and example:
        told.update(line=int(example.group(1)), message=told["message"][example.end() :], stack=None)
    return told


def where(test):
    """File and line of a test's method, function or docstring."""
    if hasattr(test, "_dt_test"):
        file, line = os.path.join(START, test._dt_test.filename), (test._dt_test.lineno or 0) + 1
    else:
        file, line = getattr(code(test), "co_filename", ""), getattr(code(test), "co_firstlineno", None)
    return {"file": file, "line": line} if proctor_python.is_project_file(file) else {}


def code(test):
    """The code of a test's method or function, if it has any."""
    return code_of(getattr(test, "_testFunc", None) or getattr(test, getattr(test, "_testMethodName", ""), None))


def code_of(function):
    return getattr(inspect.unwrap(function), "__code__", None) or getattr(function, "__code__", None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
