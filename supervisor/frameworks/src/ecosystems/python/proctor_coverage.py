"""Measures which lines of the workspace each test executes, and appends them to a file that proctor reads after the run.

Python reports the lines (`proctor_monitoring.py`, `proctor_tracing.py`) of code in the workspace only, and `proctor_records.py` writes
them. An audit hook sees code before it is executed, whatever loads it, and sees processes that a test starts, of which no line is
measured. No function of the project or of Python is replaced.

What runs outside of any test (at import, during collection, in fixtures of a class, module or session) is written as shared lines,
with the tests that need them: all of this process, those of some files, or those that name the fixture's number.
"""

import _signal
import array
import contextlib
import gc
import itertools
import os
import re
import stat
import sys
import types

import proctor_changes
import proctor_keeping
import proctor_monitoring
import proctor_positions
import proctor_python
import proctor_tracing
from proctor_monitoring import MODULE
from proctor_records import FILE_SHIFT, FILES_MAX, OWN_LINE, Records, spans

# Most pieces of code of which the lines that can be executed are written: a file is mostly one piece.
PIECES_MAX = 4 * FILES_MAX

# Most bytes of source that are searched for imports of test files. Beyond, every test file counts as imported by others.
SOURCE_BYTES_MAX = 64 * 1024 * 1024

# A line about imports, to its end or that of its brackets, of which a comment closes none.
IMPORTS = re.compile(rb"^.*(?:import|pytest_plugins)(?:\\\n|[^\n(\[])*(?:[(\[](?:#[^\n]*|[^)\]#])*)?", re.MULTILINE)

# Flag of the code of a function, as opposed to a module or class.
CO_OPTIMIZED = 1

# What Python reports before it starts a process, or becomes another program.
STARTS = frozenset(
    ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen")
)

# How the note begins that says why nothing is measured.
NOT_MEASURED = "lines are not measured test by test: "

# Most tests that a note names.
NAMED_MAX = 5

# The measurement of this process, if there is any.
current = None


def start():
    """Starts the measurement of this process if proctor asked for one, before any module of the project is loaded."""
    global current
    directory = os.environ.get("PROCTOR_COVERAGE")
    if directory and current is None:
        by = proctor_monitoring if hasattr(sys, "monitoring") else proctor_tracing
        lines = by.open_lines()
        current = Measurement(directory, lines) if lines is not None else Note(directory, why_not())
    return current


def why_not():
    if hasattr(sys, "monitoring"):
        return NOT_MEASURED + "the tool ids of sys.monitoring are in use"
    return NOT_MEASURED + (proctor_tracing.why_not() or "this Python cannot load the extension module that stores lines")


class Note:
    """No measurement, and why."""

    def __init__(self, directory, text):
        self._records, self._text = Records(directory), text

    def begin(self, between=None):
        if self._text is not None:
            self._records.write("note", {"text": self._text})
            self._text = None

    def outside(self, packages=None):
        pass

    def end(self, package, name, uses=(), seconds=None):
        return None

    is_complete = knows_kept = False
    enter = leave = finish = lambda *_: None


