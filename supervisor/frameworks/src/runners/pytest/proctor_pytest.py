"""A pytest plugin that writes proctor's report. Changes no result, no output, and of the project's settings only those that
select tests by the result of an earlier run (--lf, --sw): the cache that they read is not the project's own.

Proof of a pass: every test that was collected and not deselected was reported, whatever status pytest exits with.

In a run with pytest-xdist the workers attach what they know about a failure to pytest's reports, and only the controller writes.
Needs pytest 7.0.
"""

import linecache
import os
import re
import sys
import traceback
from pathlib import Path
from time import process_time

import pytest
from _pytest.runner import runtestprotocol

import proctor_coverage
import proctor_project_coverage
import proctor_python
import proctor_sample

if not hasattr(pytest, "version_tuple"):
    raise pytest.UsageError("proctor needs pytest 7.0 or newer, and this is " + pytest.__version__)

# Before pytest captures stderr.
proctor_python.print_stacks_on_signal()

if "PYTEST_XDIST_WORKER" not in os.environ:
    proctor_python.remove_stale_bytecode()

proctor_coverage.start()

# The attribute of a pytest report that carries our description of a failure from the worker to the controller.
TOLD = "proctor"

# The attribute with the files that a test left.
LEFT = "proctor_left"

# The attribute with the processor time of a phase, of the process that ran it.
USED = "proctor_used_s"

# The attribute of the reports of a test that has a set-up within its call: setUp of a unittest.TestCase.
HIDES = "proctor_hides_setup"

# Kinds of pytest-playwright's files, by its naming scheme; other files are the tests' own.
KINDS = (("screenshot", r"test-(failed|finished)-\d+\.png"), ("trace", r"trace(-\d+)?\.zip"), ("video", r".*\.webm"))

# Options by which pytest selects tests by the result of an earlier run.
BY_EARLIER_RUNS = ("lf", "stepwise", "stepwise_skip")

# The tests that the project file leaves in.
SCOPE = proctor_python.Scope()

# Code and line of the latest failing `==` that pytest explained, and its values; one for each process.
_compared = []

# Processor time of the latest phase.
_used = []


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config, args):
    if "PYTEST_XDIST_WORKER" in os.environ:
        yield
        return
    reporter = Reporter(early_config)
    early_config.pluginmanager.register(reporter, "proctor_reporter")
    parallel = os.environ.get("PROCTOR_PARALLEL")
    if parallel and early_config.pluginmanager.hasplugin("xdist"):
        args.append("-n=" + parallel)
    elif parallel:
        reporter.note("parallel has no effect: pytest-xdist is not installed")
    outcome = yield
    error = outcome.excinfo[1] if outcome.excinfo else None
    path = getattr(error, "path", None) or _conftest_loaded_by(error)
    if path is not None:
        reporter.unloadable(str(path), _cause(error))
        reporter.end()


def _conftest_loaded_by(error):
    """The conftest.py that pytest was loading: it does not name the one whose `pytest_plugins` cannot be imported."""
    for frame, _ in traceback.walk_tb(error.__traceback__ if error is not None else None):
        module = frame.f_locals.get("conftestmodule")
        if frame.f_code.co_name == "consider_conftest" and module is not None:
            return getattr(module, "__file__", None)
    return None


