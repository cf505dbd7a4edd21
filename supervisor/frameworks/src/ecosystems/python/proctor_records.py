"""The file in which one process writes what each test executed. Proctor reads it after the run.

It has one record after the other: a line with JSON, and behind it as many words of 32 bits, the lowest byte first, as its `n` says.
The file of a test that ran alone (`proctor_sample.py`) begins with a record that says so. A record of the kind `lines` has the lines of
a loaded file that can be executed, and one of the kind `kept` those that were executed below a function that keeps values
(`proctor_keeping.py`). A word has a file's number (14 bits), whether the line is a module's or a class's own (1 bit), and the line.
"""

import json
import os
import sys

# A word: line below 2 ** 17, then a flag, then the file's number.
LINE_BITS = 17
OWN_LINE = 1 << LINE_BITS
FILE_SHIFT = LINE_BITS + 1
FILES_MAX = 1 << (32 - FILE_SHIFT)

# Most bytes that one process writes: proctor reads 128 MiB of all processes.
BYTES_MAX = 48 * 1024 * 1024


class Records:
    """The file of one process. It is opened for each record: a test may close all descriptors, or change the directory."""

    def __init__(self, directory):
        self._path = os.path.join(directory, "%d-%s" % (os.getpid(), os.urandom(4).hex()))
        self._left = BYTES_MAX
        self._owner = os.getpid()
        self.is_full = False

    # The defaults are bound before a test can replace these functions.
    def write(self, kind, record, words=None, open=os.open, write=os.write, close=os.close, pid=os.getpid):
        if self.is_full or pid() != self._owner:
            return
        content = b""
        if words is not None:
            record = dict(record, n=len(words))
            if sys.byteorder == "big":
                words.byteswap()
            content = words.tobytes()
        content = json.dumps(dict(record, kind=kind)).encode() + b"\n" + content
        self._left -= len(content)
        if self._left < 0:
            self.is_full = True
            content = b'{"kind":"note","text":"the lines of some tests are left out: their process executed too many"}\n'
        try:
            file = open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                while content:
                    content = content[write(file, content) :]
            finally:
                close(file)
        except OSError:
            self.is_full = True  # The measurement is lost, and nothing else.


def spans(lines):
    """Lines as text, `3-5,8`."""
    found = []
    for line in sorted(lines):
        if found and line == found[-1][1] + 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return ",".join("%d" % first if first == last else "%d-%d" % (first, last) for first, last in found)
