"""Runs the tests of unittest as `python -m unittest discover` does, and tells proctor what happens.

Arguments: a start directory, then `-k=PATTERN` or nothing, then `--list` or nothing. Must not know how the report is read.
"""

import inspect
import io
import os
import re
import sys
import time
import unittest

import proctor_python

# Frames of a module with this name in its globals are the runner's, for unittest as for us.
__unittest = True

# What unittest's own command exits with when no test ran, since Python 3.12.
NO_TESTS = 5

# Fixtures of whole classes and modules. unittest puts a stand-in named after one where tests would be when it fails.
FIXTURES = ("setUpClass", "setUpModule", "tearDownClass", "tearDownModule")

# What unittest puts in the place of a module that cannot be loaded.
UNLOADABLE = "_FailedTest"


def main(arguments):
    proctor_python.forget_stale_bytecode()
    start = arguments[0]
    patterns = [argument[len("-k=") :] for argument in arguments[1:] if argument.startswith("-k=")]
    report = proctor_python.Report()
    report.write("begin")
    loader = unittest.TestLoader()
    if patterns:
        loader.testNamePatterns = [pattern if "*" in pattern else "*%s*" % pattern for pattern in patterns]
    suite = chosen(loader.discover(start))
    if "--list" in arguments:
        status = list_tests(suite, report)
    else:
        status = run(suite, report)
    report.write("end")
    return status


def run(suite, report):
    warnings = None if sys.warnoptions else "default"
    names = proctor_python.Names()

    def result(*arguments, **named):
        return Result(report, names, *arguments, **named)

    outcome = unittest.TextTestRunner(resultclass=result, warnings=warnings).run(suite)
    if outcome.testsRun == 0 and outcome.wasSuccessful() and not outcome.skipped:
        return NO_TESTS
    return 0 if outcome.wasSuccessful() else 1


def list_tests(suite, report):
    status, names = 0, proctor_python.Names()
    for test in each(suite):
        if type(test).__name__ == UNLOADABLE:
            unloadable(test, report)
            status = 1
        else:
            package, name = place(test)
            report.write("listed", package=package, name=names.unique(package, name))
    return status


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def chosen(suite):
    """The suite without the tests that are not to run. Classes and modules stay together, for their fixtures."""
    selection = proctor_python.Selection(wholes)

    def is_wanted(test):
        package, name = place(test)
        return selection.has(package, name, name.rpartition(".")[0] + ".")

    return unittest.TestSuite(filter(is_wanted, each(suite))) if selection.tests else suite


def wholes(names):
    """What names of fixtures stand for: all of a class, `Class.`, or of a module, ``."""
    parts = (name.rpartition(".") for name in names)
    return {dotted and dotted + "." for dotted, _, last in parts if last in FIXTURES}


def place(test):
    """The file of a test, relative to here, and the test's name within it."""
    if type(test).__name__ == UNLOADABLE:
        return unloaded_file(test), test._testMethodName
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
    file = getattr(sys.modules.get(module), "__file__", None)
    return os.path.relpath(file) if file else ".", name


def unloaded_file(test):
    """The file of a module that could not be loaded, of which unittest keeps the name alone."""
    path = test._testMethodName.replace(".", os.sep)
    for root in sys.path:
        for file in (path + ".py", os.path.join(path, "__init__.py")):
            if os.path.isfile(os.path.join(root, file)):
                return os.path.relpath(os.path.join(root, file))
    return "."


def unloadable(test, report, error=None):
    """Tells of a module that could not be loaded, of whose error unittest keeps the words alone."""
    words = str(getattr(test, "_exception", None) or error).strip()
    file = os.path.abspath(unloaded_file(test))
    frames = re.findall(r'^ +File "(.+)", line (\d+)', words, re.MULTILINE)
    own = [frame for frame in frames if proctor_python.is_own(frame[0])] or [(file, 1)]
    report.write(
        "collector",
        nodeid=file + "/." if file == proctor_python.workspace() else file,
        file=own[-1][0],
        line=int(own[-1][1]),
        message=words.split("\n")[-1],
        output=words,
    )


