#!/usr/bin/env python3
"""Totals of real projects' tests, by their own runners and by proctor, as a Markdown table.

usage: compare.py [--only TEXT] [--out FILE] [--cache DIR]

Each row of projects.tsv is a project as its registry publishes it. Its sources and what its tests need are installed into the
cache once; then its own command runs in one copy and `proctor run` in another, and the totals of both are compared. The
workspace is never this repository's. Must not know how proctor finds a runner: it is given the directory and nothing else.

Columns: `source` is a key of SOURCES, `extra` what it takes besides, `command` the project's own, `reader` a key of READERS,
`needs` what a project needs that no run here has (such a row is named and not run), `why` why the totals differ.
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
# Not within this repository: Cargo would take a project there for a member of its workspace.
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "proctor-projects"
SECONDS_MAX = 900
Totals = collections.namedtuple("Totals", "passed failed skipped status")


def run(command, cwd, env=None, seconds=SECONDS_MAX):
    """What a line for the shell printed, and its status; 124 where it took too long."""
    try:
        done = subprocess.run(
            ["bash", "-c", command], cwd=cwd, env={**os.environ, **(env or {})},
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
    """What fails in a package that passes is a test that a passing one ran by itself: it was expected to."""
    outcomes, failed, content = collections.Counter(), collections.Counter(), set()
    for line in text.splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            if event.get("Test") and event["Action"] == "fail":
                failed[event["Package"]] += 1
            elif event.get("Test"):
                outcomes[event["Action"]] += 1
            elif event["Action"] == "pass":
                content.add(event["Package"])
    expected = sum(count for package, count in failed.items() if package in content)
    return outcomes["pass"], sum(failed.values()) - expected, outcomes["skip"] + expected


# How each runner's own output is read: passed, failed, skipped.
READERS = {
    "borp": lambda t: (total(r"^(?:ℹ|#) pass (\d+)", t), total(r"^(?:ℹ|#) fail (\d+)", t), total(r"^(?:ℹ|#) skipped (\d+)", t) + total(r"^(?:ℹ|#) todo (\d+)", t)),
    "cargo": lambda t: (total(r"^test result: .*? (\d+) passed", t), total(r"^test result: .*? (\d+) failed", t), total(r"^test result: .*? (\d+) ignored", t)),
    "ctest": lambda t: ctest(t),
    "go": read_go,
    # A suite that does not run is named twice, where it fails and in the summary of failures where there is one; its tests never.
    "jest": lambda t: (total(r"^Tests: .*?(\d+) passed", t), total(r"^Tests: .*?(\d+) failed", t) + len(set(re.findall(r"^FAIL +(\S+)(?= ?.*\n +● Test suite failed to run)", t, re.M))), total(r"^Tests: .*?(\d+) skipped", t) + total(r"^Tests: .*?(\d+) todo", t)),
    "maven": lambda t: maven(t),
    "mocha": lambda t: (total(r"^ *(\d+) passing", t), total(r"^ *(\d+) failing", t), total(r"^ *(\d+) pending", t)),
    "pytest": lambda t: pytest(t),
    "vitest": lambda t: (total(r"^ *Tests +.*?(\d+) passed", t), total(r"^ *Tests +.*?(\d+) failed", t), total(r"^ *Tests +.*?(\d+) skipped", t) + total(r"^ *Tests +.*?(\d+) todo", t)),
    "unittest": lambda t: unittest(t),
    "tap": read_tap,
    "status": lambda t: (0, 0, 0),
}


def pytest(text):
    last = [line for line in text.splitlines() if re.search(r"\d+ (passed|failed|skipped|error).* in [\d.]+s", line)]
    line = last[-1] if last else ""
    count = lambda word: number(rf"(\d+) {word}", line)
    return count("passed") + count("xpassed"), count("failed") + count("errors?"), count("skipped") + count("xfailed")


def ctest(text):
    every, failed = number(r"tests? failed out of (\d+)", text), number(r"(\d+) tests? failed out of", text)
    left = len(re.findall(r"^ *\d+/\d+ Test +#\d+: .*\*\*\*(?:Skipped|Not Run \(Disabled\))", text, re.M))
    return every - failed - left, failed, left


def unittest(text):
    words = dict(re.findall(r"(failures|errors|skipped|expected failures|unexpected successes)=(\d+)", (text.splitlines() or [""])[-1]))
    count = lambda word: int(words.get(word, 0))
    failed = count("failures") + count("errors")
    skipped = count("skipped") + count("expected failures")
    return number(r"^Ran (\d+) tests?", text) - failed - skipped, failed, skipped


def maven(text):
    found = re.findall(r"^\[(?:INFO|WARNING|ERROR)\] Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)\s*$", text, re.M)
    sums = [sum(map(int, column)) for column in zip(*found)] if found else [0, 0, 0, 0]
    return sums[0] - sums[1] - sums[2] - sums[3], sums[1] + sums[2], sums[3]


# What checks style, builds bundles or publishes is nothing that tests need, and is often newer than what a registry has.
NO_TESTS = re.compile(r"eslint|eclint|neostandard|^standard$|^snazzy$|prettier|npmignore|safe-publish|in-publish|evalmd|browserify|"
                      r"bundle-collapser|common-shakeify|unassertify|uglify|auto-changelog|^pre-commit$|husky|lint-staged|lint|np$|rollup|"
                      r"commitlint|standard-version|typedoc|^@arethetypeswrong|^tsd$|size-limit")

TRIM = f"{shlex.quote(sys.executable)} {shlex.quote(str(Path(__file__).resolve()))} --trim"
NPM = TRIM + " && {extra} npm install --ignore-scripts --no-audit --no-fund --silent --legacy-peer-deps"

# What Debian has as the project published it, from wherever this host has its packages, without a change to its own lists.
APT = """apt() { apt-get -o Dir::Etc::sourcelist="$PWD/../apt/sources.list" -o Dir::Etc::sourceparts="$PWD/../apt/parts" \
-o Dir::State::lists="$PWD/../apt/lists" -o APT::Sandbox::User=root --quiet --quiet "$@"; }
if [ ! -d ../apt/lists ]; then mkdir -p ../apt/parts ../apt/lists/partial
  sed "s/^deb /deb-src /" /etc/apt/sources.list > ../apt/sources.list 2>/dev/null || touch ../apt/sources.list
  for file in /etc/apt/sources.list.d/*.sources; do sed "s/^Types:.*/Types: deb-src/" "$file" > ../apt/parts/"${file##*/}"; done
  apt update; fi
apt source --download-only {name}
rm -f {name}_*.debian.tar.* && tar xf {name}_{version}*.orig.tar.* --strip-components=1 && rm -f {name}_*"""

# How a project's sources come from its registry, and then what it needs. {at} is NAME@VERSION, {name}, {version}.
SOURCES = {
    "npm": "npm pack --silent {at} >/dev/null && tar xzf *.tgz --strip-components=1 && rm *.tgz && " + NPM,
    "pypi": "python3 -m pip download --quiet --no-deps --no-build-isolation --no-binary :all: {name}=={version} || "
            "python3 -m pip download --quiet --no-deps --no-binary :all: {name}=={version}; tar xzf *.tar.gz --strip-components=1 && "
            "rm *.tar.gz && (cd / && python3 -m venv \"$OLDPWD/.venv\") && .venv/bin/pip install --quiet 'pytest<9' . {extra}",
    "go": "dir=$(go mod download -json {at} | python3 -c 'import json,sys; print(json.load(sys.stdin)[\"Dir\"])') && "
          "cp -r \"$dir\"/. . && chmod -R u+w . && go mod download {extra}",
    "crate": "cargo init --quiet --vcs none --name fetch .fetch && (cd .fetch && cargo add --quiet {name}@={version} && cargo fetch --quiet) && "
             "cp -r \"${CARGO_HOME:-$HOME/.cargo}\"/registry/src/*/{name}-{version}/. . && rm -rf .fetch && cargo fetch --quiet {extra}",
    "debian": APT + " {extra}",
    "debian-npm": APT + " && " + NPM,
    # A run of everything but the tests downloads what a run without a network needs.
    "debian-maven": APT + " && {extra} mvn --batch-mode --quiet test -DskipTests=false -Dmaven.test.failure.ignore=true >/dev/null && rm -rf target",
}


def command_of(row):
    line = SOURCES[row["source"]]
    for mark, text in {"{at}": "{name}@{version}", "{name}": row["name"], "{version}": row["version"], "{extra}": row["extra"]}.items():
        line = line.replace(mark, text)
    return line


def trim(place):
    """Takes out of package.json what no test needs."""
    path = place / "package.json"
    manifest = json.loads(path.read_text())
    needed = manifest.get("devDependencies", {})
    manifest["devDependencies"] = {name: version for name, version in needed.items() if not NO_TESTS.search(name)}
    path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def obtained(row, cache):
    """The directory of the project's sources with what they need, or why there is none."""
    place = cache / re.sub(r"[^\w.-]+", "_", f"{row['language']}-{row['name']}-{row['version']}")
    mark = place.with_name(place.name + ".whole")
    if not mark.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        line = command_of(row)
        said, status = run(line, place)
        (cache / f"{place.name}.install.log").write_text(said)
        if status != 0:
            return None, f"could not be installed (status {status})"
        mark.touch()
    return place, ""


# A root's own command could change the host (gin's tests set the mode of `/`), and root's privileges let tests pass or fail that
# nobody else's do: it has neither, no process of the host, and no network, as in a run.
ALONE = """set -e; mount --make-rprivate /
for dir in "$1" ~/.cache ~/.cargo ~/.m2 ~/.npm ~/go; do mkdir -p "$dir"; mount --bind "$dir" "$dir"; done
for dir in /tmp /var/tmp; do mount -t tmpfs tmpfs "$dir"; done
mount -o remount,bind,ro /
for dir in /proc/sys /sys; do mount --rbind "$dir" "$dir"; mount -o remount,bind,ro "$dir"; done
ip link set lo up; cd "$1"
exec setpriv --bounding-set -all --inh-caps -all --no-new-privs bash -c "$2" """


def natively(row, place):
    copy = place.with_name(place.name + ".copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place, copy, symlinks=True)
    line = row["command"]
    if os.geteuid() == 0:
        line = shlex.join(["exec", "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--net", "bash", "-c", ALONE, "alone", str(copy), line])
    said, status = run(line, copy)
    shutil.rmtree(copy, ignore_errors=True)
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
    broken = sum(1 for one in report["collectors"] if one["kind"] == "collection")
    totals = Totals(passed, count["failed"] + count["error"] + broken, count["skipped"] + count["xfailed"], status)
    return totals, f"{report.get('framework')}: {report.get('outcome')}"


def same(row, native, ours):
    agree = (native.status == 0) == (ours.status == 0)
    return agree and (row["reader"] == "status" or native[:3] == ours[:3])


def line(row, cache, proctor):
    cells = lambda *rest: "| " + " | ".join([row["language"], f"{row['name']} {row['version']}".strip(), *rest]) + " |"
    if row["needs"]:
        return cells("", "", "", f"not run: needs {row['needs']}")
    place, why = obtained(row, cache)
    if place is None:
        return cells(f"`{row['command']}`", "", "", f"**no**: {why}")
    native = natively(row, place)
    ours, told = by_proctor(place, proctor)
    show = lambda t: "exit " + str(t.status) if row["reader"] == "status" else f"{t.passed} / {t.failed} / {t.skipped}, exit {t.status}"
    verdict = "yes" if same(row, native, ours) else f"no: {row['why']}" if row["why"] else "**no**"
    return cells(f"`{row['command']}`", show(native), f"{show(ours)} ({told})", verdict)


HEAD = """# Real projects

Written by `make projects`; passed / failed / skipped, by the project's own command and by `proctor run` without any
option. What is expected to fail counts as skipped. A row of `projects.tsv` without a line here has not been run yet.

| language | project | its own command | its runner | proctor | the same |
|---|---|---|---|---|---|
"""


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--only", default="")
    ask.add_argument("--out", type=Path, default=HERE.parent / "PROJECTS.md")
    ask.add_argument("--cache", type=Path, default=CACHE)
    ask.add_argument("--trim", action="store_true", help="take out of ./package.json what no test needs, and nothing else")
    asked = ask.parse_args()
    if asked.trim:
        return trim(Path.cwd())
    proctor = os.environ.get("PROCTOR", str(TOP / "target/release/proctor"))
    with open(HERE / "projects.tsv", newline="") as file:
        rows = [{name: value or "" for name, value in row.items()} for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    # The lines of an earlier run stay for the rows that this one leaves alone.
    name_of = lambda text: tuple(cell.strip() for cell in text.split("|")[1:3])
    known = {name_of(text): text for text in asked.out.read_text().splitlines() if text.startswith("| ")} if asked.out.exists() else {}
    names = [(row["language"], f"{row['name']} {row['version']}".strip()) for row in rows]
    for row, name in zip(rows, names):
        if asked.only in f"{row['language']} {row['name']}":
            known[name] = line(row, asked.cache, proctor)
            print(known[name], flush=True)
            asked.out.write_text(HEAD + "".join(f"{known[name]}\n" for name in names if name in known))
    return 1 if any("**no**" in text for text in known.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
