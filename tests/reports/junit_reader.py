"""Reads a JUnit file with junitparser and prints what it has of each case, as JSON."""

import json
import sys

from junitparser import JUnitXml

xml = JUnitXml.fromfile(sys.argv[1])
cases = []
for suite in xml:
    for case in suite:
        result = case.result[0] if case.result else None
        cases.append({
            "suite": suite.name,
            "classname": case.classname,
            "name": case.name,
            "time": case.time,
            "result": type(result).__name__.lower() if result is not None else "passed",
            "message": result.message if result is not None else None,
            "text": (result.text or "") if result is not None else "",
            "output": case.system_out,
        })
print(json.dumps({"tests": xml.tests, "failures": xml.failures, "errors": xml.errors, "skipped": xml.skipped, "cases": cases}))