class Measurement:
    """The lines of one process, by test."""

    def __init__(self, directory, lines):
        self._lines = lines
        self._lines.loaded = self._loaded
        self._directory = directory
        self._records = Records(directory)
        self._owner = os.getpid()
        self._signals = _signal.valid_signals()
        self._start = os.getcwd()
        self._own = proctor_python.workspace() + "/"
        self._files, self._numbers = [], {}
        # Pieces of code whose lines are written already.
        self._described = set()
        # Names of functions whose values an assignment keeps, and the file that was loaded last.
        self._kept_names, self._source = set(), proctor_keeping.Source("")
        # Names of files of which it is not known what their functions keep.
        self._unread = set()
        # Words that are written already, by the tests that share them.
        self._shared = {}
        self._test = None
        self._fixtures = []
        # Numbers of the code of modules that a test or fixture is loading, each for the one before.
        self._loading = []
        # Of the test, and since a fixture of several tests, or between tests.
        self._started_processes = self._has_processes = False
        self.changes = proctor_changes.Changes(self._own)
        self._processes = None
        self._forks_itself = False
        self._has_tests = False
        self._is_over = False
        # Why lines of the test were not seen, and the names of all tests of which that holds, by why.
        self._missed, self._left_out = None, {}
        # Kept as they are, so that the lists of such functions that Python keeps can be found by them.
        self._at_fork = (lambda: None, lambda: None, self._fork)
        before, parent, child = self._at_fork
        os.register_at_fork(before=before, after_in_parent=parent, after_in_child=child)
        sys.addaudithook(self._audit)

    def _fork(self):
        """A forked process is another one, and may be one of many."""
        if not self._forks_itself:
            self._is_over = True
            self._lines.silence()
        # Functions of the project that run at a fork come later.
        self._forks_itself = False

    def runs_code_at_forks(self):
        """Whether the project has registered functions that run at a fork."""
        mine = {id(one) for one in self._at_fork}
        lists = (one for one in gc.get_referrers(*self._at_fork) if type(one) is list and not mine.isdisjoint(map(id, one)))
        return any(self._is_own_code(function) for functions in lists for function in functions if id(function) not in mine)

    def _is_own_code(self, function):
        function = getattr(function, "func", function)
        code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        path = os.path.join(self._start, getattr(code, "co_filename", "/"))
        return path.startswith(self._own) and proctor_python.is_project_file(path)

    @contextlib.contextmanager
    def forking(self):
        """Around a fork after which the measurement goes on in both processes."""
        self._forks_itself = True
        try:
            yield
        finally:
            self._forks_itself = False

    @property
    def knows_kept(self):
        """Whether it is known what was executed below functions that keep values."""
        return self._lines.knows_kept

    @property
    def is_complete(self):
        """Whether no record is lost so far."""
        return not self._is_over and not self._records.is_full and not self._left_out and self._lines.is_in_force()

    def sampled(self, tests, slowest):
        """So many tests were chosen to run alone, of those that took at most `slowest` seconds."""
        self._records.write("sampled", {"tests": tests, "seconds": slowest})

    def restart(self):
        """In a forked process: what is executed from now on is of one test that runs alone."""
        self._records, self._owner = Records(self._directory), os.getpid()
        self._shared, self._has_tests, self._left_out = {}, False, {}
        self._records.write("alone", {})
        for path in self._files:
            self._records.write("file", {"path": path})
        self._lines.take()

    def _audit(self, event, arguments):
        if event == "exec":
            code = arguments[0]
            if not self._is_over and type(code) is types.CodeType and self._numbers.get(code.co_filename, 0) >= 0:
                self._watch_undisturbed(code)
        elif event in self._lines.events:
            self._lines.note(event, arguments)
        elif event in proctor_changes.EVENTS:
            self.changes.note(event, arguments, in_test=self._test is not None, in_fixture=bool(self._fixtures))
        elif event in STARTS and not self._forks_itself:
            self.changes.refuse()
            # What a fixture of several tests starts, a hook between tests, or a module of the project, may serve any later test.
            if self._fixtures or self._test is None and (self._has_tests or self._is_of_project()):
                self._has_processes = True
            self._started_processes = True

    def _is_of_project(self, frame_of=sys._getframe):
        """Whether the project's code runs here, and not a library as it is imported."""
        frame = frame_of()
        while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
            if self._numbers.get(frame.f_code.co_filename, -1) >= 0:
                return True
            frame = frame.f_back
        return False

    # Bound before a test can replace it.
    def _watch_undisturbed(self, code, mask=_signal.pthread_sigmask, block=_signal.SIG_BLOCK, restore=_signal.SIG_SETMASK):
        """Watches a code. What the project's handlers of signals raise meanwhile, they raise behind it: it is for the project."""
        before = mask(block, self._signals)
        try:
            self._watch(code)
        except Exception:  # A test may replace what this uses; it must not fail because of that.
            pass
        finally:
            mask(restore, before)

    def _watch(self, code):
        base = self._numbers.get(code.co_filename)
        if base is None:
            base = self._numbers[code.co_filename] = self._number(code)
        if base < 0:
            return
        codes, lines = [(code, OWN_LINE, ())], set()
        for one, flag, around in codes:
            if one.co_firstlineno < OWN_LINE:
                flag = 0 if one.co_flags & CO_OPTIMIZED else flag
                proctor_keeping.note_class(one, around)
                lines.update(self._lines.watch(one, base + flag, lambda lines: self._keeps(one, lines, around)))
                codes.extend((inner, flag, (*around, one)) for inner in one.co_consts if type(inner) is types.CodeType)
        self._describe(base >> FILE_SHIFT, code, lines)
        # An empty module has no lines, and returns nevertheless.
        if lines and code.co_name == MODULE and (self._fixtures or self._test is not None or self.changes.is_watched):
            self._interrupt()
            self._loading.append(id(code))

    def _keeps(self, code, lines, around):
        """How a function keeps values; None if it keeps none. It, a module or a class may have those of others kept."""
        try:
            names, kept = self._read_keeping(code, lines, around)
        except Exception:
            # No function that keeps values may be missed: all of the file count, and all that have a name which is used here.
            names, kept = set(code.co_names), None
            self._unread.add(code.co_filename)
            self._lines.keep(self._is_unread, suspends=True)
        names -= self._kept_names
        if names:
            self._kept_names |= names
            self._lines.keep(lambda one: proctor_keeping.is_named(one, names))
        if self._is_unread(code):
            return proctor_keeping.Keeps(suspends=True)
        is_kept = code.co_flags & CO_OPTIMIZED and proctor_keeping.is_named(code, self._kept_names)
        return proctor_keeping.Keeps() if is_kept else kept

    def _is_unread(self, code):
        """Whether it is not known what a function keeps."""
        return code.co_flags & CO_OPTIMIZED and code.co_filename in self._unread

    def _read_keeping(self, code, lines, around):
        """The names of functions whose values a code has kept, and how it keeps values itself, by its source."""
        path = os.path.join(self._start, code.co_filename)
        if self._source.path != path:
            self._source = proctor_keeping.Source(path)
        names = self._source.kept_names(code, lines)
        return names, self._source.keeps(code, lines, around) if code.co_flags & CO_OPTIMIZED else None

    def _loaded(self, code):
        """The code of a module ends. What a test or fixture executed meanwhile, no other will: the module is loaded once."""
        if id(code) in self._loading and not self._is_over:
            self._interrupt()
            # With those that have not ended as they should.
            del self._loading[self._loading.index(id(code)) :]

    def _describe(self, number, code, lines):
        """Writes which lines of a file can be executed, once for each piece of code that is loaded from it."""
        piece = number, code.co_firstlineno, code.co_name
        if lines and piece not in self._described and len(self._described) < PIECES_MAX:
            self._described.add(piece)
            self._records.write("lines", {"of": number, "spans": spans(lines)})

    # Bound before a test can replace or count it.
    def _number(self, code, status_of=os.stat):
        """The first word of a file; -1 if it is not measured."""
        path = os.path.normpath(os.path.join(self._start, code.co_filename))
        relative = path[len(self._own) :]
        is_own = path.startswith(self._own) and proctor_python.is_project_file(path)
        try:
            status = status_of(path) if is_own else None
        except OSError:
            return -1
        if status is None or not stat.S_ISREG(status.st_mode) or len(self._files) >= FILES_MAX or self._is_long(code, status):
            return -1
        self._files.append(relative)
        self._records.write("file", {"path": relative})
        return (len(self._files) - 1) << FILE_SHIFT

    @staticmethod
    def _is_long(code, status):
        """Whether a file has lines that no word can hold. A line has at least one byte."""
        if status.st_size < OWN_LINE:
            return False
        codes = [code]
        for code in codes:
            codes.extend(one for one in code.co_consts if type(one) is types.CodeType)
        return any(line >= OWN_LINE for code in codes for line in proctor_positions.lines(code))

    def outside(self, packages=None):
        """What was executed since the last call is shared: by the tests of these files, or by all of this process."""
        if not self._is_over:
            self._share("packages", packages, self._lines.take())
            self._check()

    def _share(self, kind, key, words):
        known = self._shared.setdefault((kind, key), set())
        new = array.array("I", set(words) - known)
        if new:
            known.update(new)
            self._records.write(kind, {"of": key}, new)

    def begin(self, between=None):
        """A test begins; what ran before it is shared by the tests of the files `between`, or by all."""
        if self._is_over:
            return
        self.outside(between)
        if self._is_over:
            return
        if not self._has_tests:
            self._has_tests = True
            self._records.write("dir", {"path": os.path.relpath(self._start, self._own)})
        self._test, self._started_processes, self._processes = array.array("I"), False, processes()
        self._missed = None
        self._loading = []
        self._lines.forget()
        self.changes.begin_test()

    def end(self, package, name, uses=(), seconds=None):
        """The test that began has ended. `uses` are the numbers of the fixtures whose lines it shares. `seconds` is what it took if it
        passed, and is returned unless it may not run once more: it has to do with other processes, or may have changed something."""
        if self._is_over or self._test is None:
            return None
        self._check()
        self._fixtures = []
        self._interrupt()
        if self._missed is not None:
            self._leave_out(package, name)
            return None
        started = self._started_processes or self._has_processes or processes() != self._processes
        seconds = None if started or self.changes.has_test_changed else seconds
        name = proctor_python.kept_name(name)
        record = {"package": package, "name": name, "uses": list(uses), "processes": started, "seconds": seconds}
        self._records.write("test", record, self._test)
        self._test, self._loading = None, []
        return seconds

    def _leave_out(self, package, name):
        """The test that ends executed lines that were not seen: nothing is known of it. It may have had any function keep values."""
        self._test, self._loading = None, []
        if not self._is_over:
            self._left_out.setdefault(self._missed, []).append("%s of %s" % (proctor_python.kept_name(name), package))
            self._lines.resume()

    def enter(self, fixture):
        """What runs from now on belongs to the fixture with this number."""
        if not self._is_over:
            self._interrupt()
            self._fixtures.append(fixture)

    def leave(self, fixture):
        """The fixture that was entered last ends, if it is this one."""
        if not self._is_over and self._fixtures[-1:] == [fixture]:
            self._interrupt()
            self._fixtures.pop()

    def _check(self):
        """Notes why lines were not seen since the last call, and ends the measurement if they are not of the test alone."""
        missed = None if self._is_over else self._lines.misses()
        if missed is not None:
            self._missed = missed
            if self._fixtures or self._loading or self._test is None:
                self._lose(missed)

    def _lose(self, why):
        """From now on nothing is known of what runs in this process."""
        if self._has_tests:
            text = "the lines of the last tests of a process are left out, as %s" % why
        else:
            text = NOT_MEASURED + (proctor_tracing.has_tracer() if why == proctor_tracing.TRACER else why)
        self._records.write("note", {"text": text})
        self._is_over = True
        self._lines.stop()

    def _interrupt(self):
        words = self._lines.take()
        self._check()
        is_alone = not self._fixtures and self._test is None
        if is_alone or self._loading:
            self._share("packages", None, words)
        if self._fixtures:
            self._share("fixture", self._fixtures[-1], words)
        elif self._test is not None:
            self._test.extend(words)

    # Bound before a test can replace it.
    def finish(self, packages=None, pid=os.getpid):
        """Writes what was executed since the last test, and ends the measurement."""
        if self._is_over or pid() != self._owner:
            return
        if self._has_tests:
            self.outside(packages)
        if self._has_tests and not self._is_over:
            self._write_end()
        self._is_over = True
        self._lines.stop()

    def _write_end(self):
        for why, tests in self._left_out.items():
            text = "the lines of %d test(s) are left out, as %s: %s" % (len(tests), why, ", ".join(tests[:NAMED_MAX]))
            self._records.write("note", {"text": text})
        # What these tests had functions keep is not known. Without these records the process counts as one that ended early.
        if not self._left_out:
            self._records.write("kept", {}, self._lines.kept())
            self._records.write("imported", {"files": self._imported()})

    def _imported(self):
        """Numbers of the files whose module another measured file may import: it has the name in a line about imports."""
        names, left = {}, SOURCE_BYTES_MAX
        for number, path in enumerate(self._files):
            try:
                with open(self._own + path, "rb") as file:
                    content = file.read(left)
            except OSError:
                content = b""
            left -= len(content)
            for name in set(re.findall(rb"\w+", b"\n".join(IMPORTS.findall(content)))):
                names.setdefault(name, set()).add(number)
        if left <= 0:
            return list(range(len(self._files)))
        stems = (os.path.basename(path[: -len("/__init__.py")] if path.endswith("/__init__.py") else path) for path in self._files)
        stems = (stem.partition(".")[0].encode() for stem in stems)
        return [number for number, stem in enumerate(stems) if names.get(stem, set()) - {number}]


def processes():
    """How many processes multiprocessing has made so far: it starts them in a way that Python does not report."""
    module = sys.modules.get("multiprocessing.process")
    counter = getattr(module, "_process_counter", None)
    # A module that a test is the first to import has made none.
    return repr(counter if type(counter) is itertools.count else itertools.count(1))
