"""Compares a report of proctor with the one that the plugin pytest-json-report writes of the same tests.

Usage: pytest_json_reader.py OURS THEIRS. Every field that the plugin has must be there with the same type, unless it is about
what proctor does not know; outcomes, crashes and counts must be equal. Prints the fields that proctor lacks.
"""

import json
import sys

ours, theirs = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
lacking = set()


def check(condition, *what):
    if not condition:
        sys.exit(" ".join(map(str, what)))


def same_type(name, a, b):
    numbers = isinstance(a, (int, float)) and isinstance(b, (int, float))
    check(numbers or type(a) is type(b), name, "is", type(a), "instead of", type(b))


def fields(place, a, b):
    for name, value in b.items():
        if name in a and a[name] is not None:
            same_type(f"{place}.{name}", a[name], value)
        else:
            lacking.add(f"{place}.{name}")


fields("report", ours, theirs)
check(ours["root"] == ".", "the path of the host is no part of a report")
check(ours["exitcode"] == theirs["exitcode"], ours["exitcode"], theirs["exitcode"])
for name, count in theirs["summary"].items():
    check(ours["summary"][name] == count, "summary", name, ours["summary"], theirs["summary"])
by_id = {test["nodeid"]: test for test in ours["tests"]}
check(len(by_id) == len(theirs["tests"]), sorted(by_id), [test["nodeid"] for test in theirs["tests"]])
for test in theirs["tests"]:
    mine = by_id[test["nodeid"]]
    fields("test", mine, test)
    check(mine["outcome"] == test["outcome"], test["nodeid"], mine["outcome"], test["outcome"])
    # Of an expected failure proctor keeps the reason, not the place.
    if "call" in test and test["outcome"] in ("passed", "failed"):
        fields("call", mine["call"], test["call"])
        check(mine["call"]["outcome"] == test["call"]["outcome"], test["nodeid"], mine["call"], test["call"])
        crash = test["call"].get("crash")
        if crash and test["outcome"] == "failed":
            check(mine["call"]["crash"]["lineno"] == crash["lineno"], mine["call"], crash)
            check(crash["path"].endswith("/" + mine["call"]["crash"]["path"]), mine["call"], crash)
            first = crash["message"].splitlines()[0]
            check(first in mine["call"]["longrepr"] or mine["call"]["crash"]["message"] in first, mine["call"], crash)
failed = [collector["nodeid"] for collector in theirs["collectors"] if collector["outcome"] == "failed"]
check([collector["nodeid"] for collector in ours["collectors"]] == failed, ours["collectors"], failed)
for mine in ours["collectors"]:
    check(mine["outcome"] == "failed" and mine["result"] == [] and mine["longrepr"], mine)
print(json.dumps(sorted(lacking)))
