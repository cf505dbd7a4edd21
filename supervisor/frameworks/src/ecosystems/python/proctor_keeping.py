"""Finds the functions of a source that keep values for later calls, as caches do.

What is executed while such a function is on the stack, a later test may need that does not execute it: the value is kept. Functions are
told by the instructions that store, and by the source at these places, so that it is rather too many. What a test itself keeps is for no
other test.
"""

import io
import opcode
import os
import re
import tokenize

import proctor_positions

# Parts of the names of decorators and other functions that keep what a function returns.
CACHING = re.compile(rb"cache|memo|once|lazy|singleton|jit|tf\.function|compile", re.IGNORECASE)

# Decorators of the standard library that keep what a function returns: those in test files have many names.
CACHES = re.compile(rb"lru_cache|^cache$|functools\.cache|cached_property")

# The name of a decorator.
DECORATOR = re.compile(rb"@\s*([\w.]+)")

# A call that keeps the values of a function that it is given.
KEEPER = re.compile(rb"(?:cache|memo|once|lazy|singleton|jit|defaultdict|tf\.function|torch\.compile)\w*\(", re.IGNORECASE)

# A value that can change, which is made once: a parameter's default, or an attribute of a class.
CHANGEABLE = rb"(?:[{\[]|[\w.]*(?:dict|set|list|Dict|Counter|deque|Dictionary|Set)\()"
DEFAULT = re.compile(rb"(\w+)\s*(?::[^=]+)?=\s*" + CHANGEABLE)
SHARED = re.compile(rb"\s*(\w+)\s*(?::[^=]+)?=\s*" + CHANGEABLE)

# The class of an object, or the names of a module.
OF_CLASS = re.compile(rb"(?:cls|klass|mcs|mcls|metacls)\b|type\(self\)|self\.__class__\b|globals\(\)")

# Methods that change what they are of, and one of them behind the expression for it.
METHODS = ("setdefault", "append", "appendleft", "add", "update", "insert", "extend", "__setitem__", "set", "put", "push", "store")
CHANGES = [name.encode() for name in METHODS]
CHANGING = re.compile(rb"\.\s*(?:%s)$" % b"|".join(CHANGES))

# Calls that set an attribute, with the object.
SETTERS = ("setattr", "__setattr__")
SETTING = re.compile(rb"(?:setattr|__setattr__)\(\s*([\w.\[\]]+)")

# A line in which a name begins to stand for what another expression does.
ALIAS = re.compile(rb"\s*(?:for\s+)?(\w+)\s*(?::[^=]+)?(?:=|\bin\b)\s*([A-Za-z_][\w.]*)(?:\[[^\]]*\])?\s*(?:#.*|:\s*)?$")

# What a counter adds: a number keeps nothing of what was executed.
COUNTS = re.compile(rb"[^=]*[+-]=\s*\d+\s*(?:#.*)?$")

# A condition for what an object that is being made does not have yet.
MISSING = re.compile(rb"\bif\b.*(?:\bnot\b|\bis None\b|hasattr\(|getattr\(|__dict__|self\.\w+\s*:)")

ATTRIBUTE = re.compile(rb"self\.(\w+)")
NAME = re.compile(rb"[A-Za-z_]\w*")

# What objects assign to themselves, and the names of it in all sources so far.
ASSIGNED = re.compile(rb"self\.(\w+)\s*(?::[^=\n]+)?=(?!=)")
assigned = set()

# The set-up of a package: tests need it that are in other files.
SET_UP = ("setup_module", "setUpModule", "setup_package", "setup")

# Fixtures of a class, of which it is known which tests use them.
SET_UP_OF_CLASS = ("setUpClass", "setup_class")

# What Python calls for an attribute of another object.
OF_OTHERS = ("__get__", "__set_name__")

# What lets others run for a function, and it go on.
BEGINS_OTHERS = {"create_task", "ensure_future", "gather", "submit", "run_in_executor", "Thread", "Timer", "greenlet", "spawn"}

