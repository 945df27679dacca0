# SPDX-License-Identifier: Apache-2.0
"""The processes of one run's ranks on the lab, for failures.py and tests/bench/elastic_losses."""
import os
import select
import time


class Fifo:
    """Each rank that will end writes one byte and keeps the FIFO open while it lives."""

    def __init__(self, path, ranks):
        os.mkfifo(path)
        self.path, self.ranks = path, ranks
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def wait_for_end(self, deadline):
        """Waits for the end of the last rank. A scan of /proc would work too, but takes seconds with a thousand processes."""
        came, poll = 0, select.poll()
        poll.register(self.reader, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            for _, events in poll.poll(1000 * left):
                if events & select.POLLIN:
                    came += len(os.read(self.reader, self.ranks))
                elif came >= self.ranks:
                    return
                else:  # the ranks so far ended before others started
                    time.sleep(0.02)

    def close(self):
        os.close(self.reader)
        os.unlink(self.path)


def processes(program, run):
    """pid → (rank, node) of the ranks that run this program with `run` as its first argument, in any namespace."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
            if len(words) < 3 or words[0] != program.encode() or words[1] != run.encode():
                continue
            environment = dict(w.split(b"=", 1) for w in open(f"/proc/{pid}/environ", "rb").read().split(b"\0") if b"=" in w)
            found[int(pid)] = (int(environment[b"SLURM_PROCID"]), environment[b"SLURMD_NODENAME"].decode())
        except (OSError, KeyError):
            pass  # it has ended
    return found


def parent_of(pid):
    return int(open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()[1])
