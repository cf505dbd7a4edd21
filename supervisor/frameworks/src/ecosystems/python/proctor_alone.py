"""Runs some tests once more, each alone in a process of its own, to measure what they execute there.

In one process, the first test that needs something cached executes it for all, and the measurement of the others does not show it. So
a process is forked before the first test, which has collected all tests and run none. It waits until all have run, and then forks a
process for each test of a sample. Nothing that happens there is reported: no result, no output. It is left out where it could do
harm or take long: beside threads, for tests that start processes, and where memory or time is short.
"""

import json
import os
import resource
import select
import signal
import sys
import threading
import time
import warnings

# Most tests that run alone. Spread evenly, they show all but 3 of 245,000 pairs of test and function that nine real suites have.
TESTS_MAX = 30

# A test runs alone if it took no longer than this share of the time of all tests, within bounds: the sample then takes as long as a
# tenth of them at most.
SHARE = 0.1 / TESTS_MAX
QUICK_SECONDS = 0.05
SLOW_SECONDS = 0.2

# When a test that runs alone is ended, as one that waits for what another has done, and how many of them end the sample.
TEST_SECONDS_MAX = 1.0
ENDED_MAX = 2

# When the sample ends in any case.
SECONDS_MAX = 5.0

# Most memory that the tests may have needed: a second process with as much must fit beside them.
GROWTH_MAX = 128 * 1024 * 1024

# How much longer the waiting process may take.
GRACE_SECONDS = 2.0


def quick_seconds(elapsed):
    """How long a test may have taken to run alone, of tests that took `elapsed` seconds together."""
    return min(max(SHARE * elapsed, QUICK_SECONDS), SLOW_SECONDS)


def is_possible():
    """Whether this process can be forked."""
    return hasattr(os, "fork") and sys.platform == "linux" and threading.active_count() == 1


def wait(measurement, run):
    """A process that waits until all tests have run; None if there is none. `run(number)` runs and measures a test."""
    if not is_possible():
        return None
    try:
        return Waiting(measurement, run)
    except OSError:
        return None


class Waiting:
    """The process that waits until all tests have run."""

    def __init__(self, measurement, run):
        self._run, self._measurement = run, measurement
        self._memory = resident_bytes()
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        # A test must not find a child that it has not made, so that the first one ends at once.
        child = self._fork()
        if child == 0:
            try:
                if self._fork() == 0:
                    os.close(self._commands)
                    os.close(self._answers)
                    self._serve(commands, answers)
            finally:
                end()
        os.close(commands)
        os.close(answers)
        os.waitpid(child, 0)
        self._pid = int(os.read(self._answers, 16) or b"0")
        self._pipes = self._identities()

    def _identities(self):
        """What the descriptors are open for: a test may have closed all that there are, and opened others."""
        return [os.fstat(pipe).st_ino for pipe in (self._commands, self._answers)]

    def _fork(self):
        with warnings.catch_warnings():
            # Python warns of threads of libraries, such as those that compute.
            warnings.simplefilter("ignore")
            with self._measurement.forking():
                return os.fork()

    def _serve(self, commands, answers):
        """What the waiting process does."""
        os.write(answers, b"%d" % os.getpid())
        with open(commands) as file:
            command = file.read()
        if not command:
            return
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        ended, until = 0, time.monotonic() + SECONDS_MAX
        for number in json.loads(command):
            child = self._fork()
            if child == 0:
                try:
                    os.setpgid(0, 0)
                    self._run(number)
                finally:
                    end()
            ended += not ends_by(child, time.monotonic() + TEST_SECONDS_MAX)
            if ended == ENDED_MAX or time.monotonic() > until:
                break
        os.write(answers, b".")

    def run(self, tests):
        """Runs these tests, by number, and waits for them."""
        if resident_bytes(peak=True) - self._memory > GROWTH_MAX:
            tests = []
        try:
            if self._identities() != self._pipes:
                return
            if tests:
                os.write(self._commands, json.dumps(tests).encode())
            os.close(self._commands)
            answer = select.poll()
            answer.register(self._answers, select.POLLIN)
            most = SECONDS_MAX + TEST_SECONDS_MAX + GRACE_SECONDS
            if tests and not answer.poll(1000 * most) and self._pid:
                os.kill(self._pid, signal.SIGKILL)
            os.close(self._answers)
        except OSError:
            pass  # The waiting process is gone, or so are the descriptors: there is no sample.


def sample(tests):
    """Some of these numbers, spread evenly. If time ends early, what ran is spread, too."""
    count = min(len(tests), TESTS_MAX)
    chosen = [tests[(2 * at + 1) * len(tests) // (2 * count)] for at in range(count)]
    return chosen[::3] + chosen[1::3] + chosen[2::3]


def ends_by(child, until):
    """Waits for a process; one that has not ended by then is killed."""
    while True:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        if time.monotonic() > until:
            for kill in os.killpg, os.kill:
                try:
                    kill(child, signal.SIGKILL)
                except OSError:
                    pass
            os.waitpid(child, 0)
            return False
        time.sleep(0.001)


# Bound before a test can replace them.
def end(kill=os.kill, pid=os.getpid):
    """Ends this process, and runs nothing of what the project has asked for at the end of a process."""
    kill(pid(), signal.SIGKILL)


def resident_bytes(peak=False):
    """Memory of this process now, or at its peak."""
    if peak:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
