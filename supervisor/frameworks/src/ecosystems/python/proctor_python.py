"""What the pytest plugin and the unittest runner share: writing the report, describing failures, selecting tests.

Runs in the project's own interpreter, Python 3.7 or newer.
"""

import faulthandler
import json
import linecache
import os
import random
import re
import reprlib
import signal
import sys
import traceback

# Longest text of a field, in characters. proctor keeps less; this bounds the length of a report's line.
TEXT_MAX = 64 * 1024

# Longest name that proctor keeps, in bytes, and the mark of a cut.
NAME_MAX = 4 * 1024
CUT = "…"

# Most frames of a stack on either side of the cut: a recursion has a thousand.
FRAMES_MAX = 32

# The directory of the project; tests may change the working directory.
START = os.getcwd()

# Where proctor's own files are, such as this one's archive, the report and what is measured.
SCRATCH = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep

# Most exceptions of a chain of causes.
CAUSES_MAX = 8

# unittest's assertions whose first two arguments are the actual and the expected value.
EQUALITIES = {
    "assertAlmostEqual",
    "assertCountEqual",
    "assertDictEqual",
    "assertEqual",
    "assertIs",
    "assertListEqual",
    "assertMultiLineEqual",
    "assertSequenceEqual",
    "assertSetEqual",
    "assertTupleEqual",
}


# Seconds after a change of a file from which on new bytecode certainly belongs to the new text.
SETTLED_S = 2


def remove_stale_bytecode():
    """Removes the project's compiled modules that may belong to an earlier text, before any of them is loaded.

    Python uses compiled code if the size and the second of the last change match its source. An agent may change a digit twice
    within a second, and then the tests of the first text would run again.
    """
    prefix, own = getattr(sys, "pycache_prefix", None), workspace()
    if not prefix:
        return
    for directory, within, files in os.walk(prefix + own):
        within[:] = [name for name in within if name not in ("site-packages", "dist-packages")]
        for name in files:
            compiled = os.path.join(directory, name)
            source = os.path.join(directory[len(prefix) :], name.partition(".")[0] + ".py")
            try:
                # ctime and not mtime: no program can set it back.
                if os.stat(source).st_ctime + SETTLED_S > os.stat(compiled).st_mtime:
                    os.remove(compiled)
            except OSError:
                pass


# Signal on which this process prints its stacks: a real-time signal that no program uses. proctor sends it at the deadline.
STACK_SIGNAL = 62

# Most tasks whose stacks are printed, and most frames of each.
TASKS_MAX = 16
TASK_FRAMES_MAX = 64


def print_stacks_on_signal():
    """Prints the stacks of all threads and of asyncio's tasks on a signal, to what is now stderr.

    A runner may capture stderr later, and a test may be in a call that never returns to Python's own signal handlers.
    """
    try:
        stderr = os.dup(2)
        signal.signal(STACK_SIGNAL, lambda *_: _print_tasks(stderr))
        faulthandler.register(STACK_SIGNAL, file=stderr, all_threads=True, chain=True)
    except (OSError, ValueError, AttributeError):
        pass  # No stderr, not the main thread, or a Python without faulthandler: the run has no stacks.


def print_no_stacks():
    """In a forked process: nobody asks for its stacks."""
    faulthandler.unregister(STACK_SIGNAL)
    signal.signal(STACK_SIGNAL, signal.SIG_IGN)


def _print_tasks(stderr):
    """Prints what the tasks of a running event loop wait for, in the form of faulthandler, which sees only the loop."""
    tasks = getattr(sys.modules.get("asyncio"), "all_tasks", None)
    try:
        for task in list(tasks())[:TASKS_MAX] if tasks else ():
            frames = list(_awaited_frames(task.get_coro()))[:TASK_FRAMES_MAX]
            lines = ['  File "%s", line %d in %s' % frame for frame in reversed(frames)]
            os.write(stderr, "\n".join(["Task (most recent call first):"] + lines + [""]).encode("utf-8", "replace"))
    except Exception:  # No loop runs, or a task is not one of asyncio's: a test must not fail because of this.
        pass


