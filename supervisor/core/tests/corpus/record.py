#!/usr/bin/env python3
"""Runs the broken projects of `projects/` in proctor's sandbox and writes the reports, trimmed to what the analysis reads, to
`reports/LANGUAGE.jsonl`. Usage: record.py PROCTOR TOOLS [NAME...]; NAME records only these anew.

A project in `projects/LANGUAGE.txt` begins with `## NAME | FRAMEWORK | KIND | ROOT`: the pattern that the analysis must find, and the
file that it must name as the root (`-` if the report has no file of the cause). `@ DIR` takes the files of a directory of `fixtures/`;
`-- PATH` begins a file.
"""
import json, os, pathlib, shutil, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
KEPT = ["outcome", "framework", "summary", "partial", "collectors", "evidence", "limits", "isolation"]
TEXT_BYTES_MAX = 3000


def projects(path):
    project = None
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            if project:
                yield project
            name, framework, kind, root = (part.strip() for part in line[3:].split("|"))
            project = {"name": name, "framework": framework, "kind": kind, "root": root, "files": {}, "copy": None}
        elif line.startswith("@ "):
            project["copy"] = line[2:].strip()
        elif line.startswith("-- "):
            file = line[3:].strip()
            project["files"][file] = ""
        else:
            project["files"][file] += line + "\n"
    yield project


def write(project, into, tools):
    if project["copy"]:
        shutil.copytree(ROOT / "fixtures" / project["copy"], into, dirs_exist_ok=True)
    for file, content in project["files"].items():
        (into / file).parent.mkdir(parents=True, exist_ok=True)
        (into / file).write_text(content)
    if project["framework"] in ("jest", "mocha", "node", "playwright", "vitest"):
        (into / "node_modules").symlink_to(tools / "node/lib/node_modules")
    if project["framework"] == "maven" and not (into / "pom.xml").exists():
        shutil.copy(ROOT / "fixtures/maven/pass/pom.xml", into)


def clip(value):
    if isinstance(value, str):
        return value if len(value) <= TEXT_BYTES_MAX else value[: TEXT_BYTES_MAX // 2] + "\n" + value[-TEXT_BYTES_MAX // 2 :]
    if isinstance(value, list):
        return [clip(item) for item in value]
    return {name: clip(item) for name, item in value.items()} if isinstance(value, dict) else value


def trimmed(report):
    kept = {name: report[name] for name in KEPT}
    kept["tests"] = [test for test in report["tests"] if test["outcome"] in ("failed", "error")][:20]
    isolation = report["isolation"]
    kept["isolation"] = {"network": isolation["network"], "layers": isolation["layers"], "limits": [], "missing": []}
    for tail in ("stdout_tail", "stderr_tail"):
        kept[tail] = report[tail][-1000:]
    return clip(kept)


def record(project, proctor, tools):
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        os.chmod(scratch, 0o755)
        workspace = scratch / "workspace"
        workspace.mkdir()
        write(project, workspace, tools)
        path = f"{tools}/pytest/bin:{os.environ['PATH']}:{tools}/node/bin:{ROOT}/tests/stand-ins"
        environment = {**os.environ, "PATH": path, "XDG_STATE_HOME": str(scratch / "state"), "NO_COLOR": "1",
                       "MAVEN_OPTS": f"-Dmaven.repo.local={tools}/maven/repository"}
        limits = ["--timeout", "4s"] if project["kind"] == "timeout" and project["framework"] in ("go", "pytest") else []
        limits += ["--memory", "256MiB"] if project["kind"] == "out_of_memory" else []
        arguments = [proctor, "run", str(workspace), "--framework", project["framework"], "--output", "json", *limits]
        run = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300)
        out = run.stdout
        for path, name in ((workspace, "/workspace"), (scratch, "/scratch"), (tools, "/tools"), (ROOT, "/source")):
            out = out.replace(str(path), name)
        try:
            report = json.loads(out)
        except ValueError:
            print(f"{project['name']}: no report: {run.stderr[-500:]}", file=sys.stderr)
            return None
        if report["outcome"] == "passed":
            print(f"{project['name']}: passed", file=sys.stderr)
            return None
        return {"name": project["name"], "kind": project["kind"], "root": project["root"], "report": trimmed(report)}


def main():
    proctor, tools, names = sys.argv[1], pathlib.Path(sys.argv[2]), set(sys.argv[3:])
    (HERE / "reports").mkdir(exist_ok=True)
    for path in sorted((HERE / "projects").glob("*.txt")):
        output = HERE / "reports" / f"{path.stem}.jsonl"
        before = {}
        if output.exists():
            before = {case["name"]: case for case in map(json.loads, output.read_text().splitlines())}
        cases = []
        for project in projects(path):
            old = before.get(project["name"])
            if old and project["name"] not in names:
                cases.append({**old, "kind": project["kind"], "root": project["root"]})
            elif case := record(project, proctor, tools):
                cases.append(case)
            output.write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases + [
                old for name, old in before.items() if name not in {case["name"] for case in cases}]))


if __name__ == "__main__":
    main()
