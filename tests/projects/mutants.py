#!/usr/bin/env python3
"""Changes one line of a real project at a time, and compares the tests that fail with those that proctor selects for the change.

usage: mutants.py [--only TEXT] [--each N] [--seconds N] [--seed N] [--out FILE] [--cache DIR]

The projects are rows of projects.tsv. In a copy of each, all tests run once and are measured. Then, for each mutant, `proctor affected`
names the tests that the change may affect, a run of all tests shows which ones fail, and `proctor analyze` names suspect lines. A
failing test that was not selected is an error: a run of affected tests would have been green. Writes a Markdown table. Lines of Python
are measured from 3.12 on, so `python3` has to be that new.
"""

import argparse
import collections
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from compare import CACHE, HERE, TOP, Table, install_sources, read_rows

SECONDS_MAX = 120
# Most tests that an answer lists.
TESTS_MAX = 10_000
EXTENSIONS = {"Go": [".go"], "Python": [".py"], "Rust": [".rs"], "JavaScript": [".js", ".cjs", ".mjs", ".ts"]}
NO_PRODUCT = re.compile(
    r"(^|/)(\..*|tests?|__tests__|testing|testdata|docs?|examples?|bench(es|marks?)?|vendor|node_modules|target|build|dist|scripts?|conftest\.py|"
    r"setup\.py|build\.rs|[^/]*(_test\.go|[._]test\.[a-z]+|[._]spec\.[a-z]+|_tests?\.(py|rs)|/tests?\.rs)|test_[^/]*)(/|$)"
)
# A pattern, and what it becomes. The first group is kept.
CHANGES = [
    (r"()(?<![<>=!-])<=(?!=)", "<"), (r"( )< ", "<= "), (r"( )> ", ">= "), (r"()(?<![<>=-])>=(?!=)", ">"),
    (r"( )==( )", "!= "), (r"( )!=( )", "== "), (r"( )\+ ", "- "), (r"(\w )- ", "+ "), (r"( )\* ", "+ "),
    (r"( )&& ", "|| "), (r"( )\|\| ", "&& "), (r"( )and ", "or "), (r"( )or ", "and "), (r"()\bnot ", ""), (r"(\bif )!", ""),
    (r"()\btrue\b", "false"), (r"()\bfalse\b", "true"), (r"()\bTrue\b", "False"), (r"()\bFalse\b", "True"),
    (r"([=(,\[] ?)0\b(?![.x_])", "1"), (r"([=(,\[] ?)1\b(?![.x_])", "2"), (r"()\bbreak\b", "continue"), (r"()\bcontinue\b", "break"),
    (r"()\bNone\b(?= *$)", "0"), (r"()\bnil\b(?= *[,)]?$)", "nil, nil"), (r"(\breturn )([a-z_]\w*)$", "None"),
]
NO_CODE = re.compile(r"^\s*(//|#|\*|/\*|import\b|from\b|use\b|package\b|@|\"|'|r\"|b\"|assert|debug_assert|if TYPE_CHECKING)|\bassert")

HEAD = """# Mutants of real projects

Written by `make mutants`: single lines that tests execute are changed, one at a time, in projects as their registry publishes them, until
enough mutants ran or the time is over. **left out** are mutants of which no failing test was selected by `proctor affected`, and failing
tests that were not selected; both must be 0, which says little where the share is 1.00. Shares and times are medians over all mutants; a
full run has all tests. The suspect is the function that has the change, among the five of `proctor analyze`. Mutants that do not compile,
load or end are not counted.

| language | project | tests | mutants | with failures | left out: mutants, tests | full runs | share | answer, median | first suspect | of five |
|---|---|---|---|---|---|---|---|---|---|---|
"""


class Project:
    def __init__(self, directory, proctor, scratch):
        self.proctor, self.scratch = proctor, scratch
        self.copy, self.state, self.after = scratch / "workspace", scratch / "state", scratch / "after"
        shutil.rmtree(scratch, ignore_errors=True)
        self.state.mkdir(parents=True)
        shutil.copytree(directory, self.copy, symlinks=True)
        self.import_from_sources()

    def import_from_sources(self):
        """Lets a Python project below `src` be imported from there, instead of its installed copy."""
        sources = self.copy / "src"
        for packages in self.copy.glob(".venv/lib/python*/site-packages") if sources.is_dir() else []:
            for source in sources.iterdir():
                installed = packages / source.name
                shutil.rmtree(installed) if installed.is_dir() else installed.unlink(missing_ok=True)
            (packages / "sources.pth").write_text(f"{sources}\n")

    def command(self, state, *arguments):
        """The output of a command of proctor in the copy; the state is the directory that remembers earlier runs."""
        result = subprocess.run(
            [self.proctor, *arguments], cwd=self.copy, env={**os.environ, "XDG_STATE_HOME": str(state), "XDG_CACHE_HOME": str(self.scratch / "cache")},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
        )
        return result.stdout.decode(errors="replace")

    def run(self, state):
        text = self.command(state, "run", "--output", "json", "--timeout", f"{SECONDS_MAX}s")
        return json.loads(text[text.index("{"):])


def failed(report):
    return {test["nodeid"] for test in report["tests"] if test["outcome"] in ("failed", "error")}


def product_files(project, language):
    for path in sorted(project.copy.rglob("*")):
        relative = path.relative_to(project.copy).as_posix()
        if path.suffix in EXTENSIONS[language] and path.is_file() and not path.is_symlink() and not NO_PRODUCT.search(relative):
            yield relative


