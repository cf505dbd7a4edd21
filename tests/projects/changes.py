"""The changes that mutants.py makes in a project: mutants of single lines, and changes of other files.

A change is a set of files with their new contents; it does not know proctor or what the tests make of it.
"""

import collections
import contextlib
import os
import random
import re
import shutil
from pathlib import Path

# `files` are relative paths with new contents, None for a deleted file. `line` is the number of the changed line, from 1, 0 for
# other changes.
Change = collections.namedtuple("Change", "kind text files line")

EXTENSIONS = {"Go": [".go"], "Python": [".py"], "Rust": [".rs"], "JavaScript": [".js", ".cjs", ".mjs", ".ts"]}
NO_PROJECT_FILES = re.compile(r"^(\.(?!babelrc).*|node_modules|vendor|target|__pycache__|.*\.egg-info|examples?|docs?|website|coverage)$")
NO_PRODUCT = re.compile(
    r"(^|/)(\..*|tests?|__tests__|__fixtures__|testing|testdata|bench(es|marks?)?|build|dist|scripts?|conftest\.py|"
    r"setup\.py|build\.rs|[^/]*(_test\.go|[._]test\.[a-z]+|[._]spec\.[a-z]+|_tests?\.(py|rs)|/tests?\.rs)|test_[^/]*|[^/]*\.(config|d)\.[a-z]+)(/|$)"
)
# A pattern, and what it becomes. The first group is kept.
LINE_CHANGES = [
    (r"()(?<![<>=!-])<=(?!=)", "<"), (r"( )< ", "<= "), (r"( )> ", ">= "), (r"()(?<![<>=-])>=(?!=)", ">"),
    (r"( )===( )", "!== "), (r"( )!==( )", "=== "), (r"( )==( )", "!= "), (r"( )!=( )", "== "),
    (r"( )\+ ", "- "), (r"(\w )- ", "+ "), (r"( )\* ", "+ "),
    (r"( )&& ", "|| "), (r"( )\|\| ", "&& "), (r"( )and ", "or "), (r"( )or ", "and "), (r"()\bnot ", ""), (r"(\bif )!", ""),
    (r"()\btrue\b", "false"), (r"()\bfalse\b", "true"), (r"()\bTrue\b", "False"), (r"()\bFalse\b", "True"),
    (r"([=(,\[] ?)0\b(?![.x_])", "1"), (r"([=(,\[] ?)1\b(?![.x_])", "2"), (r"()\bbreak\b", "continue"), (r"()\bcontinue\b", "break"),
    (r"()\bNone\b(?= *$)", "0"), (r"()\bnil\b(?= *[,)]?$)", "nil, nil"), (r"(\breturn )([a-z_]\w*)$", "None"),
    (r"(\breturn )[a-z_]\w*;$", "undefined;"),
]
NO_CODE = re.compile(r"^\s*(//|#|\*|/\*|import\b|from\b|use\b|package\b|@|\"|'|r\"|b\"|assert|debug_assert|if TYPE_CHECKING)|\bassert")

LOCK_OR_BUILD_FILE = re.compile(
    r"^(package(-lock)?\.json|tsconfig\.json|go\.(mod|sum)|Cargo\.(toml|lock)|pyproject\.toml|setup\.(py|cfg)|tox\.ini|pytest\.ini|(.*-)?requirements\.txt)$"
)
SETUP_FILE = re.compile(
    r"(^|/)(conftest\.py|build\.rs|(jest|vitest|vite|babel)\.config\.[cm]?[jt]s|\.babelrc(\.js)?|(tests?|__tests__)/(.*/)?(common|helpers?|support|utils?|tools)(\.|/).*)$"
)
TEST_DIRECTORY = re.compile(r"(^|/)(tests?|__tests__|__fixtures__|__snapshots__|fixtures|testdata)/")
TEST_FILE = re.compile(r"(^|/)(tests?|__tests__)/[^/]*$|(^|/)test_[^/]*\.py$|_test\.(go|py)$|[._](test|spec)\.[a-z]+$")
DATA_FILE = re.compile(r"\.(json|txt|xml|html|ya?ml|toml|csv|snap|golden|ini|css|svg|md|sql|tmpl)$")
# Lines that fail as soon as their file is loaded or compiled.
FAILING_LINES = {".py": 'raise RuntimeError("changed")', ".go": 'func init() { panic("changed") }', ".rs": 'compile_error!("changed");'}
# Most changes of each kind in a project.
EACH_KIND_MAX = 2


@contextlib.contextmanager
def applied(directory, change):
    """Makes a change in a directory, and takes it back. Files get new times, since Cargo builds only what is newer than its last build."""
    before = {path: (directory / path).read_bytes() if (directory / path).exists() else None for path in change.files}
    made = [parent for parent in {(directory / path).parent for path in change.files} if not parent.exists()]
    try:
        for path, content in change.files.items():
            write(directory / path, content)
        yield
    finally:
        for path, content in before.items():
            write(directory / path, content)
        for parent in made:
            shutil.rmtree(parent, ignore_errors=True)


def write(path, content):
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def project_files(directory):
    """Relative paths of a project's own files, without installed packages, examples, documents and what is hidden."""
    for parent, directories, names in os.walk(directory):
        directories[:] = sorted(name for name in directories if not NO_PROJECT_FILES.search(name))
        for name in sorted(names):
            path = Path(parent, name)
            if not NO_PROJECT_FILES.search(name) and not path.is_symlink():
                yield path.relative_to(directory).as_posix()


