"""Starts a module as `python -m` does; bytecode of files outside of the workspace is read beside its source where it exists.

All other bytecode is in the workspace's own cache, in which a first run would have to compile all of pytest, which takes longer than
most test suites. No run can write outside of the workspace. Arguments: the module, then its own.
"""

import os
import runpy
import sys
from importlib import _bootstrap_external as external

# Python's own function for the location of bytecode.
_in_cache = getattr(external, "cache_from_source", None)
_own = os.environ.get("PROCTOR_WORKSPACE", os.getcwd()) + "/"


def _place(path, *arguments, **named):
    place = _in_cache(path, *arguments, **named)
    beside = os.path.join(os.path.dirname(path), "__pycache__", os.path.basename(place))
    return place if path.startswith(_own) or not os.path.isfile(beside) else beside


if __name__ == "__main__":
    if _in_cache is not None:
        external.cache_from_source = _place
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
