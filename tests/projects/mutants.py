#!/usr/bin/env python3
"""Changes real projects, one change at a time, and compares the tests that fail with those that proctor selects for the change.

usage: mutants.py [--only TEXT] [--each N] [--seconds N] [--seed N] [--out FILE] [--cache DIR]

The projects are rows of projects.tsv. In a copy of each, all tests run once and are measured. Then, for each mutant, `proctor affected`
names the tests that the change may affect, a run of all tests shows which ones fail, and `proctor analyze` names suspect lines. A
failing test that was not selected is an error: a run of affected tests would have been green. After each change of another file, a run
of the affected tests is compared with a run of all tests. Writes a Markdown table of mutants and one of the other changes. Lines of
Python are measured from 3.9 on, so `python3` has to be that new.

Projects with a reason in their column `unmeasured` are left out. Exit status: 1 if a failing test was left out, or if a project could
not be measured.
"""

import argparse
import collections
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import traceback
from pathlib import Path

from changes import EXTENSIONS, KINDS, applied, line_changes, other_changes
from compare import CACHE, HERE, TOP, Table, install_sources, read_rows, row_name

SECONDS_MAX = 300
# Most tests that an answer lists.
TESTS_MAX = 10_000
# Of so many mutants, one is on a line that no test executes.
UNEXECUTED_EACH = 10
# How the report begins of a test that did not finish since another one ended its process: it fails with that one.
ENDED_BY_ANOTHER = re.compile(r"did not finish: .+ ended the test process")
# Outcomes of runs in which each test and file that fails is known; the rest ended early.
WHOLE = ("passed", "failed", "collection_failed", "build_failed")

HEAD = """# Mutants of real projects

Written by `make mutants`: single lines are changed, one at a time, in projects as their registry publishes them, until enough mutants ran
or the time is over. One mutant in ten is on a line that no test executes (**unexecuted**, part of the mutants). **failing** mutants make
tests fail, beside those that only do not finish as another one ends their process; **broken** ones do not compile, load or end, or exceed a limit of the run. **left out** are failing or broken mutants of which
`proctor affected` selected no failing test or file, and failing tests and files that were not selected; a broken mutant counts if nothing
was selected. Both must be 0, which says little where the share is 1.00; what a selection cannot see is in
[the supervisor's README](../supervisor/README.md). Shares and times are medians over all mutants; a full run has all tests. The suspect is
the function that has the change, among the five of `proctor analyze`, for failing mutants. A line with `-` is of an earlier script or
of an earlier version of proctor; that script tried no unexecuted lines and did not count broken mutants.

| language | project | tests | mutants | unexecuted | failing | broken | left out: mutants, tests | full runs | share | answer, median | first suspect | of five |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""

CHANGES_HEAD = """## Changes of other files

After each change, the same projects run once with `--affected` and once with all tests. **failing** changes make the run of all tests
fail. **left out** are failing changes after which the run of affected tests passed, and tests that failed only in the run of all
tests; both must be 0. A line is of the last run that had its language.

