"""Measures which lines of the workspace each test executes, and appends them to a file that proctor reads after the run.

Needs `sys.monitoring` (Python 3.12). The tool id is one that nobody uses, so that tracers, debuggers and the project's own coverage
measurement stay as they are. Only code in the workspace has events, which an extension module stores (`proctor_lines.c`), or this
module for a Python that cannot load it. An audit hook sees code before
it is executed, whoever loads it, and sees processes that a test starts, of which no line is measured. No function of the project
or of Python is replaced.

What runs outside of any test (at import, during collection, in fixtures of a class, module or session) is written as shared lines,
with the tests that need them: all of this process, those of some files, or those that name the fixture's number.

The file has one record after the other: a line with JSON, and behind it as many words of 32 bits, the lowest byte first, as its
`n` says. The file of a test that ran alone (`proctor_sample.py`) begins with a record that says so. A record of the kind `lines` has the
lines of a loaded file that can be executed, and one of the kind `kept` those that were executed below a function that keeps values
(`proctor_keeping.py`). A word has a file's number (14 bits), whether the line is a module's or a class's own (1
bit), and the line.
"""

import array
import contextlib
import gc
import importlib.machinery
import importlib.util
import itertools
import json
import os
import re
import stat
import sys
import types

import proctor_changes
import proctor_keeping
import proctor_python

# A word: line below 2 ** 17, then a flag, then the file's number.
LINE_BITS = 17
OWN_LINE = 1 << LINE_BITS
FILE_SHIFT = LINE_BITS + 1
FILES_MAX = 1 << (32 - FILE_SHIFT)

# Most code objects that are measured. A large application has 100,000.
CODES_MAX = 500_000

# Most pieces of code of which the lines that can be executed are written: a file is mostly one piece.
PIECES_MAX = 4 * FILES_MAX

# Most bytes that one process writes: proctor reads 128 MiB of all processes.
BYTES_MAX = 48 * 1024 * 1024

# Most bytes of source that are searched for imports of test files. Beyond, every test file counts as imported by others.
SOURCE_BYTES_MAX = 64 * 1024 * 1024

# A line about imports, to its end or that of its brackets.
IMPORTS = re.compile(rb"^.*(?:import|pytest_plugins)(?:\\\n|[^\n(\[])*(?:[(\[][^)\]]*)?", re.MULTILINE)

# Name of the code of a module.
MODULE = "<module>"

# Flags of code: of a function, as opposed to a module or class; of one that Python may suspend for others, as a coroutine.
CO_OPTIMIZED = 1
CO_SUSPENDS = 0x80 | 0x200

# What `proctor_lines.c` is to know of a function: it has one line; it may be suspended for others; it keeps values in its `self` alone.
ONE_LINE, SUSPENDS, IN_SELF = 1, 4, 8

# What Python reports before it starts a process, or becomes another program.
STARTS = frozenset(
    ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen")
)

# Tool ids from 3 on have no meaning of their own; 5 is an optimiser's.
TOOL_IDS = (4, 3)

# The measurement of this process, if there is any.
current = None


def start():
    """Starts the measurement of this process if proctor asked for one, before any module of the project is loaded."""
    global current
    directory = os.environ.get("PROCTOR_COVERAGE")
    if directory and current is None:
        lines = open_lines()
        current = Measurement(directory, lines) if lines is not None else Note(directory, why_not())
    return current


def why_not():
    if sys.version_info < (3, 12):
        return "lines are not measured test by test: this needs Python 3.12 or newer, and the project's is %d.%d" % sys.version_info[:2]
    return "lines are not measured test by test: the tool ids of sys.monitoring are in use"


def open_lines():
    """The lines that Python reports to a tool id of our own; None where it has no such events, or no id is left."""
    monitoring = getattr(sys, "monitoring", None)
    for tool in TOOL_IDS if monitoring is not None else ():
        try:
            monitoring.use_tool_id(tool, "proctor")
        except ValueError:
            continue
        stored = load_storage()
        return Lines(monitoring, tool) if stored is None else StoredLines(monitoring, tool, stored)
    return None


def load_storage():
    """The extension module beside the archive of this one; None for a Python that cannot load it."""
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "proctor_lines.so")
    if sys.implementation.name != "cpython" or "t" in getattr(sys, "abiflags", "") or not os.path.isfile(path):
        return None
    try:
        loader = importlib.machinery.ExtensionFileLoader("proctor_lines", path)
        module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("proctor_lines", path, loader=loader))
        loader.exec_module(module)
    except ImportError:
        return None
    return module


