# SPDX-License-Identifier: Apache-2.0
"""ctypes_survivors.py RANK: this rank is killed while all reduce; the other ranks save and continue without it."""
import array
import os
import signal
import sys

from muster.library import ERRORS, REDUCTIONS, TEMPORARY, TYPES, USAGE, Save, library
from muster_library import check, join, last_error, new

FLOAT32, SUM, ERROR_LOST_RANK = TYPES["float32"], REDUCTIONS["sum"], ERRORS.index("lost_rank")

lost, losses = int(sys.argv[1]), []


@Save
def save(loss, _):
    losses.append((loss.contents.ranks[:loss.contents.rank_count], loss.contents.what.decode()))


def reduce(world):
    values = array.array("f", [1.0] * 1000)
    address, count = values.buffer_info()
    status = library.muster_all_reduce(world, address, address, count, FLOAT32, SUM, None)
    assert status != 0 or list(values) == [library.muster_communicator_size(world)] * 1000
    return status


job = join(tolerate_rank_loss=1)
rank, size = library.muster_rank(job), library.muster_size(job)
check(library.muster_on_rank_lost(job, save, None, 30000))
assert library.muster_shrink(job, 1000) == USAGE and "no rank was lost" in last_error()
world = new(library.muster_world, job)
status = 0
for step in range(20):
    if step == 5 and rank == lost:
        os.kill(os.getpid(), signal.SIGKILL)
    status = reduce(world)
    if status != 0:
        break
assert status == TEMPORARY and library.muster_last_error_code() == ERROR_LOST_RANK, (status, last_error())
assert len(losses) == 1 and losses[0][0] == [lost] and f"rank {lost} " in losses[0][1], losses
library.muster_communicator_free(world)
check(library.muster_shrink(job, 60000))
assert library.muster_size(job) == size - 1 and library.muster_rank(job) == rank - (rank > lost)
world = new(library.muster_world, job)
for step in range(5):
    check(reduce(world))
if library.muster_rank(job) == 0:
    backend = library.muster_backend(world).decode()
    print(f"going on with {size - 1} on {backend}, saved after the loss of rank {lost}", flush=True)
library.muster_communicator_free(world)
check(library.muster_leave(job))
library.muster_job_free(job)