# Lines of a module or class that assign nothing.
NO_ASSIGNMENT = (b"#", b"@", b"def ", b"async ", b"class ", b"import ", b"from ")

# Instructions that change a name of the module, a name of a function around this one, and a part of something.
GLOBAL, AROUND = opcode.opmap.get("STORE_GLOBAL"), opcode.opmap.get("STORE_DEREF")
PARTS = {opcode.opmap.get(name) for name in ("STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE")}
# Those that read an attribute or a name, before it is called.
READS = {opcode.opmap.get(name) for name in ("LOAD_ATTR", "LOAD_GLOBAL", "LOAD_METHOD")} - {None}

# Of what an expression is a part.
OWN, IN_SELF, OUTSIDE = range(3)

# Flags of code: of a function, as opposed to a module or class; of a generator.
CO_OPTIMIZED, CO_GENERATOR = 1, 0x20

# Most lines before the body of a function: its decorators, and its head.
HEAD_MAX = 100


def indent(line):
    return len(line) - len(line.lstrip())


def is_changing(name):
    """Whether a call of a function with this name may change an object."""
    return name is not None and (name in METHODS or name.endswith(SETTERS))


# Functions that make the objects of a class.
MAKERS = ("__init__", "__new__")

# By the id of the code of such a function, which is kept: the name of its class.
_classes = {}


def note_class(code, around):
    """Notes the class of a function that makes its objects. `around` has the codes that the function is in, the outermost first."""
    if code.co_name in MAKERS and around:
        _classes[id(code)] = around[-1].co_name


def is_named(code, names):
    """Whether a function, or the class of which it makes the objects, has one of these names."""
    return code.co_name in names or code.co_name in MAKERS and _classes.get(id(code)) in names


class Keeps:
    """How a function keeps values: the lines that do, none for what it returns; whether in its `self` alone, which holds if some object
    assigns each of these names to itself; and whether it may be suspended while others run for it."""

    def __init__(self, lines=(), in_self=False, names=frozenset(), suspends=False):
        self.lines, self.in_self, self.names, self.suspends = lines, in_self, names, suspends


