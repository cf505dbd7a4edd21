"""Starts a module as `python -m` does, with bytecode of what is outside of the workspace read beside its source where it is there.

Elsewhere bytecode is kept in a cache of the workspace's own, and its first run would compile all of pytest for it, which takes
longer than most test suites. What is outside no run can write. Must not know what it starts. Arguments: the module, then its own.
"""

import os
import runpy
import sys
from importlib import _bootstrap_external as external

# Where bytecode lies by Python's own rules.
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
