"""Where the instructions of code are in the source: by the tables that Python keeps with code, and by the syntax tree of the source for a
Python before 3.11, which keeps no columns.

Nothing is known here of what the instructions do for a test.
"""

import ast
import opcode

# The instructions that change a name, an attribute or an item, and those that read what is called, with what the syntax tree has for them.
STORES = {
    "STORE_GLOBAL": (ast.Name, ast.Store),
    "STORE_DEREF": (ast.Name, ast.Store),
    "STORE_ATTR": (ast.Attribute, ast.Store),
    "STORE_SUBSCR": (ast.Subscript, ast.Store),
}
READS = {
    "LOAD_ATTR": (ast.Attribute, ast.Load),
    "LOAD_METHOD": (ast.Attribute, ast.Load),
    "LOAD_GLOBAL": (ast.Name, ast.Load),
}
STORES, READS = ({opcode.opmap[name]: one for name, one in kinds.items() if name in opcode.opmap} for kinds in (STORES, READS))
AROUND, EXTENDED_ARG = opcode.opmap.get("STORE_DEREF"), opcode.opmap.get("EXTENDED_ARG")


def lines(code):
    """The lines of a code object."""
    if hasattr(code, "co_lines"):
        return {line for _, _, line in code.co_lines() if line}
    return {line for _, line in _lines_by_offset(code)}


def _lines_by_offset(code):
    """The first instruction of each part of the code and the line of it, for a Python before 3.10 (its `Objects/lnotab_notes.txt`)."""
    offset, line, last = 0, code.co_firstlineno, None
    for offset_step, line_step in zip(code.co_lnotab[::2], code.co_lnotab[1::2]):
        if offset_step:
            if line != last:
                yield offset, line
                last = line
            offset += offset_step
            # Python cuts off lines behind the code.
            if offset >= len(code.co_code):
                return
        line += line_step - 256 if line_step >= 128 else line_step
    if line != last:
        yield offset, line


def has_columns(code):
    """Whether Python keeps columns with code."""
    return hasattr(code, "co_positions")


class Tree:
    """The places in a source that its instructions have, by line. `is_called(name)` says whether the read of a function is of interest."""

    # The defaults are bound before a test can replace these functions.
    def __init__(self, content, is_called, parse=ast.parse, walk=ast.walk):
        self._places, self._is_called = {}, is_called
        tree = parse(content)
        # Python does not always know where an expression within a string is.
        strings = (node for node in walk(tree) if isinstance(node, ast.JoinedStr))
        in_strings = {id(node) for string in strings for node in walk(string)}
        for node in walk(tree):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
            is_read = isinstance(getattr(node, "ctx", None), ast.Load)
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not (is_read and not is_called(name)):
                begin, end = (None, None) if id(node) in in_strings else (node.col_offset, node.end_col_offset)
                position = node.lineno, node.end_lineno, begin, end
                # Versions differ in which line an instruction has.
                for line in {node.lineno, node.end_lineno}:
                    self._places.setdefault((type(node), type(node.ctx), line), []).append((name, position))

    def positions(self, code):
        """Instructions with their positions as `co_positions` has them: all that an instruction may have by its line and name, or one
        without a column where the tree has none, as for `def`."""
        seen = set()
        for operation, name, line in _instructions(code):
            if operation not in STORES and (operation not in READS or not self._is_called(name)):
                continue
            # A variable of the function itself that functions within use.
            if operation == AROUND and name not in code.co_freevars or (operation, name, line) in seen:
                continue
            seen.add((operation, name, line))
            kind, context = STORES.get(operation) or READS[operation]
            places = self._places.get((kind, context, line), ())
            # A private attribute has another name in code.
            has_name = kind is ast.Name or context is ast.Load
            found = [position for of, position in places if of == name or not has_name]
            for position in found or [(line, line, None, None)]:
                yield operation, position


def _instructions(code):
    """Instruction, name and line, for a Python before 3.11. The name is that of what has no name, too, where it has no meaning."""
    if hasattr(code, "co_lines"):
        starts = [(start, line) for start, _, line in code.co_lines()]
    else:
        starts = list(_lines_by_offset(code))
    around = code.co_cellvars + code.co_freevars
    argument, line, starts = 0, None, iter(starts)
    following = next(starts, None)
    for offset in range(0, len(code.co_code), 2):
        while following is not None and following[0] <= offset:
            line, following = following[1], next(starts, None)
        operation, part = code.co_code[offset], code.co_code[offset + 1]
        argument |= part
        if operation == EXTENDED_ARG:
            argument <<= 8
            continue
        names = around if operation == AROUND else code.co_names
        yield operation, names[argument] if argument < len(names) else None, line
        argument = 0
