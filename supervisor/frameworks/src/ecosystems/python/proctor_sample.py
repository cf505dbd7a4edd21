"""Runs a sample of the tests once more, each alone in a process of its own, to measure what they execute there.

In one process, the first test that needs something cached executes it for all, and the measurement of the others does not show it. So
a process is forked before the first test, which has collected all tests and run none. It waits until all have run, and then forks a
process for each test of the sample. No result of these tests is reported.

The run itself must not notice. So there is no such process where something would be shared with it: open files, pipes or sockets, shared
memory, child processes, threads, a handler of their end; or if it would need much memory. Tests that change files, connect, or start
processes, as far as Python reports it, do not run again, and neither do those that failed or are slow. A test that does so only when it
is alone ends before.
"""

import errno
import json
import os
import resource
import select
import shutil
import signal
import stat
import sys
import threading
import time
import warnings

import proctor_changes
import proctor_project_coverage
import proctor_python

# Most tests that run alone. Spread evenly, they show all but 3 of 245,000 pairs of test and function that nine real suites have.
TESTS_MAX = 30

# Fewest tests that say something, unless there are fewer.
TESTS_MIN = 5

# Most time for the sample: a share of what all tests took, within bounds.
SHARE = 0.1
SECONDS_MIN = 1.0
SECONDS_MAX = 5.0

# On a busy host all may take so much longer, and a test so much longer than beside the others, but not less than these seconds.
BUSY_FACTOR = 3
TEST_FACTOR = 10
TEST_SECONDS_MIN = 0.3

# Share of the time until the run is ended that its tests and the sample may take.
DEADLINE_SHARE = 0.75

# A test that took a larger share of this time does not run again.
SLOW_SHARE = 0.1

# What a process costs besides its test.
FORK_SECONDS = 0.01

# Most memory that this process may have when it is forked. As the tests run, as much may be copied.
MEMORY_MAX = 96 * 1024 * 1024

# Most memory that the tests may have kept: a test that runs alone may make it once more.
MEMORY_GROWTH_MAX = 64 * 1024 * 1024

# Most memory that such a test may reserve, with the stacks of its threads.
MEMORY_ALONE_MAX = 256 * 1024 * 1024

# Most time until the forked process answers.
ANSWER_SECONDS = 1.0

# Bound before a test can replace them.
_poll, _getpid, _fork, _kill = select.poll, os.getpid, os.fork, os.kill
# A Python before 3.8 has none, and measures nothing either.
_raise_signal = getattr(signal, "raise_signal", None)
_mkdir, _rmtree = os.mkdir, shutil.rmtree
_read, _write, _close, _fstat, _waitpid, _dumps, _loads = os.read, os.write, os.close, os.fstat, os.waitpid, json.dumps, json.loads


class Clock:
    """Python's clock. A library that replaces it in tests replaces the names of modules, and none of a class."""

    now, sleep = staticmethod(time.monotonic), staticmethod(time.sleep)


def identity(descriptor):
    """What a descriptor is open for; None if it is closed."""
    try:
        status = _fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def descriptors():
    """All descriptors of this process, with what they are open for."""
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    return {number: identity(number) for number in numbers if identity(number) is not None}


# What was open before the project's code ran.
try:
    _own = set(descriptors().values())
except OSError:
    _own = None


def is_private(descriptor):
    """Whether a file is proctor's own, or has no name, as pytest's have."""
    status = _fstat(descriptor)
    is_nameless = stat.S_ISREG(status.st_mode) and status.st_nlink == 0
    return is_nameless or os.readlink("/proc/self/fd/%d" % descriptor).startswith(proctor_python.SCRATCH)


def why_not(measurement):
    """Why no process can be forked here; None if one can."""
    if sys.platform != "linux" or _own is None:
        return "no /proc"
    if threading.active_count() > 1:
        return "threads"
    if signal.getsignal(signal.SIGCHLD) != signal.SIG_DFL:
        return "a handler of SIGCHLD"
    if any(open_for not in _own and not is_private(number) for number, open_for in descriptors().items()):
        return "open files"
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return "child processes"
    except ChildProcessError:
        pass
    with open("/proc/self/maps") as file:
        if any(line.split()[1].startswith("rw-s") for line in file):
            return "shared memory"
    if measurement.runs_code_at_forks():
        return "functions that run at a fork"
    return "memory" if memory() > MEMORY_MAX else None


def memory():
    """Bytes of this process that are its own."""
    with open("/proc/self/statm") as file:
        _, resident, shared = file.read().split()[:3]
    return (int(resident) - int(shared)) * resource.getpagesize()


def start(measurement, run, has_fixtures_between=False):
    """A process for the sample, before the first test; None if there can be none. `run(number)` runs and measures a test.
    `has_fixtures_between` says whether fixtures run between two tests."""
    try:
        if not measurement.is_complete or not measurement.knows_kept or why_not(measurement) is not None:
            return None
        measurement.changes.watch(has_fixtures_between)
        return SampleProcess(measurement, run)
    except Exception:  # The tests go on without a sample.
        return None