class Lines:
    """Words of the lines that were executed since they were last taken."""

    # Whether it is known what was executed below functions that keep values.
    knows_kept = False

    def __init__(self, monitoring, tool):
        self._monitoring, self._tool = monitoring, tool
        # By id, since a code object's hash is computed from all it has. The code is kept, so that no other gets its id.
        self._codes = {}
        self._stopped = False
        # Called with the code of a module that is watched, as it returns.
        self.loaded = lambda code: None
        self._listen(*self._callbacks())

    def _callbacks(self):
        """The callbacks for a line, for the start of a function that has one, and for the end of a module."""
        self._words, self._bases = [], {}

        def executed(code, line, add=self._words.append, bases=self._bases, number=id, disable=self._monitoring.DISABLE):
            add(bases[number(code)] + line)
            return disable

        def began(code, _):
            return executed(code, code.co_firstlineno)

        def ended(code, *_):
            self.loaded(code)

        return executed, began, ended

    def _listen(self, executed, began, ended):
        events = self._monitoring.events
        for event, callback in (
            (events.LINE, executed),
            (events.PY_START, began),
            (events.PY_RESUME, began),
            (events.PY_RETURN, ended),
            (events.PY_YIELD, ended),
        ):
            self._monitoring.register_callback(self._tool, event, callback)

    def watch(self, code, base, keeps):
        """Asks for the lines of a code object, whose words begin at `base`, and `keeps(lines)` where it keeps values. Returns them, or
        nothing if they are watched already."""
        if id(code) in self._codes or len(self._codes) >= CODES_MAX or self._stopped:
            return ()
        self._codes[id(code)] = code
        first, lines = code.co_firstlineno, {line for _, _, line in code.co_lines() if line}
        # Python 3.13 reports no line of a function that is in the line of its `def` or `lambda`.
        flags = (ONE_LINE if lines == {first} else 0) | (SUSPENDS if code.co_flags & CO_SUSPENDS else 0)
        self._add(code, base, max(lines, default=first) - first + 1, flags)
        events = self._monitoring.events
        wanted = events.LINE | (events.PY_START if flags & ONE_LINE else 0) | (events.PY_RETURN if code.co_name == MODULE else 0)
        self._monitoring.set_local_events(self._tool, code, wanted)
        kept = keeps(lines) if self.knows_kept else None
        if kept is not None:
            self._keep(code, kept)
        return lines

    def _add(self, code, base, count, flags):
        self._bases[id(code)] = base

    def keep(self, is_keeping, suspends=False):
        """The functions that are watched so far keep values for which `is_keeping(code)` holds."""
        for code in list(self._codes.values()) if self.knows_kept else ():
            if is_keeping(code):
                self._keep(code, proctor_keeping.Keeps(suspends=suspends))

    def _keep(self, code, kept):
        pass

    def kept(self):
        """The words of all lines that were executed below functions that keep values."""
        return array.array("I")

    def forget(self):
        """A test begins: what began before has nothing to do with it."""

    def take(self):
        """The words since the last call. Each line is reported anew from now on."""
        # Another thread may add words meanwhile.
        count = len(self._words)
        words = array.array("I", self._words[:count])
        del self._words[:count]
        # Python prepares all code for this as it runs next, which is most of what such a measurement costs.
        self._monitoring.restart_events()
        return words

    def silence(self):
        """Turns off each line that is executed."""
        self._stopped = True
        disable = self._monitoring.DISABLE
        self._listen(lambda code, line: disable, lambda code, offset: disable, lambda code, offset, value: disable)

    def stop(self):
        """Gives the tool id back."""
        self.silence()
        for code in self._codes.values():
            self._monitoring.set_local_events(self._tool, code, 0)
        self._listen(None, None, None)
        self._monitoring.free_tool_id(self._tool)


class StoredLines(Lines):
    """The same, stored by the extension module."""

    knows_kept = True

    def __init__(self, monitoring, tool, stored):
        self._stored = stored
        # Functions that keep values, by id, with how they do.
        self._keeping = {}
        stored.start(None, monitoring.DISABLE, monitoring.restart_events, lambda code: self.loaded(code))
        super().__init__(monitoring, tool)

    def _callbacks(self):
        return self._stored.executed, self._stored.began, self._stored.ended

    def _add(self, code, base, count, flags):
        self._stored.watch(code, base, code.co_firstlineno, count, flags)

    def _keep(self, code, kept):
        self._keeping[id(code)] = code, kept
        self._stored.keep(code, (IN_SELF if kept.in_self else 0) | (SUSPENDS if kept.suspends else 0))
        events = self._monitoring.events
        wanted = events.PY_START | events.PY_RESUME | events.PY_RETURN | events.PY_YIELD
        self._monitoring.set_local_events(self._tool, code, wanted | self._monitoring.get_local_events(self._tool, code))

    # Bound before a test can replace it.
    def kept(self, collect=gc.collect):
        # An object that is in a circle is no longer there.
        collect()
        for code, kept in self._keeping.values():
            # An attribute that no object assigns to itself may be one for many.
            if kept.in_self and not kept.names <= proctor_keeping.assigned:
                self._stored.keep(code, 0)
            for line in kept.lines or (0,):
                self._stored.count(code, line)
        words = array.array("I")
        words.frombytes(self._stored.below())
        return words

    def forget(self):
        self._stored.forget()

    def take(self):
        words = array.array("I")
        words.frombytes(self._stored.take())
        if self._stored.disabled():
            self._monitoring.restart_events()
        return words


