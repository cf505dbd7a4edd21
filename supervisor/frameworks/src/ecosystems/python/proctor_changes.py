"""Tells what a test changes outside of its process and of its own temporary files, as far as Python reports it.

A test that changes something does not run once more, alone (`proctor_sample.py`). What Python reports are the events of an audit hook;
what they mean is told by their names and arguments alone, and nothing is looked up in the project.
"""

import os
import sys

import proctor_project_coverage
import proctor_python

# What Python reports before a program may change something outside of itself.
EVENTS = frozenset(
    ("open", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.utime")
    + ("os.setxattr", "os.removexattr", "os.lockf", "fcntl.lockf", "fcntl.flock", "shutil.rmtree", "sqlite3.connect", "syslog.syslog")
    + ("os.kill", "os.killpg", "signal.pthread_kill", "socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg")
)

# Databases that are in memory.
IN_MEMORY = ("", ":memory:", "file::memory:")

# Where temporary files are. To ask Python for it would settle it before the project's code runs.
TEMPORARY = os.environ.get("TMPDIR", "/tmp").rstrip("/") + "/"

# With one of these flags, opening a file may change it.
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# Where pytest's are: each process that runs tests makes a directory of its own there.
OF_PYTEST = TEMPORARY + "pytest-of-"

# Where those of a test are that runs alone.
OF_ALONE = TEMPORARY + "proctor-alone-"


class Changes:
    """The changes in one process, from when the tests begin, or fixtures of several."""

    def __init__(self, workspace):
        self._workspace = workspace
        self.is_watched = False
        # Whether fixtures run between two tests.
        self._has_fixtures_between = False
        # Where the project's own coverage measurement writes as the tests run.
        self._project_coverage = ()
        # Temporary files and directories that the test made, and that fixtures of several made.
        self._made, self._made_by_fixtures = set(), set()
        # Whether the test may have changed something.
        self.has_test_changed = False
        # Whether nothing that several tests share has changed anything.
        self.may_sample = True
        # Ends the process before a change where nothing may change: where a test runs alone.
        self._end = None

    def watch(self, has_fixtures_between):
        """What changes anything from now on cannot run once more. What changes between two tests counts only if fixtures run there:
        other code there, as that of plugins which write reports, does not run with a test that runs alone."""
        self.is_watched, self._has_fixtures_between = True, has_fixtures_between
        self._project_coverage = tuple(path + "." for path in proctor_project_coverage.data_files())

    def refuse_with(self, end):
        """In a forked process: before anything changes, and before a process starts, `end` ends this one; None allows changes again."""
        self._end = end

    def refuse(self):
        """Ends this process if nothing may change in it."""
        if self._end is not None:
            self._end()

    def begin_test(self):
        self.has_test_changed, self._made = False, set()

    def note(self, event, arguments, in_test, in_fixture):
        """Notes an event of Python, of a test, of a fixture of several, or of neither."""
        is_alone = self._end is not None
        if not self.is_watched or not (in_test or in_fixture or self._has_fixtures_between or is_alone):
            return
        try:
            made = self._made_by_fixtures if in_fixture else self._made
            if changes_nothing(event, arguments, self._workspace, (self._made, self._made_by_fixtures), made):
                return
            # Where a test runs alone, this measurement is stopped.
            if not is_alone and self._is_of_project_coverage(arguments[0]):
                return
            may_sample = self.may_sample and in_test and not in_fixture
        except Exception:  # What a test hands to Python's own functions may be anything, and the directory may be gone.
            may_sample = False
        self.has_test_changed, self.may_sample = True, may_sample
        self.refuse()

    def _is_of_project_coverage(self, path):
        # Behind the question mark of a URI are options.
        return type(path) is str and (path.partition("?")[0] + ".").startswith(self._project_coverage)


# The defaults are bound before a test can replace or count these functions.
def changes_nothing(event, arguments, workspace, known, made, directory=os.getcwd, decoded=os.fsdecode, absolute=os.path.join,
                    read_link=os.readlink):
    """Whether a file is only read, or all this happens to bytecode or to temporary files that are `known` to belong to the test, or that
    it makes: these are added to `made`."""
    if event == "open":
        _, mode, flags = arguments
        is_written = set(mode) & set("wax+") if isinstance(mode, str) else (flags or 0) & WRITING
        # Of a descriptor that is opened anew it was reported what it is open for.
        if not is_written or isinstance(arguments[0], int):
            return True
        arguments, is_making = arguments[:1], (flags or 0) & os.O_EXCL
    elif event == "sqlite3.connect" and arguments[0] in IN_MEMORY:
        return True
    else:
        is_making = event == "os.mkdir"
    paths = [decoded(one) for one in arguments if isinstance(one, (str, bytes, os.PathLike))]
    # The last argument is the descriptor of the directory that a path begins in, or -1.
    above = arguments[-1] if type(arguments[-1]) is int and arguments[-1] >= 0 else None
    above = directory() if above is None else read_link("/proc/self/fd/%d" % above)
    paths = [normal(absolute(above, path)) for path in paths]
    return bool(paths) and all(is_harmless(path, workspace, known, made if is_making else None) for path in paths)


def is_harmless(path, workspace, known, made, exists=os.path.lexists):
    """Whether a path is of bytecode or proctor's own, or a temporary one that belongs to the test, or is made now and added to `made`."""
    if is_bytecode(path) or path == os.devnull or path.startswith(proctor_python.SCRATCH):
        return True
    # Of the directory itself: a file without a name.
    if path + "/" == TEMPORARY:
        return True
    if not path.startswith(TEMPORARY) or path.startswith(workspace):
        return False
    if path.startswith((OF_PYTEST, OF_ALONE)):
        return True
    above = path
    while len(above) > len(TEMPORARY):
        if any(above in paths for paths in known):
            return True
        above = above.rpartition("/")[0]
    if made is None or exists(path):
        # A directory that is there is not made.
        return made is not None
    made.add(path)
    return True


# Where Python has bytecode, if not beside the sources.
BYTECODE = (getattr(sys, "pycache_prefix", None) or proctor_python.SCRATCH).rstrip("/") + "/"


def is_bytecode(path):
    """Whether a path is of compiled code, under its own name or that under which Python or pytest first writes it, or of a directory for it."""
    above, _, name = path.rpartition("/")
    return path.startswith(BYTECODE) or name == "__pycache__" or above.endswith("/__pycache__") and ".pyc" in name


# Bound before a test can replace it.
normal = os.path.normpath