def is_source(path, language):
    return Path(path).suffix in EXTENSIONS[language]


def product_files(directory, language):
    return [path for path in project_files(directory) if is_source(path, language) and not NO_PRODUCT.search(path)]


def line_changes(directory, language, seed):
    """All mutants of single lines, in random order."""
    changes = [change for path in product_files(directory, language) for change in line_changes_of_file(directory, path)]
    random.Random(seed).shuffle(changes)
    return changes


def line_changes_of_file(directory, path):
    try:
        lines = (directory / path).read_bytes().decode().split("\n")
    except UnicodeDecodeError:
        return
    unit_tests = unit_test_lines(lines)
    seen = set()
    for index, line in enumerate(lines):
        if index in unit_tests or NO_CODE.search(line):
            continue
        for changed in mutants_of_line(line):
            if (index, changed) not in seen:
                seen.add((index, changed))
                text = f"{path}:{index + 1}: `{line.strip()}` -> `{changed.strip()}`"
                yield Change("line", text, {path: "\n".join([*lines[:index], changed, *lines[index + 1:]]).encode()}, index + 1)


def mutants_of_line(line):
    code = re.sub(r"\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])*'", lambda text: "\0" * len(text[0]), line).split(" //")[0].split(" #")[0]
    for pattern, replacement in LINE_CHANGES:
        for found in re.finditer(pattern, code):
            yield line[: found.start()] + found[1] + replacement + line[found.end():]


def unit_test_lines(lines):
    """Indices of the lines of `#[cfg(test)]` modules of Rust; a module ends with a brace below its first word."""
    inside = set()
    for first in (index for index, line in enumerate(lines) if line.strip() == "#[cfg(test)]" and index not in inside):
        start = next((index for index in range(first + 1, len(lines)) if not re.match(r" *(#\[|//)", lines[index])), first)
        module = re.match(r"( *)(pub(\(.*\))? )?mod \w+ \{$", lines[start])
        if module:
            end = next((index for index in range(start, len(lines)) if lines[index] == module[1] + "}"), len(lines))
            inside.update(range(first, end))
    return inside


# The kinds of other changes, in the order of their table.
KINDS = HALVED, TOUCHED, SOURCE_DELETED, TEST_DELETED, TEST_ADDED, BROKEN = (
    "data file halved", "lock or build file touched", "source file deleted", "test file deleted", "failing test file added", "setup file broken",
)


def other_changes(directory, row, seed):
    """Changes that are no mutants of lines, at most EACH_KIND_MAX of each kind."""
    files, language, pick = list(project_files(directory)), row["language"], random.Random(seed)
    tests = [path for path in files if is_source(path, language) and TEST_FILE.search(path) and not is_setup(directory, path)]
    data = [path for path in files if TEST_DIRECTORY.search(path) and DATA_FILE.search(path)]
    choices = {
        HALVED: (data, lambda path: {path: half(directory / path)}),
        TOUCHED: ([path for path in files if LOCK_OR_BUILD_FILE.search(path)], lambda path: {path: (directory / path).read_bytes() + b"\n"}),
        SOURCE_DELETED: (product_files(directory, language), lambda path: {path: None}),
        TEST_DELETED: (tests, lambda path: {path: None}),
        TEST_ADDED: (tests[:1], lambda path: added_test(directory, row, path)),
        BROKEN: ([path for path in files if is_setup(directory, path)], lambda path: {path: broken(directory / path)}),
    }
    for kind, (paths, edit) in choices.items():
        for path in pick.sample(paths, min(EACH_KIND_MAX, len(paths))):
            files_of_change = edit(path)
            yield Change(kind, f"{kind}: {', '.join(files_of_change)}", files_of_change, 0)


def is_setup(directory, path):
    is_test = re.search(r"[._](test|spec)\.[a-z]+$", path)
    return bool(SETUP_FILE.search(path) and not is_test) or (path.endswith("_test.go") and b"func TestMain(" in (directory / path).read_bytes())


def half(path):
    content = path.read_bytes()
    return content[: len(content) // 2]


def broken(path):
    """The content of a file of settings or helpers that does not load."""
    if path.suffix in ("", ".json"):
        return half(path)
    line = FAILING_LINES.get(path.suffix) or 'throw new Error("changed");'
    return path.read_bytes() + f"\n{line}\n".encode()


def added_test(directory, row, beside):
    """A new file with a failing test, named and placed as another file of tests."""
    folder, name = Path(beside).parent, Path(beside).name
    if row["language"] == "Go":
        package = re.search(r"^package \w+", (directory / beside).read_text(), re.M)[0]
        return {f"{folder / 'added_test.go'}": f'{package}\n\nimport "testing"\n\nfunc TestAdded(t *testing.T) {{ t.Fatal("added") }}\n'.encode()}
    if row["language"] == "Python":
        added = "added_test.py" if name.endswith("_test.py") else "test_added.py"
        return {f"{folder / added}": b"def test_added():\n    assert False\n"}
    if row["language"] == "Rust":
        return {"tests/added.rs": b'#[test]\nfn added() {\n    panic!("added");\n}\n'}
    start = 'import { test } from "vitest";\n' if row["reader"] == "vitest" else "export {};\n" if name.endswith(".ts") else ""
    return {f"{folder / ('added.' + name.split('.', 1)[1])}": f'{start}test("added", () => {{ throw new Error("added"); }});\n'.encode()}