def candidates(project, language):
    """Every file, line number and changed line."""
    for file in product_files(project, language):
        try:
            lines = (project.copy / file).read_text().split("\n")
        except UnicodeDecodeError:
            continue
        # Unit tests of Rust stand at the end of a file.
        ends = [number for number, line in enumerate(lines) if line.startswith("#[cfg(test)]")]
        for number, line in enumerate(lines[: ends[0] if ends else None]):
            if NO_CODE.search(line):
                continue
            code = re.sub(r"\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])*'", lambda text: "\0" * len(text[0]), line).split(" //")[0].split(" #")[0]
            for pattern, replacement in CHANGES:
                for found in re.finditer(pattern, code):
                    yield file, number, line[: found.start()] + found[1] + replacement + line[found.end():]


def function_of(project, suspects, file, number):
    """The rank of the suspect whose lines, or those of its function, contain the changed line; 0 if none does."""
    for rank, suspect in enumerate(suspects, 1):
        if suspect["path"] != file:
            continue
        first, last = suspect["first_line"], suspect["last_line"]
        if suspect["function"]:
            text = project.command(project.after, "covering", f"{file}:{suspect['function']}")
            found = re.search(r" cover .*:(\d+)-(\d+):", text)
            first, last = (int(found[1]), int(found[2])) if found else (first, last)
        if first <= number + 1 <= last:
            return rank
    return 0


def nodeid(test, known):
    """The id of a listed test as in the report."""
    for separator in ("/", "::", "$", " > ", "."):
        if f"{test['package']}{separator}{test['name']}" in known:
            return f"{test['package']}{separator}{test['name']}"
    return test["name"] if test["name"] in known else f"{test['package']}/{test['name']}"


def measure(row, directory, proctor, options):
    project = Project(directory, proctor, options.cache / "mutants")
    baseline = project.run(project.state)
    known, before = {test["nodeid"] for test in baseline["tests"]}, failed(baseline)
    passing = {test["nodeid"] for test in baseline["tests"] if test["outcome"] == "passed"}
    if not passing:
        return None, f"no test passes: {baseline['outcome']}"
    if len(known) > TESTS_MAX:
        return None, "it has more tests than an answer lists"
    counts, shares, answers, ranks = collections.Counter(), [], [], []
    chosen = list(dict.fromkeys(candidates(project, row["language"])))
    random.Random(options.seed).shuffle(chosen)
    until = time.monotonic() + options.seconds
    for file, number, line in chosen:
        if counts["mutants"] == options.each or time.monotonic() > until:
            break
        if "test(s) cover" not in project.command(project.state, "covering", f"{file}:{number + 1}"):
            counts["not executed"] += 1
            continue
        path = project.copy / file
        original, status = path.read_bytes(), path.stat()
        lines = original.decode().split("\n")
        what = f"{file}:{number + 1}: `{lines[number].strip()}` -> `{line.strip()}`"
        lines[number] = line
        path.write_text("\n".join(lines), newline="")
        try:
            started = time.monotonic()
            affected = json.loads(project.command(project.state, "affected", "--output", "json", "--limit", str(TESTS_MAX)))
            took = time.monotonic() - started
            shutil.rmtree(project.after, ignore_errors=True)
            shutil.copytree(project.state, project.after)
            report = project.run(project.after)
            ran = {test["nodeid"] for test in report["tests"]}
            if report["outcome"] not in ("passed", "failed") or not ran:
                counts[report["outcome"]] += 1
                continue
            counts["mutants"] += 1
            answers.append(took)
            is_full = bool(affected["affected"]["full_reason"])
            selected = known if is_full else {nodeid(test, known) for test in affected["tests"]}
            shares.append(len(selected & known) / len(known))
            counts["full"] += is_full
            broken = failed(report) & passing
            if not broken:
                continue
            counts["failing"] += 1
            left_out = broken - selected
            if left_out:
                counts["missed tests"] += len(left_out)
                counts["missed mutants"] += left_out == broken
                print(f"LEFT OUT {row['name']} {what}: {len(left_out)} of {len(broken)} failing, such as {sorted(left_out)[:3]}", flush=True)
            suspects = (json.loads(project.command(project.after, "analyze", "--output", "json") or "{}").get("suspects") or {}).get("lines", [])
            rank = function_of(project, suspects, file, number)
            ranks.append(rank)
            print(f"{row['name']} {what}: {len(broken)} fail, {len(selected & known)} of {len(known)} selected{' (full)' if is_full else ''}, suspect {rank}", flush=True)
        finally:
            path.write_bytes(original)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    print(f"{row['name']}: {dict(counts)}, {len(before)} fail without a mutant", flush=True)
    if not shares:
        return None, "no mutant could be tried"
    in_five, first = sum(rank > 0 for rank in ranks), sum(rank == 1 for rank in ranks)
    of = counts["failing"]
    return [
        str(len(known)), str(counts["mutants"]), str(of), f"{counts['missed mutants']}, {counts['missed tests']}", str(counts["full"]),
        f"{statistics.median(shares):.2f}", f"{1000 * statistics.median(answers):.0f} ms", f"{first} of {of}", f"{in_five} of {of}",
    ], ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--each", type=int, default=25, help="mutants of each project")
    parser.add_argument("--seconds", type=int, default=600, help="most seconds for each project")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE.parent / "MUTANTS.md")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    proctor = os.environ.get("PROCTOR", str(TOP / "target/release/proctor"))
    rows = [row for row in read_rows() if not row["needs"] and row["language"] in EXTENSIONS]
    table = Table(options.out, HEAD, rows)
    left_out = False
    for row in rows:
        if options.only not in f"{row['language']} {row['name']}":
            continue
        directory, error = install_sources(row, options.cache)
        cells, error = (None, error) if directory is None else measure(row, directory, proctor, options)
        if cells is None:
            print(f"{row['name']}: {error}", flush=True)
            continue
        left_out |= cells[3] != "0, 0"
        table.write(row, "| " + " | ".join([*table.name(row), *cells]) + " |")
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