class Result(unittest.TextTestResult):
    """Says what unittest says, and tells each test when it ends.

    What there is to say about an exception is read before unittest takes its own frames out of it.
    """

    def __init__(self, report, names, *arguments, **named):
        super().__init__(*arguments, **named)
        self._report = report
        self._names = names
        self._began = {}
        self._told = {}

    def startTest(self, test):
        super().startTest(test)
        self._written = Written()
        self._began[id(test)] = time.perf_counter()
        self._told[id(test)] = None
        if type(test).__name__ != UNLOADABLE:
            package, name = place(test)
            self._report.write("started", package=package, name=name)

    def stopTest(self, test):
        super().stopTest(test)
        output = self._written.stop()
        began = self._began.pop(id(test), None)
        told = self._told.pop(id(test), None)
        # unittest says nothing of a test of which only subtests failed.
        if type(test).__name__ != UNLOADABLE:
            told = dict(told or {"outcome": "failed"}, output=output)
            self._tell(test, told, time.perf_counter() - began)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._ended(test, {"outcome": "passed"})

    def addFailure(self, test, err):
        told = proctor_python.described(err[1])
        super().addFailure(test, err)
        self._ended(test, dict(told, outcome="failed"))

    def addError(self, test, err):
        told, is_fixture = proctor_python.described(err[1]), self._is_fixture(err[1].__traceback__)
        super().addError(test, err)
        if type(test).__name__ == UNLOADABLE:
            unloadable(test, self._report, err[1])
        else:
            # An exception in a test is a test that does not hold; the runner's word for it is not ours.
            is_test = isinstance(test, unittest.TestCase) and not is_fixture
            self._ended(test, dict(told, outcome="failed" if is_test else "error"))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._ended(test, dict(where(test), outcome="skipped", message=reason))

    def addExpectedFailure(self, test, err):
        told = proctor_python.described(err[1])
        super().addExpectedFailure(test, err)
        self._ended(test, dict(told, outcome="xfailed"))

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        # unittest counts it as a failure, and so does its exit status.
        self._ended(test, dict(where(test), outcome="failed", message="Unexpected success"))

    def addSubTest(self, test, subtest, err):
        told = {"outcome": "passed"}
        if err is not None:
            told = dict(proctor_python.described(err[1]), outcome="failed")
        super().addSubTest(test, subtest, err)
        self._tell(test, told, None, "/" + subtest._subDescription())

    @staticmethod
    def _is_fixture(tb):
        """Whether an exception came out of setUp, tearDown or a cleanup."""
        names = []
        while tb is not None:
            if "__unittest" in tb.tb_frame.f_globals:
                names.append(tb.tb_frame.f_code.co_name)
            tb = tb.tb_next
        return not {"_callSetUp", "_callTearDown", "_callCleanup", "doCleanups"}.isdisjoint(names)

    def _ended(self, test, told):
        if id(test) not in self._told:
            self._tell(test, told, None)
        elif self._told[id(test)] is None or self._told[id(test)]["outcome"] in ("passed", "skipped"):
            self._told[id(test)] = told

    def _tell(self, test, told, duration, part=""):
        package, name = place(test)
        unique = self._names.unique(package, name + part)
        nodeid = test.id() + part + unique[len(name + part) :]
        self._report.write("finished", package=package, name=unique, nodeid=nodeid, duration_s=duration, **told)


class Tee(io.TextIOBase):
    """A stream that keeps what goes through it. Everything else is the stream's own."""

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
        """Python closes what it throws away, and the stream itself stays in use."""


class Written:
    """Keeps what is written to the streams of `sys`, from now on until it is stopped."""

    def __init__(self):
        self._parts, self._length = [], 0
        self._streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
        self._tees = {name: Tee(stream, self._keep) for name, stream in self._streams.items()}
        vars(sys).update(self._tees)

    def _keep(self, text):
        if self._length < proctor_python.TEXT_MAX:
            self._parts.append(text)
            self._length += len(text)

    def stop(self):
        """What was written, if anything was. A stream that a test has put in place stays."""
        for name, stream in self._streams.items():
            if getattr(sys, name) is self._tees[name]:
                setattr(sys, name, stream)
        return "".join(self._parts) or None


def where(test):
    """File and line of a test's method."""
    method = inspect.unwrap(getattr(test, getattr(test, "_testMethodName", ""), None))
    code = getattr(method, "__code__", None)
    if code is None or not proctor_python.is_own(code.co_filename):
        return {}
    return {"file": code.co_filename, "line": code.co_firstlineno}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