def _awaited_frames(waiting):
    """File, line and function of a coroutine and of what it awaits, the outermost first."""
    while waiting is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(waiting, kind + "_frame")), None)
        frame = getattr(waiting, "%s_frame" % kind, None)
        if frame is None:
            return
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else kind + "_await", None)


# Most unreported tests that are named in a run that otherwise passed.
UNREPORTED_MAX = 256

# Taken before a test can replace it: a replaced `os.write` that writes nothing would be called for ever.
_write = os.write


class Report:
    """The report, written by the process that opened it and by none of its forks.

    Each line begins with a random word that only this process knows, so that lines of other writers are not taken for its own.
    """

    def __init__(self):
        path = os.environ.pop("PROCTOR_REPORT", None)
        self._token = os.urandom(16).hex()
        self._owner = os.getpid()
        self._tests = 0
        self._file = os.open(path, os.O_WRONLY | os.O_CLOEXEC) if path else None

    def write(self, event, **fields):
        """Writes one event. If the reader is gone, the tests go on without a report."""
        if self._file is None or os.getpid() != self._owner:
            return
        self._tests += event in ("finished", "listed")
        known = {key: _bounded(key, value) for key, value in fields.items() if value is not None}
        if event == "begin":
            line = json.dumps({"event": event, "token": self._token}) + "\n"
        else:
            line = "%s %s\n" % (self._token, json.dumps(dict(event=event, **known), ensure_ascii=False))
        rest = memoryview(line.encode("utf-8", "replace"))
        try:
            while rest:
                rest = rest[_write(self._file, rest) :]
        except OSError:
            self._file = None


    def end(self, left=0):
        """Reports that the runner is done: the number of reported tests, and how many tests were not reported."""
        self.write("end", tests=self._tests, left=left)


class Values(reprlib.Repr):
    """Prints values in bounded time, at a length at which different values mostly look different."""

    def __init__(self):
        super().__init__()
        self.maxlevel = 6
        self.maxtuple = self.maxlist = self.maxarray = self.maxdict = self.maxset = self.maxfrozenset = 200
        self.maxdeque = 200
        self.maxstring = self.maxlong = self.maxother = 4000


class UniqueNames:
    """Keeps tests of one name apart: the second `a` becomes `a#2`."""

    def __init__(self):
        self._seen = {}

    def unique(self, package, name):
        count = self._seen[package, name] = self._seen.get((package, name), 0) + 1
        return name if count == 1 else "%s#%d" % (name, count)


def describe_exception(exception, compared=None):
    """Describes an exception as fields of the report.

    `compared` may know the values of a comparison: it gets the traceback and returns the expected and the actual value as texts, or
    None.
    """
    frames = [frame for frame in traceback.walk_tb(exception.__traceback__) if not _is_hidden(frame[0])]
    file, line = _location(exception, frames)
    values, words = _unittest_values(exception.__traceback__) or (None, None)
    if values is None and compared is not None and isinstance(exception, AssertionError):
        values = compared(exception.__traceback__)
    expected, actual = values or (None, None)
    return {
        "file": file,
        "line": line,
        "message": _message(exception, words),
        "expected": expected,
        "actual": actual,
        "stack": _stack(exception),
    }


def format_value(value):
    """A value as text, within bounds."""
    try:
        return Values().repr(value)
    except Exception as error:  # A value that cannot be printed does not fail the test.
        return "<%s that cannot be printed: %s>" % (type(value).__name__, type(error).__name__)


def workspace():
    """The workspace's path, without a trailing slash."""
    return os.environ.get("PROCTOR_WORKSPACE") or os.getcwd()


def is_project_file(file):
    """Whether a file belongs to the project: in the workspace, and not installed there."""
    installed = "/site-packages/" in file or "/dist-packages/" in file
    return file.startswith(workspace() + "/") and not installed


# Stands for the file of a name that may be in any.
ANY_FILE = "*"


