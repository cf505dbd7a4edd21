"""The lines that are executed, as CPython from 3.9 to 3.11 reports them to a tracer (`proctor_tracer.c`). It has no `sys.monitoring`
(`proctor_monitoring.py`).

Python has one tracer for each thread. That of the project comes first: a debugger, a coverage measurement, or what a test sets. While it
is in force, and in threads that Python's `threading` has not started, lines are not seen. What follows for the tests, this does not
decide (`proctor_coverage.py`).
"""

import array
import os
import sys
import threading
import time

import proctor_monitoring

# Most time for a thread that has begun to set its tracer.
THREAD_SECONDS_MAX = 1.0

# Why lines are not seen, as notes say.
TRACER = "a tracer of the project was in force"
THREAD = "a thread ran that Python's `threading` has not started, or not traced"
FAILED = "the end of a module could not be noted"


def open_lines():
    """The lines that Python reports to a tracer of ours; None if that is not possible."""
    stored = proctor_monitoring.load_storage() if why_not() is None else None
    return TracedLines(stored) if stored is not None else None


def why_not():
    """Why lines cannot be measured by a tracer; None if they can, unless the extension module cannot be loaded."""
    if sys.version_info < (3, 9):
        return "this needs Python 3.9 or newer, and the project's is %d.%d" % sys.version_info[:2]
    if sys.implementation.name != "cpython":
        return "this needs CPython, and the project's Python is %s" % sys.implementation.name
    if "PROCTOR_TRACER" not in os.environ:
        return "Python %d.%d has only tracers for this, which some tests notice: coverage `on` allows one" % sys.version_info[:2]
    if sys.gettrace() is not None:
        return has_tracer()
    return None


def has_tracer():
    """Why nothing is measured in a process that has a tracer of the project's own."""
    return (
        "a coverage measurement or debugger of the project's own has the one tracer of Python %d.%d (from Python 3.12 on, both have room)"
        % sys.version_info[:2]
    )


class TracedLines(proctor_monitoring.StoredLines):
    """Lines that the tracer of the extension module stores."""

    events = frozenset(("sys.settrace",))

    # Bound before a test can replace them.
    _gettrace, _ident, _frame_of = staticmethod(sys.gettrace), staticmethod(threading.get_ident), staticmethod(sys._getframe)
    _now, _sleep, _settrace = staticmethod(time.monotonic), staticmethod(time.sleep), staticmethod(threading.settrace)
    _begins_thread = getattr(getattr(threading.Thread, "_bootstrap_inner", None), "__code__", None)

    def __init__(self, stored):
        self._stored = stored
        self._codes, self._keeping = {}, {}
        self._stopped = False
        self.loaded = lambda code: None
        stored.start(None, None, None, lambda code: self.loaded(code))
        self._has_first_arguments = learn_layout(stored)
        # Why lines were missed since the last call of `misses`, and why all are from now on.
        self._missed = self._is_blind = None
        # The threads that `threading` has started: a list, as they add to it at the same time.
        self._main, self._traced_threads = threading.main_thread().ident, []
        self._other_threads = 0
        stored.new_threads()
        # A method would be a new one each time.
        self._hook = stored.traced
        self._trace_threads()
        stored.install(self._hook, self._gettrace)

    def _trace_threads(self):
        """Has `threading` set the tracer in each new thread, unless the project has it set another one."""
        if getattr(threading, "_trace_hook", None) is None:
            self._settrace(self._hook)

    def _ask_for(self, code, flags):
        pass

    def _add(self, code, base, count, flags):
        # The tracer is told each line.
        super()._add(code, base, count, flags & ~proctor_monitoring.ONE_LINE)

    def _keep(self, code, kept):
        self._keeping[id(code)] = code, kept
        in_self = kept.in_self and self._has_first_arguments and code.co_argcount and code.co_varnames[0] == "self"
        flags = (proctor_monitoring.IN_SELF if in_self else 0) | (proctor_monitoring.SUSPENDS if kept.suspends else 0)
        self._stored.keep(code, flags)

    def note(self, event, arguments):
        """A tracer of the project is going to be set in this thread, or removed."""
        if self._stopped or self._stored.is_setting():
            return
        # This function, that of the audit hook, and then the one that sets the tracer.
        caller = self._frame_of(2)
        if caller is not None and caller.f_code is self._begins_thread and threading._trace_hook is self._hook:
            self._traced_threads.append(None)
            return
        if self._ident() != self._main:
            # Python says of the main thread alone when it goes on: this one may have no tracer of ours any more.
            self._is_blind = TRACER
        # What sets none misses no line, as Python's doctest does.
        elif caller is None or not self._stored.expect(caller):
            self._missed = TRACER

    def misses(self):
        if self._stopped:
            return None
        if not self._stored.is_in_force():
            self._missed = TRACER
        if self._stored.has_failed():
            self._missed = FAILED
        if self._is_blind is None and self._has_other_threads():
            self._is_blind = THREAD
        missed, self._missed = self._is_blind or self._missed, None
        return missed

    def _has_other_threads(self):
        """Whether threads have begun that have no tracer of ours."""
        self._other_threads += self._stored.new_threads()
        until = None
        while self._other_threads > len(self._traced_threads):
            until = until or self._now() + THREAD_SECONDS_MAX
            if self._now() > until:
                return True
            self._sleep(0.001)
        return False

    def resume(self):
        if not self._stopped and not self._stored.is_in_force() and self._ident() == self._main and self._gettrace() is None:
            self._stored.install(self._hook, self._gettrace)

    def is_in_force(self):
        return self._stored.is_in_force() and self._is_blind is None

    def forget(self):
        super().forget()
        self._trace_threads()

    def take(self):
        words = array.array("I")
        words.frombytes(self._stored.take())
        return words

    def silence(self):
        """Removes the tracer, unless it is the project's."""
        self._stopped = True
        if getattr(threading, "_trace_hook", None) is self._hook:
            self._settrace(None)
        self._stored.remove()

    def stop(self):
        self.silence()


def learn_layout(stored, frame_of=sys._getframe):
    """Has the extension module learn where a frame has the first argument of its function, and whether it knows that."""

    def has_argument(first):
        return stored.learn_layout(sys.version_info[1], frame_of(), first)

    return bool(has_argument(object()))
