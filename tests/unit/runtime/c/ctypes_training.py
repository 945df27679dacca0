# SPDX-License-Identifier: Apache-2.0
"""The calls of a training loop to libmuster, through Python's ctypes, on as many ranks as the launcher started."""
import ctypes
from ctypes import byref, c_double, c_float, c_int64, c_size_t, c_uint64, c_void_p

from muster.library import (ERRORS, REDUCTIONS, SYSTEM, USAGE, Average, Batch, Position, ReducerOptions, Section, Statistics,
                            Timings, library)
from muster_library import check, join, last_error, new

SUM, ERROR_SYSTEM = REDUCTIONS["sum"], ERRORS.index("system")

SIZES = (c_size_t * 3)(700, 1, 40)


def fails(status, expected, text):
    assert status == expected and text in last_error(), (status, last_error())


def sample_once():
    position, times = Position(3, 0, 0), [0] * 50
    for each in range(size):
        sampler = new(library.muster_sampler_new, 50, each, size, byref(position), 1)
        for _ in range(5):
            batch = Batch()
            check(library.muster_sampler_next(sampler, 10, byref(batch)))
            assert batch.global_ == 10
            for sample in batch.samples[:batch.count]:
                times[sample] += 1
        there = Position()
        check(library.muster_sampler_tell(sampler, byref(there)))
        assert (there.seed, there.epoch, there.offset) == (3, 0, 50)
        fails(library.muster_sampler_at(sampler, 0, 50, byref(c_uint64())), USAGE, "place 50")
        library.muster_sampler_free(sampler)
    assert times == [1] * 50, times
    begin, end = c_uint64(), c_uint64()
    check(library.muster_share_of(10, 0, 4, byref(begin), byref(end)))
    assert (begin.value, end.value) == (0, 3)


def share_state():
    step, weights = c_int64(rank + 7), (c_float * 30000)(*[rank + 1.0] * 30000)
    libc = ctypes.CDLL(None)
    libc.strdup.restype, libc.free.argtypes = c_void_p, [c_void_p]
    text = c_void_p(libc.strdup(b"from rank 0") if rank == 0 else None)
    length = c_size_t(11 if rank == 0 else 0)
    state = new(library.muster_state_new)
    check(library.muster_state_add(state, byref(step), ctypes.sizeof(step)))
    check(library.muster_state_add(state, weights, ctypes.sizeof(weights)))
    check(library.muster_state_add_sized(state, byref(text), byref(length)))
    check(library.muster_broadcast_state(world, state, None))
    assert step.value == 7 and weights[29999] == 1.0 and ctypes.string_at(text, length.value) == b"from rank 0"
    library.muster_state_free(state)
    libc.free(text)


def average():
    averages, mean = (Average * 2)(Average(rank * 2.0, 2), Average()), c_double()
    check(library.muster_average_over_ranks(world, averages, 2))
    assert averages[0].sum / averages[0].weight == (size - 1) / 2 and averages[1].weight == 0
    check(library.muster_weighted_average(world, rank, 1, byref(mean)))
    assert mean.value == (size - 1) / 2


def on_rank_0():
    calls = []

    @Section
    def section(_):
        calls.append(rank)
        return 0 if len(calls) == 1 else library.muster_set_error(ERROR_SYSTEM, b"no room\x1b[2J on /data")

    check(library.muster_on_rank_0(job, b"save", section, None, 60000))
    fails(library.muster_on_rank_0(job, b"save", section, None, 60000), SYSTEM, "no room?[2J on /data")
    assert calls == ([0, 0] if rank == 0 else []) and library.muster_last_error_reported_elsewhere() == (rank != 0)


def reduce_gradients():
    options = ReducerOptions(bucket_bytes=100, reduction=SUM)
    reducer = new(library.muster_reducer_new, world, 3, SIZES, None, byref(options))
    place, count = c_void_p(), c_size_t()
    for step in range(2):
        for i in reversed(range(3)):
            check(library.muster_reducer_gradient(reducer, i, byref(place), byref(count)))
            assert count.value == SIZES[i]
            gradient = ctypes.cast(place, ctypes.POINTER(c_float))
            for k in range(SIZES[i]):
                gradient[k] = rank + i + step
            check(library.muster_reducer_ready(reducer, i, None))
        check(library.muster_reducer_finish(reducer, None))
        for i in range(3):
            check(library.muster_reducer_gradient(reducer, i, byref(place), None))
            gradient = ctypes.cast(place, ctypes.POINTER(c_float))
            assert gradient[:SIZES[i]] == [size * (size - 1) / 2 + size * (i + step)] * SIZES[i]
    last = Statistics()
    check(library.muster_reducer_last_step(reducer, byref(last)))
    assert (last.step, last.buckets, last.bytes) == (2, library.muster_reducer_buckets(reducer), 741 * 4)
    fails(library.muster_reducer_gradient(reducer, 3, byref(place), None), USAGE, "parameter 3 is not in 0")
    fails(library.muster_reducer_ready(reducer, 3, None), USAGE, "parameter 3 is not in 0")
    fails(library.muster_reducer_ready(None, 0, None), USAGE, "the reducer is null")
    library.muster_reducer_free(reducer)


job = join()
world = new(library.muster_world, job)
rank, size = library.muster_rank(job), library.muster_size(job)
timings = Timings()
check(library.muster_read_timings(job, byref(timings)))
assert timings.join >= timings.bootstrap > 0, (timings.join, timings.bootstrap)
sample_once()
share_state()
average()
on_rank_0()
reduce_gradients()
print(f"rank {rank} of {size}: done")
library.muster_communicator_free(world)
check(library.muster_leave(job))
library.muster_job_free(job)