class Scope:
    """Which tests a run of all tests includes: regular expressions for names and for files relative to the workspace."""

    def __init__(self):
        lists = json.loads(os.environ.get("PROCTOR_SCOPE", "{}"))
        compiled = {key: re.compile("(?:%s)\\Z" % expression, re.DOTALL) for key, expression in lists.items()}
        self._name, self._no_name = compiled.get("names"), compiled.get("no_names")
        self._file, self._no_file = compiled.get("files"), compiled.get("no_files")
        self.is_everything = not lists
        # The initial working directory: a conftest or a test module may change it.
        self._start = os.getcwd()

    def has_file(self, path):
        """Whether a file or directory, relative to where the runner was started, may have tests of the scope."""
        whole = os.path.join(self._start, path)
        path = os.path.relpath(whole, os.path.join(self._start, workspace() or ".")).replace(os.sep, "/")
        if self._no_file is not None and self._no_file.match(path):
            return False
        return self._file is None or os.path.isdir(whole) or self._file.match(path) is not None

    def has(self, path, name):
        """Whether a test is in the scope: by its whole name, or the name of its class, function or method."""
        if self.is_everything:
            return True
        bare = name.partition("[")[0]
        names = {name, bare}.union(re.split(r"::|\.", bare))
        if self._no_name is not None and any(map(self._no_name.match, names)):
            return False
        return self.has_file(path) and (self._name is None or any(map(self._name.match, names)))


class Selection:
    """The selected tests, by their file or directory; the empty name stands for all tests there.

    `also` returns further names that a file's selected names stand for.
    """

    def __init__(self, also=lambda names: ()):
        self.tests = {}
        path = os.environ.get("PROCTOR_SELECTION")
        if path:
            with open(path, encoding="utf-8") as file:
                tests = json.load(file)
            self.tests = {package: self._known(names).union(also(names)) for package, names in tests.items()}

    @staticmethod
    def _known(names):
        # A subtest selects its test, and so does a repeated name (`#2`). pytest-xdist puts `@group` behind names.
        known = set(names)
        for name in names:
            known.update(name[: mark.start()] for mark in re.finditer("[/@#]", name))
        return known

    def has(self, package, *names):
        """Whether a test with any of these names is selected."""
        if not self.tests or not self.tests.get(package, set()).isdisjoint(map(kept_name, names)):
            return True
        if not self.tests.get(ANY_FILE, set()).isdisjoint(map(kept_name, names)):
            return True
        above = package.split("/")
        places = ["."] + ["/".join(above[: count + 1]) for count in range(len(above))]
        return any("" in self.tests.get(place, ()) for place in places)


class Order:
    """The order of the tests that the request asks for: `reversed`, `shuffled`, `shuffled:SEED`, or a file that names them."""

    def __init__(self):
        self._wanted = os.environ.get("PROCTOR_ORDER", "")
        self.is_own = not self._wanted
        kind, _, seed = self._wanted.partition(":")
        self.is_shuffled = kind == "shuffled"
        self.seed = int(seed) if self.is_shuffled and seed else None

    def of(self, tests, place):
        """The tests in this order. `place` has the file and the name of a test; the tests of a file stay together in a random order."""
        if self._wanted == "reversed":
            return tests[::-1]
        if self.is_shuffled:
            return self._shuffled(tests, place)
        with open(self._wanted, encoding="utf-8") as file:
            named = {tuple(pair): number for number, pair in enumerate(json.load(file))}
        return sorted(tests, key=lambda test: named.get(self._key(*place(test)), len(named)))

    def _shuffled(self, tests, place):
        chance = random.Random(self.seed) if self.seed is not None else random.SystemRandom()
        files = {}
        for test in tests:
            files.setdefault(place(test)[0], []).append(test)
        groups = list(files.values())
        chance.shuffle(groups)
        for group in groups:
            chance.shuffle(group)
        return [test for group in groups for test in group]

    @staticmethod
    def _key(package, name):
        return os.path.relpath(os.path.join(START, package), workspace()), kept_name(name)


def kept_name(name):
    """The name as proctor keeps it: a long one is cut, and others may have the same beginning."""
    name = name.encode("utf-8", "replace")
    if len(name) > NAME_MAX:
        return name[: NAME_MAX - len(CUT.encode())].decode("utf-8", "ignore") + CUT
    return name.decode()


