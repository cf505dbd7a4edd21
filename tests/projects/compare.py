#!/usr/bin/env python3
"""Totals of real projects' tests, by their own runners and by proctor, as a Markdown table.

usage: compare.py [--only TEXT] [--out FILE] [--cache DIR]

Each row of projects.tsv is a project as its registry publishes it. Its sources and what its tests need are installed into the
cache once; then its own command runs in one copy and `proctor run` in another, and the totals of both are compared. The
workspace is never this repository's. Must not know how proctor finds a runner: it is given the directory and nothing else.
"""

import argparse
import collections
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
SECONDS_MAX = 900
Totals = collections.namedtuple("Totals", "passed failed skipped status")


def run(command, cwd, env=None, seconds=SECONDS_MAX):
    """What a line for the shell printed, and its status; 124 where it took too long."""
    try:
        done = subprocess.run(
            ["bash", "-c", command], cwd=cwd, env={**os.environ, "CI": "1", "NO_COLOR": "1", **(env or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, check=False,
        )
        return done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(errors="replace"), 124


def number(pattern, text, last=True):
    found = re.findall(pattern, text, re.M)
    return int(found[-1 if last else 0]) if found else 0


def total(pattern, text):
    return sum(int(one) for one in re.findall(pattern, text, re.M))


def read_tap(text):
    """Points of every level of a TAP stream; a point above subtests counts as Tap counts it, once."""
    points = [m for m in re.finditer(r"^ *(not )?ok\b(?: +\d+)?(.*)$", text, re.M)]
    skipped = [m for m in points if re.search(r"# *(skip|todo)", m[2], re.I)]
    rest = [m for m in points if m not in skipped]
    return sum(not m[1] for m in rest), sum(bool(m[1]) for m in rest), len(skipped)


def read_go(text):
    outcomes = collections.Counter()
    for line in text.splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            if event.get("Test"):
                outcomes[event["Action"]] += 1
    return outcomes["pass"], outcomes["fail"], outcomes["skip"]


# How each runner's own output is read: passed, failed, skipped.
READERS = {
    "borp": lambda t: (total(r"^ℹ pass (\d+)", t), total(r"^ℹ fail (\d+)", t), total(r"^ℹ skipped (\d+)", t) + total(r"^ℹ todo (\d+)", t)),
    "cargo": lambda t: (total(r"^test result: .*? (\d+) passed", t), total(r"^test result: .*? (\d+) failed", t), total(r"^test result: .*? (\d+) ignored", t)),
    "ctest": lambda t: (number(r"tests? failed out of (\d+)", t) - number(r"(\d+) tests? failed out of", t), number(r"(\d+) tests? failed out of", t), 0),
    "go": read_go,
    "jest": lambda t: (total(r"^Tests: .*?(\d+) passed", t), total(r"^Tests: .*?(\d+) failed", t), total(r"^Tests: .*?(\d+) skipped", t) + total(r"^Tests: .*?(\d+) todo", t)),
    "maven": lambda t: maven(t),
    "mocha": lambda t: (total(r"^ *(\d+) passing", t), total(r"^ *(\d+) failing", t), total(r"^ *(\d+) pending", t)),
    "pytest": lambda t: pytest(t),
    "tap": read_tap,
    "status": lambda t: (0, 0, 0),
}


def pytest(text):
    last = [line for line in text.splitlines() if re.search(r"\d+ (passed|failed|skipped|error).* in [\d.]+s", line)]
    line = last[-1] if last else ""
    count = lambda word: number(rf"(\d+) {word}", line)
    return count("passed") + count("xpassed"), count("failed") + count("errors?"), count("skipped") + count("xfailed")


def maven(text):
    found = re.findall(r"^\[(?:INFO|WARNING|ERROR)\] Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)\s*$", text, re.M)
    sums = [sum(map(int, column)) for column in zip(*found)] if found else [0, 0, 0, 0]
    return sums[0] - sums[1] - sums[2] - sums[3], sums[1] + sums[2], sums[3]


# How a project's sources come from its registry, and then what it needs. {at} is NAME@VERSION, {name}, {version}.
SOURCES = {
    "npm": "npm pack --silent {at} >/dev/null && tar xzf *.tgz --strip-components=1 && rm *.tgz && {extra} "
           "npm install --ignore-scripts --no-audit --no-fund --silent",
    "pypi": "python3 -m pip download --quiet --no-deps --no-build-isolation --no-binary :all: {name}=={version} || "
            "python3 -m pip download --quiet --no-deps --no-binary :all: {name}=={version}; tar xzf *.tar.gz --strip-components=1 && "
            "rm *.tar.gz && python3 -m venv .venv && .venv/bin/pip install --quiet pytest . {extra}",
    "go": "dir=$(go mod download -json {at} | python3 -c 'import json,sys; print(json.load(sys.stdin)[\"Dir\"])') && "
          "cp -r \"$dir\"/. . && chmod -R u+w . && go mod download {extra}",
    "crate": "cargo init --quiet --vcs none --name fetch .fetch && (cd .fetch && cargo add --quiet {name}@={version} && cargo fetch --quiet) && "
             "cp -r \"${{CARGO_HOME:-$HOME/.cargo}}\"/registry/src/*/{name}-{version}/. . && rm -rf .fetch && cargo fetch --quiet {extra}",
    "debian": "apt-get source --quiet --quiet --download-only {name} && dpkg-source --extract --skip-patches *.dsc src && "
              "mv src/* . {extra}",
}


def obtained(row, cache):
    """The directory of the project's sources with what they need, or why there is none."""
    place = cache / f"{row['language']}-{row['name'].replace('/', '_')}-{row['version']}"
    mark = place.with_suffix(place.suffix + ".whole")
    if not mark.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        line = SOURCES[row["source"]].format(at=f"{row['name']}@{row['version']}", name=row["name"], version=row["version"], extra=row["extra"])
        said, status = run(line, place)
        if status != 0:
            return None, f"not installed: {said.strip().splitlines()[-1] if said.strip() else status}"
        mark.touch()
    return place, ""


def natively(row, place):
    # Root's own privileges would let tests pass or fail that nobody else's do.
    line = row["command"]
    if os.geteuid() == 0:
        line = f"exec setpriv --bounding-set -all --inh-caps -all bash -c {shlex.quote(line)}"
    said, status = run(line, place)
    (place.parent / f"{place.name}.native.log").write_text(said)
    return Totals(*READERS[row["reader"]](said), status)


def by_proctor(place, proctor):
    said, status = run(f"{proctor} run '{place}' --output json --coverage off --timeout {SECONDS_MAX}s 2>/dev/null", place)
    (place.parent / f"{place.name}.proctor.json").write_text(said)
    try:
        report = json.loads(said[said.index("{"):])
    except ValueError:
        return Totals(0, 0, 0, status), "no report"
    count = report["summary"]
    passed = count["passed"] + count["xpassed"]
    totals = Totals(passed, count["failed"] + count["error"], count["skipped"] + count["xfailed"], status)
    return totals, f"{report.get('framework')}: {report.get('outcome')}"


def same(row, native, ours):
    agree = (native.status == 0) == (ours.status == 0)
    return agree and (row["reader"] == "status" or native[:3] == ours[:3])


def line(row, cache, proctor):
    place, why = obtained(row, cache)
    if place is None:
        return f"| {row['language']} | {row['name']} {row['version']} | {why} | | | |"
    native = natively(row, place)
    ours, told = by_proctor(place, proctor)
    show = lambda t: "exit " + str(t.status) if row["reader"] == "status" else f"{t.passed} / {t.failed} / {t.skipped}, exit {t.status}"
    verdict = "yes" if same(row, native, ours) else "**no**"
    needs = f" Needs {row['needs']}." if row["needs"] else ""
    return f"| {row['language']} | {row['name']} {row['version']} | `{row['command']}` | {show(native)} | {show(ours)} ({told}) | {verdict}.{needs} |"


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--only", default="")
    ask.add_argument("--out", type=Path, default=HERE.parent / "PROJECTS.md")
    ask.add_argument("--cache", type=Path, default=Path(os.environ.get("PROCTOR_TOOLS", TOP / ".tools")) / "projects")
    asked = ask.parse_args()
    proctor = os.environ.get("PROCTOR", str(TOP / "target/release/proctor"))
    with open(HERE / "projects.tsv", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if asked.only in f"{row['language']} {row['name']}"]
    known = {}
    if asked.only and asked.out.exists():
        known = {text.split("|")[2].strip(): text for text in asked.out.read_text().splitlines() if text.startswith("| ")}
    lines = []
    for row in rows:
        lines.append(line(row, asked.cache, proctor))
        print(lines[-1], flush=True)
    if asked.only:
        known.update({text.split("|")[2].strip(): text for text in lines})
        known = {name: text for name, text in known.items() if name not in ("project", "---")}
        lines = sorted(known.values())
    head = ["# Real projects", "", "Written by `make projects`; passed / failed / skipped, by the project's own command and by `proctor run` without any",
            "option. What is expected to fail counts as skipped.", "",
            "| language | project | its own command | its runner | proctor | the same |", "|---|---|---|---|---|---|"]
    asked.out.write_text("\n".join(head + lines) + "\n")
    return 0 if all("| yes." in text for text in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