| language | change | projects | changes | failing | left out: changes, tests | full runs | share |
|---|---|---|---|---|---|---|---|
"""


class Project:
    def __init__(self, directory, proctor, scratch):
        self.proctor, self.scratch, self.seconds = proctor, scratch, SECONDS_MAX
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

    def run(self, state, *options):
        text = self.command(state, "run", "--coverage", "on", *options, "--output", "json", "--timeout", f"{self.seconds}s")
        return Report(json.loads(text[text.index("{"):]))

    def run_after(self, *options):
        """Runs tests with a copy of the state, which stays that of the unchanged project."""
        shutil.rmtree(self.after, ignore_errors=True)
        shutil.copytree(self.state, self.after)
        return self.run(self.after, *options)

    def baseline(self):
        """Runs all tests of the unchanged project twice: from the second run on it is known that a file which a test touches has kept its
        text. Later runs have three times the time of one, since a mutant may never end."""
        self.run(self.state)
        started = time.monotonic()
        report = self.run(self.state)
        self.seconds = min(SECONDS_MAX, 20 + 3 * int(time.monotonic() - started))
        return report


class Report:
    """A run: the ids of its tests, of those that failed, and the files whose tests could not be collected."""

    def __init__(self, report):
        # A run of affected tests that selects none has no outcome.
        self.outcome = report["outcome"] or "passed"
        self.packages = {test["nodeid"]: test["package"] for test in report["tests"]}
        self.passed = {test["nodeid"] for test in report["tests"] if test["outcome"] == "passed"}
        self.failed = {test["nodeid"] for test in report["tests"] if test["outcome"] in ("failed", "error") and not self.was_ended(test)}
        self.files = {collector["nodeid"] for collector in report["collectors"] if collector["kind"] == "collection"}
        # A run of affected tests that selects none has no such part.
        affected = report.get("affected") or {"full_reason": None, "selected": 0, "left_out": 1}
        self.is_full, self.selected = bool(affected["full_reason"]), affected["selected"]
        # Where no run of all tests has ended, none is known.
        self.share = self.selected / max(self.selected + affected["left_out"], 1)

    @staticmethod
    def was_ended(test):
        """Whether another test ended the process of this one."""
        return bool(ENDED_BY_ANOTHER.match((test.get("call") or {}).get("longrepr") or ""))


class Selection:
    """The answer of `proctor affected`."""

    def __init__(self, answer, baseline):
        known = baseline.packages
        self.is_full = bool(answer["affected"]["full_reason"])
        self.tests = set(known) if self.is_full else {nodeid(test, known) for test in answer["tests"]} & set(known)
        self.packages = {known[test] for test in self.tests} | set(answer["new_units"])
        self.is_empty = not self.is_full and not answer["tests"] and not answer["new_units"]
        self.share = len(self.tests) / len(known)


def nodeid(test, known):
    """The id of a listed test as in the report."""
    for separator in ("/", "::", "$", " > ", "."):
        if f"{test['package']}{separator}{test['name']}" in known:
            return f"{test['package']}{separator}{test['name']}"
    return test["name"] if test["name"] in known else f"{test['package']}/{test['name']}"


def failures(report, baseline):
    """Tests and files that fail in a run and did not before. Of a run that ended early, nobody knows what else would have failed."""
    if report.outcome not in WHOLE:
        return set()
    return (report.failed - baseline.failed) | (report.files - baseline.files)


def is_broken(report, baseline):
    return report.outcome not in ("passed", "failed", baseline.outcome)


def left_out_of_selection(report, baseline, selection):
    """The failures that a selection lacks. A file is selected with any of its tests; of files that have no tests, all selections have some."""
    packages = set(baseline.packages.values())
    is_selected = lambda name: selection.is_full or name in selection.tests or name in selection.packages or (
        name not in baseline.packages and name not in packages and not selection.is_empty
    )
    return {name for name in failures(report, baseline) if not is_selected(name)}


def function_of(project, suspects, file, line):
    """The rank of the suspect whose lines, or those of its function, contain the changed line; 0 if none does."""
    for rank, suspect in enumerate(suspects, 1):
        if suspect["path"] != file:
            continue
        first, last = suspect["first_line"], suspect["last_line"]
        if suspect["function"]:
            text = project.command(project.after, "covering", f"{file}:{suspect['function']}")
            found = re.search(r" cover .*:(\d+)-(\d+):", text)
            first, last = (int(found[1]), int(found[2])) if found else (first, last)
        if first <= line <= last:
            return rank
    return 0


class Mutants:
    """The counts of a project's mutants."""

    def __init__(self):
        self.counts, self.shares, self.answers, self.ranks = collections.Counter(), [], [], []

    def is_wanted(self, is_executed):
        return is_executed or self.counts["unexecuted"] * UNEXECUTED_EACH < self.counts["mutants"]

    def add(self, selection, seconds, is_executed):
        self.counts["mutants"] += 1
        self.counts["unexecuted"] += not is_executed
        self.counts["full"] += selection.is_full
        self.shares.append(selection.share)
        self.answers.append(seconds)

    def has_left_out(self):
        return bool(self.counts["left out mutants"] or self.counts["left out tests"])

    def cells(self, tests):
        counts, failing = self.counts, len(self.ranks)
        in_five, first = sum(rank > 0 for rank in self.ranks), self.ranks.count(1)
        numbers = [tests, counts["mutants"], counts["unexecuted"], failing, counts["broken"]]
        return [
            *map(str, numbers), f"{counts['left out mutants']}, {counts['left out tests']}", str(counts["full"]),
            f"{statistics.median(self.shares):.2f}", f"{1000 * statistics.median(self.answers):.0f} ms", f"{first} of {failing}", f"{in_five} of {failing}",
        ]


def measure_mutants(row, project, baseline, options):
    mutants, until = Mutants(), time.monotonic() + options.seconds
    for change in line_changes(project.copy, row["language"], options.seed):
        if mutants.counts["mutants"] == options.each or time.monotonic() > until:
            break
        [file] = change.files
        is_executed = "test(s) cover" in project.command(project.state, "covering", f"{file}:{change.line}")
        if mutants.is_wanted(is_executed):
            with applied(project.copy, change):
                measure_mutant(row, project, baseline, change, mutants, is_executed)
    return mutants


def measure_mutant(row, project, baseline, change, mutants, is_executed):
    started = time.monotonic()
    answer = json.loads(project.command(project.state, "affected", "--output", "json", "--limit", str(TESTS_MAX)))
    seconds = time.monotonic() - started
    selection, report = Selection(answer, baseline), project.run_after()
    mutants.add(selection, seconds, is_executed)
    failing, left_out = failures(report, baseline), left_out_of_selection(report, baseline, selection)
    unselected = is_broken(report, baseline) and selection.is_empty
    mutants.counts["broken"] += is_broken(report, baseline)
    mutants.counts["left out tests"] += len(left_out)
    if unselected or (failing and left_out == failing):
        mutants.counts["left out mutants"] += 1
    if unselected or left_out:
        print(f"LEFT OUT {row['name']} {change.text}: {report.outcome}, {len(left_out)} of {len(failing)} failing, such as {sorted(left_out)[:3]}", flush=True)
    rank = None
    if failing and not is_broken(report, baseline):
        suspects = (json.loads(project.command(project.after, "analyze", "--output", "json") or "{}").get("suspects") or {}).get("lines", [])
        rank = function_of(project, suspects, next(iter(change.files)), change.line)
        mutants.ranks.append(rank)
    print(f"{row['name']} {change.text}: {report.outcome}, {len(failing)} fail, {len(selection.tests)} of {len(baseline.packages)} selected"
          f"{' (full)' if selection.is_full else ''}{'' if is_executed else ', not executed'}, suspect {rank}", flush=True)


