# SPDX-License-Identifier: Apache-2.0
"""Which samples a rank trains on."""
from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass

from . import library as c
from .errors import check
from .library import library


@dataclass(frozen=True)
class Position:
    """The whole state of a sampler, which a checkpoint must store."""

    seed: int = 0
    epoch: int = 0  #: passes over the data before this one
    offset: int = 0  #: samples of this pass taken by all ranks together


@dataclass(frozen=True)
class Batch:
    samples: list[int]  #: this rank's; may be empty: the rank still takes part in the step
    global_size: int  #: samples of all ranks in this batch: the weight of an average
    begin: Position


class Sampler:
    """In each epoch every sample goes to exactly one rank. The order depends on the seed and the epoch, and not on the
    number of ranks. Every rank has a sampler of the same data set and position, and requests the same batches."""

    def __init__(self, samples: int, rank: int, size: int, position: Position = Position(), shuffle: bool = True):
        made, begin = ctypes.c_void_p(), c.Position(position.seed, position.epoch, position.offset)
        check(library.muster_sampler_new(samples, rank, size, ctypes.byref(begin), int(shuffle), ctypes.byref(made)))
        self._handle = made
        self._free = weakref.finalize(self, library.muster_sampler_free, made)

    def next(self, global_size: int) -> Batch:
        """The next `global_size` samples of all ranks, or the rest of the epoch."""
        batch = c.Batch()
        check(library.muster_sampler_next(self._handle, global_size, ctypes.byref(batch)))
        return Batch(batch.samples[:batch.count], batch.global_, Position(batch.begin.seed, batch.begin.epoch, batch.begin.offset))

    @property
    def position(self) -> Position:
        """The beginning of the next batch."""
        found = c.Position()
        check(library.muster_sampler_tell(self._handle, ctypes.byref(found)))
        return Position(found.seed, found.epoch, found.offset)


def share_of(total: int, rank: int, size: int) -> range:
    """The part of `total` items that belongs to `rank` of `size`."""
    begin, end = ctypes.c_uint64(), ctypes.c_uint64()
    check(library.muster_share_of(total, rank, size, ctypes.byref(begin), ctypes.byref(end)))
    return range(begin.value, end.value)
