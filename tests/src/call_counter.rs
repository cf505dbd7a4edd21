//! Source of a Python function with which a test fails at chosen executions.

/// Counts the calls of a test over all executions, in a directory that is no part of the workspace's files.
pub const COUNTER: &str = "import pathlib\n\n\
    def calls(name):\n    \
    file = pathlib.Path('__pycache__') / (name + '.count')\n    \
    file.parent.mkdir(exist_ok=True)\n    \
    n = int(file.read_text()) + 1 if file.exists() else 1\n    \
    file.write_text(str(n))\n    \
    return n\n\n";