class Source:
    """One file, and which of its functions keep values."""

    def __init__(self, path):
        name = os.path.basename(path)
        self.path = path
        self._is_of_tests = name.startswith("test") or name.endswith("_test.py")
        self._is_package = name == "__init__.py"
        self._lines = self._tree = None
        # By the id of a class's code, which is kept: the names of its attributes that can change and are no object's own.
        self._shared = {}
        # Lines in which a cache is given a function that has no name.
        self._kept_lines = set()

    # Bound before a test can replace it.
    def _read(self, open=open):
        """The lines in UTF-8, in which columns are counted."""
        try:
            with open(self.path, "rb") as file:
                content = file.read()
            if not content.isascii():
                encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
                content = content.decode(encoding, "replace").encode()
        except (OSError, SyntaxError, LookupError):
            content = b""
        lines = content.splitlines()
        assigned.update(name for line in lines for name in ASSIGNED.findall(line))
        return lines

    def _line(self, number):
        if self._lines is None:
            self._lines = self._read()
        return self._lines[number - 1] if 0 < number <= len(self._lines) else b""

    def keeps(self, code, lines, around):
        """How a function with this code and these lines keeps values; None if it keeps none. `around` has the codes that it is in, the
        outermost first."""
        classes = [one for one in around[1:] if not one.co_flags & CO_OPTIMIZED]
        functions = [one.co_name for one in (*around[1:], code) if one.co_flags & CO_OPTIMIZED]
        suspends = not BEGINS_OTHERS.isdisjoint(code.co_names)
        decorators, head = self._head(code)
        decorators = [name for text in (decorators, *map(self._decorators_of_class, classes)) for name in DECORATOR.findall(text)]
        if any(map((CACHES if self._is_of_tests else CACHING).search, decorators)):
            return Keeps(suspends=suspends)
        if self._is_package and code.co_name in SET_UP or not code.co_name.isidentifier() and code.co_firstlineno in self._kept_lines:
            return Keeps(suspends=suspends)
        if self._is_of_tests and functions[0].startswith("test"):
            return None
        kept, in_self, names = self._stores(code, lines, classes, head)
        if not kept:
            return None
        if code.co_flags & CO_GENERATOR:
            # What a statement waits for that stores its value. Python does not report where a generator goes on with an exception.
            suspends = suspends or any(b"yield" in self._line(line) or self._is_in_handler(line) for line in kept)
        return Keeps(kept, in_self, names, suspends)

    def _is_in_handler(self, number):
        """Whether a block around a line handles an exception."""
        least = indent(self._line(number))
        for number in range(number - 1, max(number - HEAD_MAX, 0), -1):
            line = self._line(number)
            if line.strip() and indent(line) < least:
                least = indent(line)
                if line.lstrip().startswith((b"except", b"def ", b"async def ")):
                    return line.lstrip().startswith(b"except")
        return False

    def _head(self, code):
        """The lines of decorators and those of the head of a function. A lambda has none."""
        decorators, head = [], []
        for number in range(code.co_firstlineno, code.co_firstlineno + HEAD_MAX) if code.co_name.isidentifier() else ():
            line = self._line(number)
            is_head = head or re.match(rb"\s*(?:async\s+)?def\b", line)
            (head if is_head else decorators).append(line)
            if is_head and line.rstrip().endswith(b":"):
                break
        return b"\n".join(decorators), b"\n".join(head)

    def _decorators_of_class(self, code):
        decorators = []
        for number in range(code.co_firstlineno, code.co_firstlineno + HEAD_MAX):
            if re.match(rb"\s*class\b", self._line(number)):
                return b"\n".join(decorators)
            decorators.append(self._line(number))
        return b""

    def _stores(self, code, lines, classes, head):
        """The lines in which a function changes what is not its own, whether all of that is in its `self`, and the names of the attributes
        of which it changes a part."""
        used = set(code.co_code[::2])
        is_called = not {*METHODS, *SETTERS}.isdisjoint(code.co_names)
        if not is_called and used.isdisjoint({GLOBAL, *PARTS}) and not (code.co_freevars and AROUND in used):
            return set(), False, set()
        names, owners, kept = set(), set(), set()
        owner = self._owner(code, lines, classes, head, names)
        is_of_others = code.co_name in OF_OTHERS

        # Of what each instruction changes a part, by its position.
        def global_name(position):
            return OWN if COUNTS.match(self._at(position)) else OUTSIDE

        def name_around(position):
            name = NAME.match(self._at(position))
            is_around = name is None or name.group().decode() in code.co_freevars
            return global_name(position) if is_around else OWN

        def part(position):
            expression = self._at(position)
            return OUTSIDE if is_of_others else OWN if COUNTS.match(expression) else owner(expression)

        def called(position):
            changed = self._changed(position)
            return OWN if not changed else OUTSIDE if is_of_others else owner(changed)

        changed_by = {GLOBAL: global_name, **dict.fromkeys(PARTS, part), **dict.fromkeys(READS, called)}
        if code.co_freevars:
            changed_by[AROUND] = name_around
        for operation, position in self._positions(code):
            of = changed_by[operation](position) if operation in changed_by else OWN
            if of != OWN:
                owners.add(of)
                kept.add(position[0] or 0)
        return kept, owners == {IN_SELF}, names

    def _positions(self, code):
        """The instructions of a function that may change something, with their positions."""
        if proctor_positions.has_columns(code):
            return zip(code.co_code[::2], code.co_positions())
        if self._tree is None:
            self._line(1)
            self._tree = proctor_positions.Tree(b"\n".join(self._lines).decode("utf-8", "replace"), is_changing)
        return self._tree.positions(code)

    def _at(self, position):
        """The source from where an instruction is; something that is no function's own if Python does not say where."""
        line, _, column, _ = position
        return b"\xff" if column is None else self._line(line or 0)[column:].lstrip(b"(* ")

    def _changed(self, position):
        """The expression that a call changes whose function is read here; none if it changes none."""
        first, last, begin, end = position
        if begin is None:
            return b"\xff"
        line = self._line(last or 0)
        setter = next((name for name in SETTERS if line[:end].endswith(name.encode())), None)
        if setter:
            setting = SETTING.match(line, end - len(setter))
            return setting.group(1) if setting else b"\xff"
        method = CHANGING.search(line[:end])
        if not method:
            # The method of an expression in lines before.
            is_further = first == last and line[begin:end] in CHANGES
            return b"\xff" if is_further and line[:begin].strip() in (b"", b".") else b""
        return self._at(position) if first != last or method.start() > begin else b"\xff"

    def _owner(self, code, lines, classes, head, names):
        """A function that says of what an expression is a part: of what is the function's own, as an object that it was given or made, of
        its `self`, or of what is outside. It adds the attribute of which it is a part to `names`."""
        local = {*code.co_varnames, *code.co_cellvars, "self", "super"}
        local.difference_update(name.decode() for name in DEFAULT.findall(head))
        of_class = OWN if self._is_of_tests and code.co_name in SET_UP_OF_CLASS else OUTSIDE
        shared = self._shared_of(classes[-1]) if classes else set()
        text = [self._line(line) for line in sorted(lines)]
        # An object that is being made is new, unless the function looks what it has.
        is_new = code.co_name in ("__init__", "__post_init__") and not any(map(MISSING.search, text))
        of_self, aliases = OWN if is_new else IN_SELF, {}

        def owner(expression):
            if OF_CLASS.match(expression):
                return of_class
            name = NAME.match(expression)
            if name is None:
                return OUTSIDE if expression[:1] > b"\x7f" else OWN
            if name.group() in aliases:
                return aliases[name.group()]
            if name.group() != b"self":
                return OWN if name.group().decode() in local else OUTSIDE
            attribute = ATTRIBUTE.match(expression)
            if attribute and expression[attribute.end() : attribute.end() + 1] in (b".", b"["):
                names.add(attribute.group(1))
                return OUTSIDE if attribute.group(1) in shared else of_self
            return of_self

        for alias in filter(None, map(ALIAS.match, text)):
            if alias.group(2) not in (b"None", b"True", b"False", alias.group(1)):
                of = owner(alias.group(2) + b".")
                if of != OWN:
                    aliases[alias.group(1)] = of
        return owner

    def _shared_of(self, code):
        if id(code) not in self._shared:
            lines = map(self._line, proctor_positions.lines(code))
            found = (SHARED.match(line) for line in lines if b"=" in line)
            self._shared[id(code)] = code, {one.group(1) for one in found if one}
        return self._shared[id(code)][1]

    def kept_names(self, code, lines):
        """The names of functions of which assignments among these lines keep the values, as `get = lru_cache(None)(_get)` does."""
        words, end = set(), 0
        for first in () if self._is_of_tests else sorted(lines):
            line = self._line(first)
            if first < end or b"=" not in line or b"(" not in line or line.lstrip().startswith(NO_ASSIGNMENT):
                continue
            keeper = KEEPER.search(line)
            if keeper is None:
                continue
            # With the lines to which its brackets reach.
            end = first + 1
            while end < first + HEAD_MAX:
                following = self._line(end)
                if indent(following) <= indent(line) and not following.lstrip().startswith(b")"):
                    break
                end += 1
            self._kept_lines.update(range(first, end))
            given = line[keeper.end() :], *map(self._line, range(first + 1, end))
            words.update(word.decode() for text in given for word in re.findall(rb"\w+", text))
        return words.intersection(code.co_names)