class SampleProcess:
    """The process that runs the sample, once all tests have run."""

    def __init__(self, measurement, run):
        self._run, self._measurement = run, measurement
        self._began, self._memory = Clock.now(), memory()
        # In seconds of the same clock.
        self._deadline = float(os.environ.get("PROCTOR_DEADLINE", "inf"))
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        self._pipes = identity(self._commands), identity(self._answers)
        # A test must not find a child that it has not made, so that the first one ends at once.
        try:
            child = self._forked()
        except OSError:
            for pipe in (commands, answers, self._commands, self._answers):
                _close(pipe)
            raise
        if child == 0:
            try:
                if self._forked() == 0:
                    _close(self._commands)
                    _close(self._answers)
                    self._serve(commands, answers)
            finally:
                end()
        _close(commands)
        _close(answers)
        if not ends_by(child, Clock.now() + ANSWER_SECONDS):
            kill(child)
        self._pid = int(self._answer(ANSWER_SECONDS) or b"0")

    def _forked(self):
        with warnings.catch_warnings():
            # Python warns of threads of libraries, such as those that compute.
            warnings.simplefilter("ignore")
            with self._measurement.forking():
                return _fork()

    def _answer(self, seconds):
        """The next answer; nothing if none comes in time."""
        ready = _poll()
        ready.register(self._answers, select.POLLIN)
        return _read(self._answers, 16) if ready.poll(1000 * seconds) else b""

    def _serve(self, commands, answers):
        """What the forked process does."""
        self._measurement.changes.refuse_with(end)
        proctor_python.print_no_stacks()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setpgid(0, 0)
        _write(answers, b"%d" % _getpid())
        with open(commands) as file:
            command = file.readline()
        if not command:
            return
        silence()
        proctor_project_coverage.stop()
        command = _loads(command)
        until = Clock.now() + command["seconds"]
        for number, seconds in command["tests"]:
            child = self._forked()
            if child == 0:
                try:
                    limit_memory()
                    self._run(number)
                finally:
                    end()
            has_ended = ends_by(child, min(until, Clock.now() + seconds))
            # What this process itself does.
            self._measurement.changes.refuse_with(None)
            if not has_ended:
                kill(child)
            _rmtree(temporary_directory(child), ignore_errors=True)
            if not has_ended:
                break
            self._measurement.changes.refuse_with(end)
        _write(answers, b".")

    def end(self, durations):
        """Runs some tests of those with these durations in seconds, by number, now that all have run, and ends the process."""
        elapsed = Clock.now() - self._began
        seconds = min(max(SHARE * elapsed, SECONDS_MIN), SECONDS_MAX)
        slowest, most = SLOW_SHARE * seconds, BUSY_FACTOR * seconds
        quick = {number: duration for number, duration in durations.items() if duration <= slowest}
        has_time = elapsed + most <= DEADLINE_SHARE * (self._deadline - self._began)
        may_sample = has_time and self._measurement.is_complete and self._measurement.changes.may_sample
        try:
            may_sample = may_sample and memory() - self._memory <= MEMORY_GROWTH_MAX
            tests = choose(quick, seconds) if may_sample else []
            if tests:
                self._measurement.sampled(len(tests), slowest)
            # A test may have closed all descriptors that there are, and opened others.
            if (identity(self._commands), identity(self._answers)) != self._pipes:
                return
            if tests and self._pid:
                tests = [(number, max(TEST_FACTOR * quick[number], TEST_SECONDS_MIN)) for number in tests]
                _write(self._commands, _dumps({"tests": tests, "seconds": most}).encode() + b"\n")
                if not self._answer(most + ANSWER_SECONDS):
                    # With the test that runs.
                    os.killpg(self._pid, signal.SIGKILL)
            _close(self._commands)
            _close(self._answers)
        except Exception:  # There is no sample, and nothing else is different.
            pass


def choose(durations, most_seconds):
    """Some tests by number, spread evenly, of those with these durations; none if too few can run in that time."""
    numbers = list(durations)
    mean = sum(durations.values()) / max(len(numbers), 1) + FORK_SECONDS
    count = min(len(numbers), TESTS_MAX, int(most_seconds / 2 / mean))
    if count < min(TESTS_MIN, len(numbers)):
        return []
    return [numbers[(2 * at + 1) * len(numbers) // (2 * count)] for at in range(count)]


def limit_memory():
    """Lets this process have little more memory than it has: more would count as the run's."""
    with open("/proc/self/statm") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (data + MEMORY_ALONE_MAX, hard))


def temporary_directory(process):
    """The directory for pytest's temporary files in such a process."""
    return "%s%d" % (proctor_changes.OF_ALONE, process)


def make_temporary_directory():
    """Makes that of this process."""
    directory = temporary_directory(_getpid())
    _mkdir(directory, 0o700)
    return directory


def silence():
    """Leads everything that is printed to nowhere, also through the descriptors that pytest has kept."""
    nothing = os.open(os.devnull, os.O_RDWR)
    printed = {*_printed, identity(1), identity(2)}
    for number, open_for in descriptors().items():
        status = _fstat(number)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
            # What pytest has captured: the run goes on reading its file.
            os.dup2(os.memfd_create("captured"), number, inheritable=False)
        elif number < 3 or open_for in printed:
            os.dup2(nothing, number)


# What the standard output and error of the run are.
_printed = {identity(1), identity(2)} - {None}


def ends_by(child, until):
    """Waits for a process, and whether it has ended by then."""
    while True:
        try:
            if _waitpid(child, os.WNOHANG)[0]:
                return True
        except OSError as error:
            if error.errno != errno.EINTR:
                return True
        if Clock.now() > until:
            return False
        Clock.sleep(0.001)


def kill(child):
    _kill(child, signal.SIGKILL)
    _waitpid(child, 0)


def end():
    """Ends this process, and runs nothing of what the project has asked for at the end of a process. Python reports no such signal."""
    _raise_signal(signal.SIGKILL)
