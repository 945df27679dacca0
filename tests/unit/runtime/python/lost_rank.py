# SPDX-License-Identifier: Apache-2.0
"""lost_rank.py continue|end|catch|own|compute|wait|early|closed|save RANK: this rank is lost while all reduce. The others go on without it, or do not
catch the error, or catch it and end; or the rank raises an exception of its own; or the others call nothing of Muster, or wait for a value in the store;
or the rank returns early, and the others catch the error and end, or get an error of a communication library in its place; or the others save without
end."""
import array
import atexit
import os
import signal
import sys
import time

import muster
from muster.watch import watch

case, lost = sys.argv[1], int(sys.argv[2])
abort_grace = {"save": 0, "catch": 20}.get(case, 1.2)
job = muster.join(device="cpu", tolerate_rank_loss=case == "continue", deadline=60, abort_grace=abort_grace)
size = job.size
saved = []
if case == "save":
    job.on_rank_lost(lambda ranks, what: time.sleep(60), deadline=1)
elif case != "compute":
    job.on_rank_lost(lambda ranks, what: saved.append((ranks, what)))
host = job.roster[lost].host
world = job.world()
try:
    for step in range(1000):
        if step == 5 and job.rank == lost:
            if case == "own":
                raise ValueError("on purpose")
            if case in ("early", "closed"):
                sys.exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 5 and case == "compute":
            time.sleep(25)
            sys.exit("the library did not end this process")
        if step == 5 and case == "wait":
            job.store.get("never", 100)
        world.all_reduce(array.array("f", [1] * 1000))
except muster.RankLost as error:
    if case == "own":
        assert str(error) == f"rank {lost} (host {host}) left the job for a reason of its own", error
        raise
    assert error.ranks == [muster.LostRank(lost, host)] and f"rank {lost} (host {host}" in str(error), (error, error.ranks)
    assert saved == [(error.ranks, str(error))], saved
    if case == "catch":
        sys.exit(9)
    if case != "continue":
        raise
    job.shrink()
except muster.Error:  # one that left early
    if case == "closed":
        watch()
        atexit.register(print, "Traceback: an exit handler ran")
        raise RuntimeError("Connection closed by peer") from None
    sys.exit(9)
world = job.world()
values = array.array("f", [1])
world.all_reduce(values)
assert list(values) == [size - 1] and job.size == size - 1
if job.rank == 0:
    print(f"going on with {job.size}", flush=True)
job.leave()
