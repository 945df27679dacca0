# SPDX-License-Identifier: Apache-2.0
"""Gradients that are reduced while the backward pass goes on."""
from __future__ import annotations

import ctypes
from typing import Any, Sequence

from . import library as c
from .communicator import Communicator, counts_array, finalizer, in_use, open_handle, reduction_number
from .errors import check, usage
from .library import library


class Reducer:
    """Buckets of gradients over a communicator, as muster::Reducer. Parameters are numbered in forward order.

    In each step the backward pass calls ready() once for each of them, as soon as its gradient is complete, and then
    finish(): the gradients then hold the mean (or with op "sum" the sum) over all ranks, with the same bits on each. With
    `chunks` above 0, a step has the same bits for any number of ranks: this rank computes the chunks of `own_chunks`, one
    after the other, and calls ready() once for each parameter and chunk. With `bfloat16`, gradients are sent as bfloat16
    and added in float32; ranks that share a host's memory send nothing and round nothing. Collective; every rank gives equal sizes and options, or Error says which differ.
    """

    def __init__(self, communicator: Communicator, gradients: Sequence[Any], op: str = "average", *, chunks: int = 0, bucket_bytes: int = 0,
                 bfloat16: bool = False, overlap: bool = True):
        self._gradients = [communicator.elements(gradient, written=True) for gradient in gradients]
        types = {gradient.type for gradient in self._gradients}
        if len(types) > 1:
            raise usage(f"a reducer's gradients have one type, and these have {', '.join(sorted(types))}")
        options = c.ReducerOptions(
            bucket_bytes=bucket_bytes, chunks=chunks, reduction=reduction_number(op), bfloat16=int(bfloat16), overlap=int(overlap),
            type=self._gradients[0].type_number if self._gradients else 0)
        places = (ctypes.c_void_p * len(self._gradients))(*[gradient.address for gradient in self._gradients])
        made = ctypes.c_void_p()
        check(library.muster_reducer_new(communicator.handle, len(self._gradients), counts_array([gradient.count for gradient in self._gradients]),
                                         places, ctypes.byref(options), ctypes.byref(made)))
        self.handle, self._communicator = made, communicator
        self.close = finalizer(self, library.muster_reducer_free, made)  #: waits for running reductions; Job.leave() calls it
        in_use.add(self)

    def ready(self, parameter: int, stream: int | None = None) -> None:
        """Marks this parameter's gradient as complete; it must not be touched until finish(). Does not wait."""
        check(library.muster_reducer_ready(open_handle(self), parameter, stream))

    def finish(self, stream: int | None = None) -> None:
        """Ends the step. On host memory it waits until the gradients are reduced; on a GPU only `stream` waits."""
        check(library.muster_reducer_finish(open_handle(self), stream))

    @property
    def own_chunks(self) -> range:
        """This rank's chunks; without `chunks` one, with the number of the rank."""
        begin, end = ctypes.c_uint64(), ctypes.c_uint64()
        check(library.muster_reducer_chunks(open_handle(self), ctypes.byref(begin), ctypes.byref(end)))
        return range(begin.value, end.value)

    @property
    def buckets(self) -> int:
        """The number of buckets, each of which is reduced as soon as its gradients are ready."""
        return library.muster_reducer_buckets(open_handle(self))