class ChangeCounts:
    """The counts of the changes of one kind in the projects of a language."""

    def __init__(self):
        self.counts, self.projects, self.shares = collections.Counter(), set(), []

    def has_left_out(self):
        return bool(self.counts["left out changes"] or self.counts["left out tests"])

    def cells(self):
        counts = self.counts
        numbers = [len(self.projects), counts["changes"], counts["failing"]]
        return [*map(str, numbers), f"{counts['left out changes']}, {counts['left out tests']}", str(counts["full"]), f"{statistics.median(self.shares):.2f}"]


def measure_other_changes(row, project, baseline, options, counts_of_kinds):
    for change in other_changes(project.copy, row, options.seed):
        with applied(project.copy, change):
            affected, everything = project.run_after("--affected"), project.run_after()
        counts = counts_of_kinds[row["language"], change.kind]
        counts.projects.add(row["name"])
        counts.shares.append(affected.share)
        failing = failures(everything, baseline)
        fails = bool(failing) or is_broken(everything, baseline)
        # A run that stops at an error of a file or a build does not pass, whatever else would fail. A run of all tests leaves none out: where
        # two of these differ, a test is flaky.
        may_leave_out = affected.outcome in ("passed", "failed") and not affected.is_full
        left_out = failing - failures(affected, baseline) if may_leave_out else set()
        passes = not failures(affected, baseline) and not is_broken(affected, baseline)
        leaves_out_change = fails and passes and not affected.is_full
        counts.counts.update({"changes": 1, "failing": int(fails), "full": int(affected.is_full), "left out changes": int(leaves_out_change), "left out tests": len(left_out)})
        what = "LEFT OUT " if left_out or leaves_out_change else ""
        print(f"{what}{row['name']} {change.text}: {everything.outcome}, {len(failing)} fail, affected{' (full)' if affected.is_full else ''}: "
              f"{affected.outcome}, {affected.selected} of {len(baseline.packages)} selected, lacks {sorted(left_out)[:3]}", flush=True)


def measure(row, options, counts_of_kinds):
    """Returns the cells of a project and whether something was left out, or raises Unmeasured."""
    directory, error = install_sources(row, options.cache)
    if directory is None:
        raise Unmeasured(error)
    project = Project(directory, os.environ.get("PROCTOR", str(TOP / "target/release/proctor")), options.cache / "mutants")
    baseline = project.baseline()
    if not baseline.passed:
        raise Unmeasured(f"no test passes: {baseline.outcome}")
    if len(baseline.packages) > TESTS_MAX:
        raise Unmeasured("it has more tests than an answer lists")
    mutants = measure_mutants(row, project, baseline, options)
    if mutants.counts["mutants"] == mutants.counts["unexecuted"]:
        raise Unmeasured("no line that tests execute could be changed")
    measure_other_changes(row, project, baseline, options, counts_of_kinds)
    return mutants.cells(len(baseline.packages)), mutants.has_left_out()


class Unmeasured(Exception):
    """The reason why a project has no mutants."""


def unmeasured_cells(reason):
    return [f"not measured: {reason}", *[""] * 10]


def run_row(row, table, options, counts_of_kinds):
    """Writes the line of a project; returns whether it is as it must be."""
    try:
        cells, has_left_out = measure(row, options, counts_of_kinds)
    except Unmeasured as reason:
        cells, has_left_out = unmeasured_cells(reason), True
    except Exception as error:  # One project must not end the run of the others.
        traceback.print_exc()
        cells, has_left_out = unmeasured_cells(f"{type(error).__name__} in the script"), True
    table.write(row_name(row), *cells)
    return not has_left_out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--each", type=int, default=25, help="mutants of each project")
    parser.add_argument("--seconds", type=int, default=600, help="most seconds for the mutants of each project")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE.parent / "MUTANTS.md")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    rows = [row for row in read_rows() if not row["needs"] and not row["unmeasured"] and row["language"] in EXTENSIONS]
    kinds = list(itertools.product(dict.fromkeys(row["language"] for row in rows), KINDS))
    table = Table(options.out, (HEAD, [row_name(row) for row in rows]), (CHANGES_HEAD, kinds))
    counts_of_kinds = collections.defaultdict(ChangeCounts)
    chosen = [row for row in rows if options.only in f"{row['language']} {row['name']}"]
    are_good = [run_row(row, table, options, counts_of_kinds) for row in chosen]
    for name, counts in counts_of_kinds.items():
        table.write(name, *counts.cells())
    return 0 if all(are_good) and not any(counts.has_left_out() for counts in counts_of_kinds.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