def _bounded(key, value):
    if not isinstance(value, str) or len(value) <= TEXT_MAX:
        return value
    return keep_end(value) if key == "output" else value[:TEXT_MAX] + CUT


def keep_end(text, left_out=0):
    """The end of a text of which so many bytes are left out already, below the line that proctor writes above such an end."""
    # With room for the line within the bound, so that nothing is cut a second time.
    before, end = text[: -TEXT_MAX + 100], text[-TEXT_MAX + 100 :]
    left_out += len(before.encode("utf-8", "replace"))
    return "[%d bytes before this are left out]\n%s" % (left_out, end) if left_out else end


def _is_hidden(frame):
    hide = frame.f_locals.get("__tracebackhide__", frame.f_globals.get("__tracebackhide__", False))
    return hide is True


def _location(exception, frames):
    if isinstance(exception, SyntaxError) and exception.filename and is_project_file(exception.filename):
        return exception.filename, exception.lineno
    own = [(frame.f_code.co_filename, line) for frame, line in frames if is_project_file(frame.f_code.co_filename)]
    return own[-1] if own else (None, None)


def _message(exception, words):
    if isinstance(exception, SyntaxError):
        return "%s: %s" % (type(exception).__name__, exception.msg)
    text = "".join(traceback.format_exception_only(type(exception), exception)).strip()
    for prefix in ("AssertionError: ", "Failed: ", "Skipped: "):
        if text.startswith(prefix):
            text = text[len(prefix) :]
    # Playwright's call log is also in the output.
    text = text.partition("\nCall log:\n")[0].rstrip()
    if not isinstance(exception, AssertionError):
        return text
    lines = text.split("\n")
    at = next((number for number, line in enumerate(lines) if line.startswith("assert ")), None)
    if at is not None:
        # pytest explains the comparison below it; only the lines that say where the values come from are no diff.
        where = [line for line in lines[at + 1 :] if re.match(r"\s+\+\s+(where|and)\s", line)]
        return "\n".join(lines[: at + 1] + where)
    if re.search(r"\n(First |Second |[-+?] )", text):
        return lines[0] + (" : %s" % words if words else "")
    return text


def _unittest_values(tb):
    """The values that a unittest assertion compared, and the message that the test gave it."""
    for frame, _ in traceback.walk_tb(tb):
        code = frame.f_code
        if frame.f_globals.get("__name__") == "unittest.case" and code.co_name in EQUALITIES:
            actual, expected = (frame.f_locals.get(name) for name in code.co_varnames[1:3])
            return (format_value(expected), format_value(actual)), frame.f_locals.get("msg")
    return None


def _stack(exception):
    parts, seen = [], set()
    while exception is not None and id(exception) not in seen and len(seen) < CAUSES_MAX:
        if seen:
            parts.append("caused by " + _message(exception, None))
        seen.add(id(exception))
        shown = [frame for frame in traceback.walk_tb(exception.__traceback__) if _is_test_frame(frame[0])]
        shown.reverse()
        if len(shown) > 2 * FRAMES_MAX:
            left_out = len(shown) - 2 * FRAMES_MAX
            shown[FRAMES_MAX:-FRAMES_MAX] = [left_out]
        parts.extend("... %d more" % frame if isinstance(frame, int) else _frame(*frame) for frame in shown)
        cause = exception.__cause__
        exception = cause if cause is not None or exception.__suppress_context__ else exception.__context__
    return "\n".join(parts) or None


def _is_test_frame(frame):
    """Whether a frame belongs to the test: the runner's frames are the same for all tests."""
    module = str(frame.f_globals.get("__name__")).partition(".")[0]
    is_import = frame.f_code.co_filename.startswith("<frozen importlib")
    return not is_import and module not in ("_pytest", "pluggy") and "__unittest" not in frame.f_globals


def _frame(frame, line):
    file = frame.f_code.co_filename
    source = linecache.getline(file, line, frame.f_globals).strip()
    return "%s:%d in %s" % (file, line, frame.f_code.co_name) + ("\n    " + source if source else "")
