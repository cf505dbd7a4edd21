"""Runs a sample of the tests once more, each alone in a process of its own, to measure what they execute there.

In one process, the first test that needs something cached executes it for all, and the measurement of the others does not show it. So
a process is forked before the first test, which has collected all tests and run none. It waits until all have run, and then forks a
process for each test of the sample. No result of these tests is reported.

The run itself must not notice. So there is no such process where something would be shared with it: open files, pipes or sockets, shared
memory, child processes, threads, a handler of their end; or if it would need much memory. Tests that change files, connect, or start
processes, as far as Python reports it, do not run again, and neither do those that failed or are slow.
"""

import errno
import json
import os
import resource
import select
import signal
import stat
import sys
import threading
import time
import warnings

import proctor_python

# Most tests that run alone. Spread evenly, they show all but 3 of 245,000 pairs of test and function that nine real suites have.
TESTS_MAX = 30

# Fewest tests that say something, unless there are fewer.
TESTS_MIN = 5

# Most time for the sample: a share of what all tests took, within bounds.
SHARE = 0.1
SECONDS_MIN = 1.0
SECONDS_MAX = 5.0

# On a busy host all may take so much longer.
BUSY_FACTOR = 3

# A test that took a larger share of this time does not run again.
SLOW_SHARE = 0.1

# What a process costs besides its test.
FORK_SECONDS = 0.01

# Most memory that this process may have when it is forked. As the tests run, as much may be copied.
MEMORY_MAX = 96 * 1024 * 1024

# Most time until the forked process answers.
ANSWER_SECONDS = 1.0

# Bound before a test can replace them.
_monotonic, _sleep, _poll, _kill, _getpid, _fork = time.monotonic, time.sleep, select.poll, os.kill, os.getpid, os.fork
_read, _write, _close, _fstat, _waitpid, _dumps, _loads = os.read, os.write, os.close, os.fstat, os.waitpid, json.dumps, json.loads


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


def why_not():
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
    with open("/proc/self/statm") as file:
        _, resident, shared = file.read().split()[:3]
    return "memory" if (int(resident) - int(shared)) * resource.getpagesize() > MEMORY_MAX else None


def start(measurement, run):
    """A process for the sample, before the first test; None if there can be none. `run(number)` runs and measures a test."""
    try:
        if not measurement.is_complete or why_not() is not None:
            return None
        measurement.watch_changes()
        return SampleProcess(measurement, run)
    except Exception:  # The tests go on without a sample.
        return None


class SampleProcess:
    """The process that runs the sample, once all tests have run."""

    def __init__(self, measurement, run):
        self._run, self._measurement, self._began = run, measurement, _monotonic()
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
        ends_by(child, _monotonic() + ANSWER_SECONDS)
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
        proctor_python.print_no_stacks()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setpgid(0, 0)
        _write(answers, b"%d" % _getpid())
        with open(commands) as file:
            command = file.readline()
        if not command:
            return
        silence()
        command = _loads(command)
        until = _monotonic() + command["seconds"]
        for number in command["tests"]:
            child = self._forked()
            if child == 0:
                try:
                    self._run(number)
                finally:
                    end()
            if not ends_by(child, until):
                break
        _write(answers, b".")

    def end(self, durations):
        """Runs some tests of those with these durations in seconds, by number, now that all have run, and ends the process."""
        seconds = min(max(SHARE * (_monotonic() - self._began), SECONDS_MIN), SECONDS_MAX)
        slowest, most = SLOW_SHARE * seconds, BUSY_FACTOR * seconds
        quick = {number: duration for number, duration in durations.items() if duration <= slowest}
        may_sample = self._measurement.is_complete and self._measurement.may_sample
        tests = choose(quick, seconds) if may_sample else []
        if tests:
            self._measurement.sampled(len(tests), slowest)
        try:
            # A test may have closed all descriptors that there are, and opened others.
            if (identity(self._commands), identity(self._answers)) != self._pipes:
                return
            if tests and self._pid:
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
    """Waits for a process; one that has not ended by then is killed."""
    while True:
        try:
            if _waitpid(child, os.WNOHANG)[0]:
                return True
        except OSError as error:
            if error.errno != errno.EINTR:
                return True
        if _monotonic() > until:
            _kill(child, signal.SIGKILL)
            _waitpid(child, 0)
            return False
        _sleep(0.001)


def end():
    """Ends this process, and runs nothing of what the project has asked for at the end of a process."""
    _kill(_getpid(), signal.SIGKILL)
