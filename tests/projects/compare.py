#!/usr/bin/env python3
"""Compares the test totals of real projects, by their own runner and by proctor, and writes a Markdown table.

usage: compare.py [--only TEXT] [--out FILE] [--cache DIR]

Each row of projects.tsv is a project as its registry publishes it. Its sources and dependencies are installed into the cache
once; then its own command runs in one copy and `proctor run` in another, and the totals are compared. proctor is given the
directory and no options.

Columns: `source` is a key of SOURCES, `extra` its additional arguments, `command` the project's own test command, `reader` a
key of READERS, `needs` a requirement that runs here do not have (the row is listed, not run), `why` the reason for
different totals, `unmeasured` the reason why mutants.py does not change it.
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
# Outside this repository, because Cargo would treat a project inside as a member of its workspace.
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "proctor-projects"
SECONDS_MAX = 900
Totals = collections.namedtuple("Totals", "passed failed skipped status")


def run(command, cwd, env=None, seconds=SECONDS_MAX):
    """Runs a shell command; returns its output and status, 124 after a timeout."""
    try:
        result = subprocess.run(
            ["bash", "-c", command], cwd=cwd, env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, check=False,
        )
        return result.stdout.decode(errors="replace"), result.returncode
    except subprocess.TimeoutExpired as timeout:
        return (timeout.stdout or b"").decode(errors="replace"), 124


def last_number(pattern, text):
    matches = re.findall(pattern, text, re.M)
    return int(matches[-1]) if matches else 0


def total(pattern, text):
    return sum(int(match) for match in re.findall(pattern, text, re.M))


def read_tap(text):
    """Counts the points of every level of a TAP stream; a point with subtests counts once, as in Tap itself."""
    points = [m for m in re.finditer(r"^ *(not )?ok\b(?: +\d+)?(.*)$", text, re.M)]
    skipped = [m for m in points if re.search(r"# *(skip|todo)", m[2], re.I)]
    rest = [m for m in points if m not in skipped]
    return sum(not m[1] for m in rest), sum(bool(m[1]) for m in rest), len(skipped)


def read_go(text):
    """Counts a failed test of a passing package as skipped: a passing test ran it and expected the failure."""
    outcomes, failed, passing = collections.Counter(), collections.Counter(), set()
    for line in text.splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            if event.get("Test") and event["Action"] == "fail":
                failed[event["Package"]] += 1
            elif event.get("Test"):
                outcomes[event["Action"]] += 1
            elif event["Action"] == "pass":
                passing.add(event["Package"])
    expected = sum(count for package, count in failed.items() if package in passing)
    return outcomes["pass"], sum(failed.values()) - expected, outcomes["skip"] + expected


# Functions from a runner's output to its totals: passed, failed, skipped.
READERS = {
    "borp": lambda t: (total(r"^(?:ℹ|#) pass (\d+)", t), total(r"^(?:ℹ|#) fail (\d+)", t), total(r"^(?:ℹ|#) skipped (\d+)", t) + total(r"^(?:ℹ|#) todo (\d+)", t)),
    "cargo": lambda t: (total(r"^test result: .*? (\d+) passed", t), total(r"^test result: .*? (\d+) failed", t), total(r"^test result: .*? (\d+) ignored", t)),
    "ctest": lambda t: ctest(t),
    "go": read_go,
    # A suite that does not run is printed where it fails and again in a summary of failures; its tests are never printed.
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
    summaries = [line for line in text.splitlines() if re.search(r"\d+ (passed|failed|skipped|error).* in [\d.]+s", line)]
    line = summaries[-1] if summaries else ""
    count = lambda word: last_number(rf"(\d+) {word}", line)
    return count("passed") + count("xpassed"), count("failed") + count("errors?"), count("skipped") + count("xfailed")


def ctest(text):
    total_count, failed = last_number(r"tests? failed out of (\d+)", text), last_number(r"(\d+) tests? failed out of", text)
    skipped = len(re.findall(r"^ *\d+/\d+ Test +#\d+: .*\*\*\*(?:Skipped|Not Run \(Disabled\))", text, re.M))
    return total_count - failed - skipped, failed, skipped


def unittest(text):
    words = dict(re.findall(r"(failures|errors|skipped|expected failures|unexpected successes)=(\d+)", (text.splitlines() or [""])[-1]))
    count = lambda word: int(words.get(word, 0))
    failed = count("failures") + count("errors")
    skipped = count("skipped") + count("expected failures")
    return last_number(r"^Ran (\d+) tests?", text) - failed - skipped, failed, skipped


def maven(text):
    matches = re.findall(r"^\[(?:INFO|WARNING|ERROR)\] Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)\s*$", text, re.M)
    sums = [sum(map(int, column)) for column in zip(*matches)] if matches else [0, 0, 0, 0]
    return sums[0] - sums[1] - sums[2] - sums[3], sums[1] + sums[2], sums[3]


# Linters, bundlers and publishing tools: tests do not need them, and a registry often lacks the required version.
UNNEEDED_PACKAGES = re.compile(r"eslint|eclint|neostandard|^standard$|^snazzy$|prettier|npmignore|safe-publish|in-publish|evalmd|browserify|"
                      r"bundle-collapser|common-shakeify|unassertify|uglify|auto-changelog|^pre-commit$|husky|lint-staged|lint|np$|rollup|"
                      r"commitlint|standard-version|typedoc|^@arethetypeswrong|^tsd$|size-limit")

TRIM = f"{shlex.quote(sys.executable)} {shlex.quote(str(Path(__file__).resolve()))} --trim"
NPM = TRIM + " && {extra} npm install --ignore-scripts --no-audit --no-fund --silent --legacy-peer-deps"

# Fetches the upstream sources from the Debian mirror of this host, without changing the host's own package lists.
APT = """apt() { apt-get -o Dir::Etc::sourcelist="$PWD/../apt/sources.list" -o Dir::Etc::sourceparts="$PWD/../apt/parts" \
-o Dir::State::lists="$PWD/../apt/lists" -o APT::Sandbox::User=root --quiet --quiet "$@"; }
if [ ! -d ../apt/lists ]; then mkdir -p ../apt/parts ../apt/lists/partial
  sed "s/^deb /deb-src /" /etc/apt/sources.list > ../apt/sources.list 2>/dev/null || touch ../apt/sources.list
  for file in /etc/apt/sources.list.d/*.sources; do sed "s/^Types:.*/Types: deb-src/" "$file" > ../apt/parts/"${file##*/}"; done
  apt update; fi
apt source --download-only {name}
rm -f {name}_*.debian.tar.* && tar xf {name}_{version}*.orig.tar.* --strip-components=1 && rm -f {name}_*"""

# Shell commands that install a project's sources and dependencies. Placeholders: {at} (NAME@VERSION), {name}, {version}, {extra}.
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
    # This build downloads everything that a run without network needs.
    "debian-maven": APT + " && {extra} mvn --batch-mode --quiet test -DskipTests=false -Dmaven.test.failure.ignore=true >/dev/null && rm -rf target",
}


def install_command(row):
    command = SOURCES[row["source"]]
    for placeholder, text in {"{at}": "{name}@{version}", "{name}": row["name"], "{version}": row["version"], "{extra}": row["extra"]}.items():
        command = command.replace(placeholder, text)
    return command


def trim(directory):
    """Removes the packages that tests do not need from package.json."""
    path = directory / "package.json"
    manifest = json.loads(path.read_text())
    packages = manifest.get("devDependencies", {})
    manifest["devDependencies"] = {name: version for name, version in packages.items() if not UNNEEDED_PACKAGES.search(name)}
    path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def install_sources(row, cache):
    """Returns the directory with the project's sources and dependencies, or None and the reason."""
    directory = cache / re.sub(r"[^\w.-]+", "_", f"{row['language']}-{row['name']}-{row['version']}")
    stamp = directory.with_name(directory.name + ".whole")
    if not stamp.exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        output, status = run(install_command(row), directory)
        (cache / f"{directory.name}.install.log").write_text(output)
        if status != 0:
            return None, f"could not be installed (status {status})"
        stamp.touch()
    return directory, ""


# As root, a project's command could change the host (gin's tests set the mode of `/`), and privileges change the outcome of some
# tests. As in a run, the command therefore has no privileges, no view of host processes and no network.
ISOLATED = """set -e; mount --make-rprivate /
for dir in "$1" ~/.cache ~/.cargo ~/.m2 ~/.npm ~/go; do mkdir -p "$dir"; mount --bind "$dir" "$dir"; done
for dir in /tmp /var/tmp; do mount -t tmpfs tmpfs "$dir"; done
mount -o remount,bind,ro /
for dir in /proc/sys /sys; do mount --rbind "$dir" "$dir"; mount -o remount,bind,ro "$dir"; done
ip link set lo up; cd "$1"
exec setpriv --bounding-set -all --inh-caps -all --no-new-privs bash -c "$2" """


def run_natively(row, directory):
    copy = directory.with_name(directory.name + ".copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy, symlinks=True)
    command = row["command"]
    if os.geteuid() == 0:
        command = shlex.join(["exec", "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--net", "bash", "-c", ISOLATED, "isolated", str(copy), command])
    output, status = run(command, copy)
    shutil.rmtree(copy, ignore_errors=True)
    (directory.parent / f"{directory.name}.native.log").write_text(output)
    return Totals(*READERS[row["reader"]](output), status)


def run_proctor(directory, proctor):
    output, status = run(f"{proctor} run '{directory}' --output json --coverage off --timeout {SECONDS_MAX}s 2>/dev/null", directory)
    (directory.parent / f"{directory.name}.proctor.json").write_text(output)
    try:
        report = json.loads(output[output.index("{"):])
    except ValueError:
        return Totals(0, 0, 0, status), "no report"
    summary = report["summary"]
    passed = summary["passed"] + summary["xpassed"]
    broken = sum(1 for collector in report["collectors"] if collector["kind"] == "collection")
    totals = Totals(passed, summary["failed"] + summary["error"] + broken, summary["skipped"] + summary["xfailed"], status)
    return totals, f"{report.get('framework')}: {report.get('outcome')}"


def is_same(row, native, sandboxed):
    statuses_agree = (native.status == 0) == (sandboxed.status == 0)
    return statuses_agree and (row["reader"] == "status" or native[:3] == sandboxed[:3])


def table_cells(row, cache, proctor):
    if row["needs"]:
        return "", "", "", f"not run: needs {row['needs']}"
    directory, error = install_sources(row, cache)
    if directory is None:
        return f"`{row['command']}`", "", "", f"**no**: {error}"
    native = run_natively(row, directory)
    sandboxed, label = run_proctor(directory, proctor)
    show = lambda t: "exit " + str(t.status) if row["reader"] == "status" else f"{t.passed} / {t.failed} / {t.skipped}, exit {t.status}"
    verdict = "yes" if is_same(row, native, sandboxed) else f"no: {row['why']}" if row["why"] else "**no**"
    return f"`{row['command']}`", show(native), f"{show(sandboxed)} ({label})", verdict


HEAD = """# Real projects

Written by `make projects`: passed / failed / skipped tests, by the project's own command and by `proctor run` without
options. Expected failures count as skipped. Rows of `projects.tsv` without a line here have not been run yet.

| language | project | its own command | its runner | proctor | same |
|---|---|---|---|---|---|
"""


def read_rows():
    with open(HERE / "projects.tsv", newline="") as file:
        return [{name: value or "" for name, value in row.items()} for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def row_name(row):
    """The first two cells of a row's line."""
    return row["language"], f"{row['name']} {row['version']}".strip()


class Table:
    """A Markdown file of sections, each a head and the names of its lines. Lines that are not written again stay as they were."""

    def __init__(self, out, *sections):
        self.out, self.sections = out, sections
        parse_name = lambda text: tuple(cell.strip() for cell in text.split("|")[1:3])
        self.lines = {parse_name(text): text for text in out.read_text().splitlines() if text.startswith("| ")} if out.exists() else {}

    def write(self, name, *cells):
        self.lines[name] = "| " + " | ".join([*name, *cells]) + " |"
        print(self.lines[name], flush=True)
        self.out.write_text("\n".join(
            head + "".join(f"{self.lines[name]}\n" for name in names if name in self.lines) for head, names in self.sections
        ))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=HERE.parent / "PROJECTS.md")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--trim", action="store_true", help="only remove the packages that tests do not need from ./package.json")
    options = parser.parse_args()
    if options.trim:
        return trim(Path.cwd())
    proctor = os.environ.get("PROCTOR", str(TOP / "target/release/proctor"))
    rows = read_rows()
    table = Table(options.out, (HEAD, [row_name(row) for row in rows]))
    for row in rows:
        if options.only in f"{row['language']} {row['name']}":
            table.write(row_name(row), *table_cells(row, options.cache, proctor))
    return 1 if any("**no**" in text for text in table.lines.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
