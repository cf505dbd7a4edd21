"""The project's own measurement of coverage, by coverage.py, in the process that runs the tests. proctor's runs beside it and changes
nothing in it: a test that runs once more, alone, must neither add to what it has measured nor write a file of it.

Nothing is imported from coverage.py, so that a project without it does not load it.
"""

import os
import sys

import proctor_python

# Most measurements that may go on within each other.
NESTED_MAX = 8


def _current():
    """The measurement that began last and goes on; None if there is none."""
    module = sys.modules.get("coverage")
    # A project may have a module of this name.
    return module.Coverage.current() if hasattr(module, "process_startup") else None


def data_files():
    """Absolute path of the file with what is measured, and the same as a URI: other files of it have a suffix behind a dot. Empty if
    nothing is measured."""
    try:
        path = os.path.join(proctor_python.START, _current().get_option("run:data_file"))
        return path, "file://" + path
    except Exception:  # There is none, or a version of coverage.py that does not say it.
        return ()


def stop():
    """In a forked process: ends the measurement, and writes nothing. Otherwise coverage.py may write as it switches from one context to
    the next, or begin anew as a process is forked (`patch = fork`)."""
    for _ in range(NESTED_MAX):
        if _current() is not None:
            _current().stop()


def leave_out_plugin(plugins):
    """In a forked process: unregisters pytest-cov. A version before 7 measures a test in another process than pytest's by itself."""
    for name in ("_cov", "_cov_contexts"):
        if plugins.has_plugin(name):
            plugins.unregister(name=name)