def _line_of_plugins(path):
    """Line of a file's `pytest_plugins`, from 1; the first line if it has none."""
    lines = enumerate(linecache.getlines(path), 1)
    return next((number for number, line in lines if line.startswith("pytest_plugins")), 1)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    # Keeps artifacts out of the workspace. A worker of pytest-xdist reads the project's settings once more.
    if _keeps_artifacts(config):
        config.option.output = os.environ["PROCTOR_OUTPUT"]
    seed = proctor_python.Order().seed
    if seed is not None and hasattr(config.option, "randomly_seed"):  # pytest-randomly shuffles, and seeds random values
        config.option.randomly_seed = seed
    if proctor_coverage.current is not None:
        config.pluginmanager.register(Coverage(config, proctor_coverage.current), "proctor_coverage")
    asked = [name for name in BY_EARLIER_RUNS if getattr(config.option, name, False)]
    for name in asked:
        setattr(config.option, name, False)
    reporter = config.pluginmanager.get_plugin("proctor_reporter")
    if asked and reporter is not None:
        reporter.note("all tests run, also those that passed before: --lf and --sw of the project's settings are left out")


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def _measured():
    began = process_time()
    yield
    _used[:] = [process_time() - began]


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = _measured


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if outcome.excinfo:
        return
    report = outcome.get_result()
    if _used:
        setattr(report, USED, _used.pop())
    if any(kind.__name__ == "TestCaseFunction" for kind in type(item).__mro__):
        setattr(report, HIDES, True)
    if report.when == "teardown":
        setattr(report, LEFT, _left_by(item))
    if call.excinfo is None:
        return
    told = _example(call.excinfo.value) or proctor_python.describe_exception(call.excinfo.value, _values_compared)
    lacking = getattr(report.longrepr, "errorstring", None)
    if lacking is not None:
        told.update(message=lacking.split("\n")[0].strip(), stack=lacking)
        told.update(file=str(report.longrepr.filename), line=report.longrepr.firstlineno + 1)
    setattr(report, TOLD, told)


def _example(error):
    """Description of a failed doctest: place of the failed example, and not of doctest's own code."""
    failure = error.failures[0] if type(error).__name__ == "MultipleDoctestFailures" else error
    if type(failure).__module__ != "doctest" or not hasattr(failure, "example"):
        return None
    example, test = failure.example, failure.test
    line = None if test.lineno is None else test.lineno + example.lineno + 1
    place = {"file": test.filename, "line": line}
    if hasattr(failure, "exc_info"):
        told = proctor_python.describe_exception(failure.exc_info[1])
        return told if told["file"] else dict(told, **place)
    message = "Failed example: " + example.source.strip()
    return dict(place, message=message, expected=example.want.strip(), actual=failure.got.strip())


def _left_by(item):
    """Files below the directory that pytest-playwright has for this test, which are complete by now."""
    directory = (getattr(item, "funcargs", None) or {}).get("output_path")
    if not isinstance(directory, str) or not _keeps_artifacts(item.config):
        return []
    return [os.path.join(above, name) for above, _, names in os.walk(directory) for name in sorted(names)]


def _keeps_artifacts(config):
    has = config.pluginmanager.hasplugin
    is_there = has("playwright") or has("playwright-asyncio")
    return "PROCTOR_OUTPUT" in os.environ and is_there and hasattr(config.option, "output")


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    outcome = yield
    if outcome.excinfo:
        return
    report = outcome.get_result()
    excinfo = getattr(getattr(report, "call", None), "excinfo", None)
    if report.failed and excinfo is not None:
        setattr(report, TOLD, proctor_python.describe_exception(_cause(excinfo.value)))


def pytest_assertrepr_compare(config, op, left, right):
    if op in ("==", "is"):
        frame = sys._getframe()
        while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in FOREIGN:
            frame = frame.f_back
        if frame is not None:
            values = proctor_python.format_value(right), proctor_python.format_value(left)
            _compared[:] = [(frame.f_code, frame.f_lineno, values)]


# Modules between a failing `assert` and the hook that explains it.
FOREIGN = ("proctor_pytest", "_pytest", "pluggy")


def _values_compared(tb):
    """Values of the assertion that ended this traceback, unless another one was explained last."""
    while tb.tb_next is not None:
        tb = tb.tb_next
    for code, line, values in _compared:
        if tb.tb_frame.f_code is code and tb.tb_lineno == line:
            return values
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path):
    # `None` leaves the decision to pytest and to the project.
    is_left_out = not SCOPE.is_everything and collection_path.is_file() and not SCOPE.has_file(str(collection_path))
    return True if is_left_out and collection_path.name != "conftest.py" else None


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config, items):
    _select(config, items)
    order = proctor_python.Order()
    found = list(items)
    yield
    if order.is_own:
        return
    # The last word, behind plugins that shuffle: the order in which pytest found the tests, changed as the request asks.
    kept, places = set(items), Places(config)
    if not (order.is_shuffled and config.pluginmanager.hasplugin("randomly")):
        items[:] = order.of([item for item in found if item in kept], lambda item: places.of(item.nodeid))


