"""Finds the functions of a source that keep values for later calls, as caches do.

What is executed while such a function is on the stack, a later test may need that does not execute it: the value is kept. Functions are
told by what their code stores, and where the source has it, so that it is rather too many. What a test itself keeps is for no other test.
"""

import opcode
import os
import re

# Parts of the names of decorators and other functions that keep what a function returns.
CACHING = re.compile(rb"cache|memo|once|lazy|singleton|jit|tf\.function|compile", re.IGNORECASE)

# Decorators of the standard library that keep what a function returns: those in test files have many names.
CACHES = re.compile(rb"lru_cache|@cache|functools\.cache|cached_property")

# What the standard library compiles keeps no function's value.
COMPILES = re.compile(rb"\bre\.compile\b")

# A default of a parameter that can change: it is made once.
DEFAULT = re.compile(rb"=\s*(?:\{\s*\}|\[\s*\]|dict\(\)|set\(\))")

# The class of an object, or the names of a module.
OF_CLASS = re.compile(rb"cls\b|type\(self\)|self\.__class__\b|globals\(\)")

# Methods that change what they are of, and one of them behind the expression for it.
METHODS = ("setdefault", "append", "appendleft", "add", "update", "insert", "extend")
CHANGING = re.compile(rb"\.\s*(?:%s)$" % "|".join(METHODS).encode())

# A call that sets an attribute, and the object.
SETTING = re.compile(rb"setattr\(\s*([\w.\[\]]+)")

# A line in which a name begins to stand for what another expression does.
ALIAS = re.compile(rb"\s*(\w+)\s*=\s*([A-Za-z_][\w.]*)(?:\[[^\]]*\])?\s*$")

# An attribute of a class that can change, and is one for all its objects.
SHARED = re.compile(rb"\s*(\w+)\s*(?::[^=]+)?=\s*(?:[{\[]|\w*(?:dict|set|list|Dict|Counter|deque|Dictionary|Set)\()")

# A condition for a value that an object does not have yet, and the attributes that a line asks for.
MISSING = re.compile(rb"\bif\b.*(?:\bnot\b|\bis None\b|hasattr\(|getattr\(|__dict__)")
HAS_FAILED = re.compile(rb"\s*except\b.*\b(?:AttributeError|KeyError|LookupError|IndexError)\b")
ATTRIBUTE = re.compile(rb"\bself(?:\.|,\s*[\"'])(\w+)")

# The set-up of a package: tests need it that are in other files.
SET_UP = ("setup_module", "setUpModule", "setup_package", "setup")

# Fixtures of a class, of which it is known which tests use them.
SET_UP_OF_CLASS = ("setUpClass", "setup_class")

# Lines of a module or class that assign nothing.
NO_ASSIGNMENT = (b"#", b"@", b"def ", b"async ", b"class ", b"import ", b"from ")

# Instructions that change a name of the module, a name of a function around this one, and a part of something.
GLOBAL, AROUND = opcode.opmap.get("STORE_GLOBAL"), opcode.opmap.get("STORE_DEREF")
PARTS = {opcode.opmap.get(name) for name in ("STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE")}
# Those that read an attribute or a name, before it is called.
READS = {opcode.opmap.get(name) for name in ("LOAD_ATTR", "LOAD_GLOBAL")}

# Those that go back, as a loop does, and that give the next one a larger argument.
BACK = {opcode.opmap.get(name) for name in ("JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")}
EXTENDED = opcode.opmap.get("EXTENDED_ARG")

# Where a function keeps what it returns: behind its last instruction. No line of it says so, and it is not in an object alone.
RETURNED = 2**31 - 1, (), False

# Of what an expression is a part.
OWN, IN_SELF, OUTSIDE = range(3)

# Flag of the code of a function, as opposed to that of a module or class.
CO_OPTIMIZED = 1

# Most lines before the body of a function: its decorators, and its head.
HEAD_MAX = 100


