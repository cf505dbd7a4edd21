"""The lines that are executed, as Python reports them by `sys.monitoring` (Python 3.12) under a tool id that nobody uses: tracers,
debuggers and the project's own coverage measurement stay as they are.

An extension module stores them (`proctor_lines.c`), or this module for a Python that cannot load it. What they belong to it does not
know (`proctor_coverage.py`). An older Python has a tracer (`proctor_tracing.py`).
"""

import array
import gc
import importlib.machinery
import importlib.util
import os
import sys

import proctor_keeping
import proctor_positions

# Most code objects that are measured. A large application has 100,000.
CODES_MAX = 500_000

# Name of the code of a module.
MODULE = "<module>"

# Flags of code that Python may suspend for others, as a coroutine.
CO_SUSPENDS = 0x80 | 0x200

# What `proctor_lines.c` is to know of code: it has one line; it may be suspended for others; it keeps values in its `self` alone; it is of
# a module.
ONE_LINE, SUSPENDS, IN_SELF, IS_MODULE = 1, 4, 8, 32

# Tool ids from 3 on have no meaning of their own; 5 is an optimiser's.
TOOL_IDS = (4, 3)


def open_lines():
    """The lines that Python reports to a tool id of our own; None if no id is left."""
    monitoring = sys.monitoring
    for tool in TOOL_IDS:
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

    # Events of Python after which lines may not be seen.
    events = frozenset()

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
        first, lines = code.co_firstlineno, proctor_positions.lines(code)
        # Python 3.13 reports no line of a function that is in the line of its `def` or `lambda`.
        flags = (ONE_LINE if lines == {first} else 0) | (SUSPENDS if code.co_flags & CO_SUSPENDS else 0)
        flags |= IS_MODULE if code.co_name == MODULE else 0
        self._add(code, base, max(lines, default=first) - first + 1, flags)
        self._ask_for(code, flags)
        kept = keeps(lines) if self.knows_kept else None
        if kept is not None:
            self._keep(code, kept)
        return lines

    def _add(self, code, base, count, flags):
        self._bases[id(code)] = base

    def _ask_for(self, code, flags):
        """Has Python report what is wanted of a code object."""
        events = self._monitoring.events
        wanted = events.LINE | (events.PY_START if flags & ONE_LINE else 0) | (events.PY_RETURN if flags & IS_MODULE else 0)
        self._monitoring.set_local_events(self._tool, code, wanted)

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

    def note(self, event, arguments):
        """Notes one of the events after which lines may not be seen."""

    def misses(self):
        """Why lines may have been executed since the last call that were not seen; None if none was."""

    def resume(self):
        """Sees lines again from now on, if nothing of the project prevents it."""

    def is_in_force(self):
        """Whether lines are seen."""
        return True

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