def _select(config, items):
    selection, places = proctor_python.Selection(), Places(config)

    def is_wanted(item):
        package, name = places.of(item.nodeid)
        return SCOPE.has(package, name) and selection.has(package, name, name.rpartition("@")[0] or name, "%s::%s" % (package, name))

    kept = [item for item in items if is_wanted(item)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if not is_wanted(item)])
        items[:] = kept


def _cause(error):
    """The original error behind pytest's wrapper about where it happened."""
    cause = getattr(error, "cause", None) or error.__cause__
    if isinstance(cause, tuple):  # pytest 7: as sys.exc_info gives it
        cause = cause[1]
    is_wrapped = type(error).__name__ in ("CollectError", "ConftestImportFailure")
    return cause if is_wrapped and cause is not None else error


class Places:
    """Splits node ids into the file, relative to where pytest was started, and the name within it."""

    def __init__(self, config):
        self.root = str(config.rootpath)
        self._start = str(config.invocation_params.dir)
        self._packages = {}

    def of(self, nodeid):
        path, _, name = nodeid.partition("::")
        package = self._packages.get(path)
        if package is None:
            package = self._packages[path] = os.path.relpath(os.path.join(self.root, path), self._start)
        return package, name or os.path.basename(package)


class Coverage:
    """Tells the measurement of lines which test is running, in the process that runs it.

    The lines of a fixture of a class, module or session belong to every test that requested it, by its name or by
    `getfixturevalue`, and so do those of its teardown.
    """

    def __init__(self, config, measurement):
        self._measurement = measurement
        self._places = Places(config)
        self._numbers = {}
        self._used = ()
        # Of the test that runs: its seconds so far, whether all that is known of it is that it passes, and the fixtures it set up.
        self._seconds, self._passes, self._set_up = 0, False, set()
        # Seconds that the tests took which may run alone, by node id, and that fixtures took, by number.
        self._durations, self._fixtures = {}, {}
        # By the number of a fixture, those that were there when it had been set up: it may need them.
        self._needs = {}

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session):
        tests = session.items if self._may_sample(session) else []
        sample = proctor_sample.start(self._measurement, lambda number: self._run_alone(tests[number])) if tests else None
        outcome = yield
        if sample is not None:
            is_whole = outcome.excinfo is None
            durations = {number: self._durations[test.nodeid] for number, test in enumerate(tests) if test.nodeid in self._durations}
            sample.end(durations if is_whole else {})

    def _may_sample(self, session):
        options = session.config.option
        # A directory for all temporary files is emptied by whoever uses it first.
        is_shared = any(getattr(options, name, None) for name in ("collectonly", "usepdb", "basetemp", "setupshow"))
        is_worker = "PYTEST_XDIST_WORKER" in os.environ
        return not is_shared and not is_worker and len(getattr(session, "items", ())) > 1

    def _run_alone(self, item):
        self._measurement.restart()
        self._used = ()
        proctor_project_coverage.leave_out_plugin(item.config.pluginmanager)
        factory = getattr(item.config, "_tmp_path_factory", None)
        if factory is not None:
            # Python reports what is made there as proctor's own.
            factory._basetemp = Path(proctor_sample.make_temporary_directory())
        self._measurement.begin()
        if all(report.passed for report in runtestprotocol(item, log=False, nextitem=None)):
            self._measurement.end(*self._places.of(item.nodeid), uses=self._used)

    def pytest_runtest_logreport(self, report):
        self._passes &= report.passed and not hasattr(report, "wasxfail")
        self._seconds += report.duration

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        self._used, self._seconds, self._passes, self._set_up = (), 0, True, set()
        self._measurement.begin()
        yield
        seconds = self._seconds + sum(self._fixtures.get(number, 0) for number in self._used)
        seconds = self._measurement.end(*self._places.of(item.nodeid), uses=self._used, seconds=seconds if self._passes else None)
        if seconds is not None:
            self._durations[item.nodeid] = seconds

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item):
        # pytest forgets afterwards what the test requested.
        used = self._set_up.union(self._requested(getattr(item, "_request", None)))
        for number in list(used):
            used.update(self._needs.get(number, ()))
        self._used = sorted(used)

    def _requested(self, request):
        """Numbers of the fixtures that have been requested so far, and of those that they may override."""
        requested = list(getattr(request, "_fixture_defs", {}).values())
        # By name, also those that the test requests later on.
        named = getattr(request, "_arg2fixturedefs", {})
        requested.extend(definition for definitions in named.values() for definition in definitions)
        return {self._numbers[id(one)][0] for one in requested if id(one) in self._numbers}

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":
            yield
            return
        number, began = self._number(fixturedef), proctor_sample.Clock.now()
        self._measurement.enter(number)
        outcome = yield
        self._measurement.leave(number)
        self._fixtures[number] = self._fixtures.get(number, 0) + proctor_sample.Clock.now() - began
        self._set_up.add(number)
        needs = self._requested(request).union(self._set_up) - {number}
        self._needs[number] = needs.union(*(self._needs.get(one, ()) for one in needs))
        if outcome.excinfo is None:
            # The last one that is added is the first one that runs.
            fixturedef.addfinalizer(lambda: self._measurement.enter(number))

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_post_finalizer(self, fixturedef):
        if fixturedef.scope != "function":
            self._measurement.leave(self._number(fixturedef))

    def _number(self, fixturedef):
        # With the definition itself, so that no other one gets its id.
        return self._numbers.setdefault(id(fixturedef), (len(self._numbers), fixturedef))[0]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self):
        self._measurement.finish()