class Source:
    """One file, and which of its functions keep values."""

    def __init__(self, path):
        name = os.path.basename(path)
        self.path = path
        self._is_of_tests = name.startswith("test") or name.endswith("_test.py")
        self._is_package = name == "__init__.py"
        self._lines = None
        # By the id of a class's code, which is kept: the names of its attributes that can change and are no object's own.
        self._shared = {}

    # Bound before a test can replace it.
    def _line(self, number, open=open):
        if self._lines is None:
            try:
                with open(self.path, "rb") as file:
                    self._lines = file.read().splitlines()
            except OSError:
                self._lines = []
        return self._lines[number - 1] if 0 < number <= len(self._lines) else b""

    def keeps(self, code, lines, around):
        """Where a function with this code and these lines keeps values: the place of the last instruction that does, or from which one
        can be reached, the lines of them all, and whether they are in its `self` alone. None if it keeps none. `around` has the codes that
        it is in, the outermost first."""
        classes = [one for one in around[1:] if not one.co_flags & CO_OPTIMIZED]
        decorators, head = self._head(code)
        decorators = b"".join([*decorators, *(self._decorators_of_class(one) for one in classes)])
        if (CACHES if self._is_of_tests else CACHING).search(decorators):
            return RETURNED
        if self._is_package and code.co_name in SET_UP:
            return RETURNED
        if self._is_of_tests and any(name.startswith("test") for name in code.co_qualname.split(".")):
            return None
        if DEFAULT.search(b"".join(head)):
            return RETURNED
        places, in_self = self._changes(code, lines, classes)
        if not places:
            return None
        return self._reaching(code, max(places)), set(places.values()), in_self

    def _head(self, code):
        """The lines of decorators and of the head of a function. A lambda has none."""
        decorators, head = [], []
        for number in range(code.co_firstlineno, code.co_firstlineno + HEAD_MAX) if code.co_name.isidentifier() else ():
            line = self._line(number)
            is_head = head or re.match(rb"\s*(?:async\s+)?def\b", line)
            (head if is_head else decorators).append(line)
            if is_head and line.rstrip().endswith(b":"):
                break
        return decorators, head

    def _decorators_of_class(self, code):
        decorators = []
        for number in range(code.co_firstlineno, code.co_firstlineno + HEAD_MAX):
            if re.match(rb"\s*class\b", self._line(number)):
                return b"".join(decorators)
            decorators.append(self._line(number))
        return b""

    def _changes(self, code, lines, classes):
        """The places of instructions that change what is not the function's own, each with its line, and whether all of them change
        what its `self` has kept."""
        operations = code.co_code[::2]
        used = set(operations)
        is_called = not {*METHODS, "setattr"}.isdisjoint(code.co_names)
        if not is_called and used.isdisjoint({GLOBAL, *PARTS}) and not (code.co_freevars and AROUND in used):
            return {}, False
        owner, owners = self._owner(code, lines, classes), set()
        places, positions = {}, list(code.co_positions())
        # A call begins where its function is read.
        calls = {(first, begin): number for number, (first, _, begin, _) in enumerate(positions)}
        for number, (operation, position) in enumerate(zip(operations, positions)):
            if operation in PARTS:
                of = owner(self._at(position))
            elif operation in READS:
                changed = self._changed(position)
                of = owner(changed) if changed else OWN
            elif operation == AROUND:
                name = re.match(rb"\w*", self._at(position)).group().decode()
                of = OUTSIDE if name in code.co_freevars else OWN
            else:
                of = OUTSIDE if operation == GLOBAL else OWN
            if of != OWN:
                owners.add(of)
                first, _, begin, _ = position
                number = calls[first, begin] if operation in READS else number
                places[2 * number] = first or 0
        return places, owners == {IN_SELF}

    @staticmethod
    def _reaching(code, last):
        """The last instruction, by its place, from which the one at `last` can be reached."""
        operations, arguments, more = code.co_code[::2], code.co_code[1::2], 0
        for number, (operation, argument) in enumerate(zip(operations, arguments)):
            argument |= more << 8
            more = argument if operation == EXTENDED else 0
            # An argument counts from behind the instruction, whose length is not known here.
            if operation in BACK and 2 * (number + 1 - argument) <= last:
                last = max(last, 2 * number)
        return last

    def _at(self, position):
        """The source from where an instruction is."""
        line, _, column, _ = position
        return self._line(line or 0)[column or 0 :].lstrip(b"(* ")

    def _changed(self, position):
        """The expression that a call changes whose function is read here; none if it changes none."""
        first, last, begin, end = position
        line = self._line(last or 0)
        setting = SETTING.match(line, begin or 0) if line[begin or 0 : end] == b"setattr" else None
        if setting:
            return setting.group(1)
        method = CHANGING.search(line[:end])
        return self._at(position) if method and (first != last or method.start() > (begin or 0)) else b""

    def _owner(self, code, lines, classes):
        """A function that says of what an expression is a part: of what is the function's own, as an object that it was given or made, of
        what its `self` has kept, or of what is outside."""
        local = {*code.co_varnames, *code.co_cellvars, "self", "super"}
        of_class = OWN if self._is_of_tests and code.co_name in SET_UP_OF_CLASS else OUTSIDE
        shared = self._shared_of(classes[-1]) if classes else set()
        text = [self._line(line) for line in sorted(lines)]
        # An object that is being made has no value yet.
        missing = self._missing(text) if code.co_name != "__init__" else set()

        def owner(expression):
            if OF_CLASS.match(expression):
                return of_class
            name = re.match(rb"[A-Za-z_]\w*", expression)
            if name is None:
                return OWN
            attribute = ATTRIBUTE.match(expression)
            if attribute is None:
                return OWN if name.group().decode() in local else OUTSIDE
            if attribute.group(1) in shared and expression[attribute.end() : attribute.end() + 1] in (b".", b"["):
                return OUTSIDE
            return IN_SELF if attribute.group(1) in missing else OWN

        for alias in filter(None, map(ALIAS.match, text)):
            if alias.group(2) not in (b"None", b"True", b"False") and owner(alias.group(2) + b".") == OUTSIDE:
                local.discard(alias.group(1).decode())
        return owner

    def _shared_of(self, code):
        if id(code) not in self._shared:
            lines = map(self._line, {line for _, _, line in code.co_lines() if line})
            found = (SHARED.match(line) for line in lines if b"=" in line)
            self._shared[id(code)] = code, {one.group(1) for one in found if one}
        return self._shared[id(code)][1]

    @staticmethod
    def _missing(text):
        """The attributes of an object that a function computes if they are not there yet."""
        conditions = text if any(HAS_FAILED.match(line) for line in text) else filter(MISSING.search, text)
        return {name for line in conditions for name in ATTRIBUTE.findall(line)}

    def kept_names(self, code, lines):
        """The names in assignments, among these lines of a module or class, that keep the values of a function, as
        `get = lru_cache(None)(_get)` does."""
        words, end = set(), 0
        for first in () if self._is_of_tests else sorted(lines):
            line = self._line(first)
            if first < end or b"=" not in line or b"(" not in line or line.lstrip().startswith(NO_ASSIGNMENT):
                continue
            if not CACHING.search(COMPILES.sub(b"", line)):
                continue
            # With the lines to which its brackets reach.
            indent, end = len(line) - len(line.lstrip()), first + 1
            while end < first + HEAD_MAX:
                following = self._line(end)
                is_further = len(following) - len(following.lstrip()) > indent
                if not is_further and not following.lstrip().startswith(b")"):
                    break
                end += 1
            for number in range(first, end):
                words.update(word.decode() for word in re.findall(rb"\w+", self._line(number)))
        return words.intersection(code.co_names)