class Records:
    """The file of one process. It is opened for each record: a test may close all descriptors, or change the directory."""

    def __init__(self, directory):
        self._path = os.path.join(directory, "%d-%s" % (os.getpid(), os.urandom(4).hex()))
        self._left = BYTES_MAX
        self._owner = os.getpid()
        self.is_full = False

    # The defaults are bound before a test can replace these functions.
    def write(self, kind, record, words=None, open=os.open, write=os.write, close=os.close, pid=os.getpid):
        if self.is_full or pid() != self._owner:
            return
        content = b""
        if words is not None:
            record = dict(record, n=len(words))
            if sys.byteorder == "big":
                words.byteswap()
            content = words.tobytes()
        content = json.dumps(dict(record, kind=kind)).encode() + b"\n" + content
        self._left -= len(content)
        if self._left < 0:
            self.is_full = True
            content = b'{"kind":"note","text":"the lines of some tests are left out: their process executed too many"}\n'
        try:
            file = open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                while content:
                    content = content[write(file, content) :]
            finally:
                close(file)
        except OSError:
            self.is_full = True  # The measurement is lost, and nothing else.


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
        return not self._is_over and not self._records.is_full

    def sampled(self, tests, slowest):
        """So many tests were chosen to run alone, of those that took at most `slowest` seconds."""
        self._records.write("sampled", {"tests": tests, "seconds": slowest})

    def restart(self):
        """In a forked process: what is executed from now on is of one test that runs alone."""
        self._records, self._owner = Records(self._directory), os.getpid()
        self._shared, self._has_tests = {}, False
        self._records.write("alone", {})
        for path in self._files:
            self._records.write("file", {"path": path})
        self._lines.take()

    def _audit(self, event, arguments):
        if event == "exec":
            try:
                if not self._is_over:
                    self._watch(arguments[0])
            except Exception:  # A test may replace what this uses; it must not fail because of that.
                pass
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

    def _watch(self, code):
        if type(code) is not types.CodeType:
            return
        base = self._numbers.get(code.co_filename)
        if base is None:
            base = self._numbers[code.co_filename] = self._number(code)
        if base < 0:
            return
        codes, lines = [(code, OWN_LINE, ())], set()
        for one, flag, around in codes:
            if one.co_firstlineno < OWN_LINE:
                flag = 0 if one.co_flags & CO_OPTIMIZED else flag
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
        return any((line or 0) >= OWN_LINE for code in codes for _, _, line in code.co_lines())

    def outside(self, packages=None):
        """What was executed since the last call is shared: by the tests of these files, or by all of this process."""
        if not self._is_over:
            self._share("packages", packages, self._lines.take())

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
        if not self._has_tests:
            self._has_tests = True
            self._records.write("dir", {"path": os.path.relpath(self._start, self._own)})
        self._test, self._started_processes, self._processes = array.array("I"), False, processes()
        self._loading = []
        self._lines.forget()
        self.changes.begin_test()

    def end(self, package, name, uses=(), seconds=None):
        """The test that began has ended. `uses` are the numbers of the fixtures whose lines it shares. `seconds` is what it took if it
        passed, and is returned unless it may not run once more: it has to do with other processes, or may have changed something."""
        if self._is_over or self._test is None:
            return None
        self._fixtures = []
        self._interrupt()
        started = self._started_processes or self._has_processes or processes() != self._processes
        seconds = None if started or self.changes.has_test_changed else seconds
        name = proctor_python.kept_name(name)
        record = {"package": package, "name": name, "uses": list(uses), "processes": started, "seconds": seconds}
        self._records.write("test", record, self._test)
        self._test, self._loading = None, []
        return seconds

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

    def _interrupt(self):
        words = self._lines.take()
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
            self._records.write("kept", {}, self._lines.kept())
            self._records.write("imported", {"files": self._imported()})
        self._is_over = True
        self._lines.stop()

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


def spans(lines):
    """Lines as text, `3-5,8`."""
    found = []
    for line in sorted(lines):
        if found and line == found[-1][1] + 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return ",".join("%d" % first if first == last else "%d-%d" % (first, last) for first, last in found)


def processes():
    """How many processes multiprocessing has made so far: it starts them in a way that Python does not report."""
    module = sys.modules.get("multiprocessing.process")
    counter = getattr(module, "_process_counter", None)
    # A module that a test is the first to import has made none.
    return repr(counter if type(counter) is itertools.count else itertools.count(1))