class Reporter:
    """Writes the report, in the process that controls the whole run."""

    def __init__(self, config):
        self._report = proctor_python.Report()
        self._has_plugin = config.pluginmanager.hasplugin
        self._arguments = config.invocation_params.args
        self._places = None
        self._names = proctor_python.UniqueNames()
        self._phases = {}
        self._failed_subtests = {}
        self._starts = {}
        self._again = {}
        self._superseded = set()
        self._subtests = {}
        self._unloaded = set()
        self._runs_none = False
        self._is_whole = True
        self._session = None
        self._untold = {}
        self._report.write("begin")

    def note(self, text, unreached=False):
        self._report.write("note", text=text, unreached=unreached)

    def end(self):
        self._report.end(left=len(self._untold))

    def unloadable(self, path, error):
        told = proctor_python.describe_exception(error)
        if isinstance(error, pytest.UsageError):
            told["message"] = str(error)
        self._collector(path, dict(told, file=told["file"] or path, line=told["line"] or _line_of_plugins(path)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config):
        self._places = Places(config)
        # With these options pytest reports each setup and teardown, and no test.
        self._runs_none = any(getattr(config.option, name, False) for name in ("setuponly", "setupplan"))
        if self._runs_none:
            self.note("no test ran: the project's settings ask for fixtures alone (--setup-only or --setup-plan)")

    def pytest_runtest_logstart(self, nodeid):
        if self._runs_none:
            return
        self._starts[nodeid] = self._starts.get(nodeid, 0) + 1
        package, name = self._places.of(nodeid)
        self._report.write("started", package=package, name=name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        if hasattr(getattr(report, "context", None), "kwargs"):
            return self._subtest(report)
        key = getattr(report, "node", None), report.nodeid
        # pytest-rerunfailures gives the reports of one attempt the same number, and starts each attempt anew.
        attempt = key, getattr(report, "rerun", self._starts.get(report.nodeid))
        if report.outcome == "rerun" and attempt not in self._superseded:
            self._superseded.add(attempt)
            self._again[report.nodeid] = self._again.get(report.nodeid, 0) + 1
            self._phases.pop(key, None)
            self._failed_subtests.pop(key, None)
            self._subtests.pop(key, None)
        if attempt in self._superseded:  # from 16.7 on its teardown is told as well
            return None
        self._phases.setdefault(key, []).append(report)
        if report.when not in ("setup", "call"):  # the teardown, or what pytest-xdist says of a worker that crashed
            self._finished(key)
        return None

    def _subtest(self, report):
        key = getattr(report, "node", None), report.nodeid
        if report.failed:
            self._failed_subtests[key] = self._failed_subtests.get(key, 0) + 1
        if self._has_plugin("rerunfailures"):  # the whole test may run again, and hold
            self._subtests.setdefault(key, []).append(report)
        else:
            self._tell_subtest(report)

    def _tell_subtest(self, report):
        words = ["[%s]" % report.context.msg] if report.context.msg is not None else []
        if report.context.kwargs:
            words.append("(%s)" % ", ".join("%s=%s" % pair for pair in report.context.kwargs.items()))
        description = "/" + (" ".join(words) or "(<subtest>)")
        self._tell(report.nodeid + description, [report], _outcome([report]))

    def _finished(self, key):
        for subtest in self._subtests.pop(key, ()):
            self._tell_subtest(subtest)
        phases = self._phases.pop(key)
        self._untold.pop(key[1], None)
        outcome, decisive = _outcome(phases)
        if self._runs_none and outcome == "passed":
            return
        if self._failed_subtests.pop(key, 0) and (outcome == "passed" or not hasattr(decisive, TOLD)):
            # It has no failure of its own, only those of its subtests, which were reported already.
            self._tell(key[1], phases, ("failed", None))
        else:
            self._tell(key[1], phases, (outcome, decisive))

    def _tell(self, nodeid, phases, verdict):
        outcome, decisive = verdict
        package, name = self._places.of(nodeid)
        told = self._told(outcome, decisive) if decisive is not None else {}
        for phase in phases:
            also = getattr(phase, TOLD, None)
            if outcome == "failed" and phase.when == "teardown" and phase.failed and also:
                told["stack"] = "%s\nits teardown failed as well: %s\n%s" % (told.get("stack"), also["message"], also["stack"])
        is_kept = outcome not in ("passed", "xpassed")
        name = self._names.unique(package, name)
        self._report.write(
            "finished",
            package=package,
            name=name,
            outcome=outcome,
            duration_s=sum(phase.duration for phase in phases),
            **_parts(phases),
            output=_output(phases) if is_kept else None,
            failed_attempts=self._again.get(nodeid, 0),
            **told
        )
        for file in (file for phase in phases for file in getattr(phase, LEFT, ())):
            place = os.path.relpath(file, os.path.dirname(os.environ["PROCTOR_OUTPUT"]))
            kinds = (kind for kind, shape in KINDS if re.fullmatch(shape, os.path.basename(file)))
            self._report.write("artifact", package=package, name=name, path=place, kind=next(kinds, "other"))

    def _told(self, outcome, report):
        told = dict(getattr(report, TOLD, None) or {})
        if outcome == "passed":
            return {}
        if outcome in ("xfailed", "xpassed"):
            reason = report.wasxfail
            reason = reason[len("reason: ") :] if reason.startswith("reason: ") else reason
            told["message"] = reason or None
        elif outcome == "skipped":
            told = {"message": str(report.longrepr)}
            if isinstance(report.longrepr, tuple):
                file, line, reason = report.longrepr
                reason = reason[len("Skipped: ") :] if reason.startswith("Skipped: ") else reason
                told = {"message": reason}
                if proctor_python.is_project_file(os.path.join(self._places.root, str(file))):
                    told.update(file=os.path.join(self._places.root, str(file)), line=line)
        elif not told:
            # A message of pytest or pytest-xdist without an exception.
            told = {"message": str(report.longrepr), "stack": None}
        if not told.get("file") and report.location[1] is not None:
            told.update(file=os.path.join(self._places.root, report.location[0]), line=report.location[1] + 1)
        return told

    def pytest_collectreport(self, report):
        if report.failed:
            # A text of pytest-xdist begins with the message; a traceback ends with it.
            said, which = str(report.longrepr).strip().split("\n"), 0 if isinstance(report.longrepr, str) else -1
            told = getattr(report, TOLD, None) or {"message": said[which]}
            self._collector(os.path.join(self._places.root, report.nodeid), told, report.longreprtext)
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.note("%s was skipped as a whole, and pytest counts it as one test: %s" % (report.nodeid, reason))

    def _collector(self, path, told, output=None):
        # An absolute path, which proctor makes relative to the workspace. Each worker of pytest-xdist loads every file.
        path = path.rstrip("/")
        if path in self._unloaded:
            return
        self._unloaded.add(path)
        self._report.write(
            "collector",
            nodeid=path + "/." if path == proctor_python.workspace() else path,
            message=told["message"],
            file=told.get("file"),
            line=told.get("line"),
            output=output or told.get("stack"),
        )

    def pytest_deselected(self, items):
        # A selection by the request itself needs no note.
        asked = {"PROCTOR_SELECTION", "PROCTOR_SCOPE"}.intersection(os.environ) or any(arg.startswith("-k=") for arg in self._arguments)
        if items and not asked:
            self.note("%d test(s) are deselected by the project's own settings, such as -k, -m or --deselect" % len(items))

    def pytest_sessionstart(self, session):
        self._session = session

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids):
        # Each worker collects the same tests.
        self._untold.update((nodeid, None) for nodeid in ids)
        self._report.write("total", tests=len(self._untold))

    def pytest_collection_finish(self, session):
        if not session.config.option.collectonly and not self._runs_none:
            self._untold.update((item.nodeid, item.location) for item in session.items)
            if session.items:
                self._report.write("total", tests=len(session.items))
        if session.config.option.collectonly:
            for item in session.items:
                package, name = self._places.of(item.nodeid)
                self._report.write("listed", package=package, name=self._names.unique(package, name))

    def pytest_internalerror(self, excrepr, excinfo):
        self._is_whole = False
        told = proctor_python.describe_exception(excinfo.value)
        self._collector(self._places.root, dict(told, message="pytest broke: " + told["message"]), str(excrepr))

    def pytest_keyboard_interrupt(self, excinfo):
        # pytest.exit can end a run with status 0 before its last test; an interruption in pytest's sense never does.
        self._is_whole &= issubclass(excinfo.type, pytest.Session.Interrupted)
        self.note("pytest stopped before all tests had run: " + (str(excinfo.value) or excinfo.typename), True)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        # A wrong argument that pytest finds only now: its message on stderr names it.
        self._is_whole &= session.exitstatus != pytest.ExitCode.USAGE_ERROR
        if session.shouldfail:
            self.note("pytest stopped before all tests had run: %s" % session.shouldfail, True)
        if self._again:
            self.note("%d test(s) ran more than once, until they passed or the project gave up" % len(self._again))

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self):
        if not self._is_whole:
            return
        # Any other status is red anyway, and has a reason.
        if self._session is not None and self._session.exitstatus == pytest.ExitCode.OK:
            self._tell_untold()
        self.end()

    def _tell_untold(self):
        for nodeid, location in list(self._untold.items())[: proctor_python.UNREPORTED_MAX]:
            del self._untold[nodeid]
            package, name = self._places.of(nodeid)
            told = {"message": "nothing came of this test: a hook of the project or a plugin passed it over"}
            if location is not None and location[1] is not None:
                told.update(file=os.path.join(self._places.root, location[0]), line=location[1] + 1)
            self._report.write("finished", package=package, name=self._names.unique(package, name), outcome="error", **told)


def _outcome(phases):
    """Outcome of a test, and the phase that decides it."""
    failed = sorted((phase for phase in phases if phase.failed), key=lambda phase: phase.when != "call")
    if failed:
        return ("failed" if failed[0].when == "call" else "error"), failed[0]
    for phase in phases:
        if phase.skipped:
            return ("xfailed" if hasattr(phase, "wasxfail") else "skipped"), phase
        if phase.when == "call" and hasattr(phase, "wasxfail"):
            return "xpassed", phase
    return "passed", phases[-1]


def _parts(phases):
    """Set-up and processor time of a test. A subtest has neither: it is a part of the call."""
    around = [phase.duration for phase in phases if phase.when in ("setup", "teardown")]
    told = [] if any(hasattr(phase, HIDES) for phase in phases) else around
    used = [getattr(phase, USED) for phase in phases if hasattr(phase, USED)]
    parts = {"setup_s": told, "cpu_s": used}
    return {name: round(sum(times), 6) for name, times in parts.items() if around and times}


def _output(phases):
    sections = max((phase.sections for phase in phases), key=len)
    return "\n".join("--- %s ---\n%s" % section for section in sections) or None
