# SPDX-License-Identifier: Apache-2.0
"""Groups of ranks and their collectives."""
from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Sequence

from .buffers import Elements, elements
from .errors import check, usage
from .library import REDUCTIONS, library


def reduction_number(op: str) -> int:
    if op not in REDUCTIONS:
        raise usage(f"there is no reduction '{op}': it must be one of {', '.join(REDUCTIONS)}")
    return REDUCTIONS[op]


def counts_array(counts: Sequence[int]) -> ctypes.Array:
    return (ctypes.c_size_t * len(counts))(*counts)


# What must be freed before the job is left.
in_use: weakref.WeakSet = weakref.WeakSet()
# By owner.
finalizers: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def finalizer(owner: Any, free: Any, handle: ctypes.c_void_p) -> weakref.finalize:
    """Frees the handle when it is called, or with its owner."""
    finalizers[owner] = weakref.finalize(owner, free, handle)
    return finalizers[owner]


def detach_finalizers() -> None:
    """A forked child is no rank: to free communicators there would wait for threads that it does not have."""
    for one in list(finalizers.values()):
        one.detach()


os.register_at_fork(after_in_child=detach_finalizers)


def open_handle(owner: Any) -> ctypes.c_void_p:
    """The handle of a work or reducer, which close() frees."""
    if not owner.close.alive:
        raise usage(f"the {type(owner).__name__.lower()} is closed: close() or Job.leave() was called before, or another process made it")
    return owner.handle


class Work:
    """An operation that runs beside the program. Its buffers must not be used until it is complete."""

    def __init__(self, handle: ctypes.c_void_p, buffers: tuple):
        self.handle, self._buffers = handle, buffers
        self.close = finalizer(self, library.muster_work_free, handle)
        in_use.add(self)

    def wait(self) -> None:
        """Returns when it is complete. Raises the error with which it failed."""
        check(library.muster_work_wait(open_handle(self)))

    def wait_for(self, timeout: float) -> bool:
        """The same, at most for `timeout` seconds. Whether it is complete then; it goes on otherwise."""
        complete = ctypes.c_int()
        check(library.muster_work_wait_for(open_handle(self), round(1000 * timeout), ctypes.byref(complete)))
        return complete.value != 0

    def test(self) -> bool:
        """Whether it is complete; does not wait."""
        complete = ctypes.c_int()
        check(library.muster_work_test(open_handle(self), ctypes.byref(complete)))
        return complete.value != 0


class Communicator:
    """A group of ranks, as muster::Communicator. One thread at a time may use it.

    Buffers are NumPy arrays and other objects with the buffer protocol, and tensors with DLPack or
    __cuda_array_interface__ (PyTorch, JAX, CuPy), contiguous in memory. On backend "nccl" they are on the GPU, and `stream`
    is the address of a cudaStream_t, such as torch.cuda.current_stream().cuda_stream; a call returns when its operation is
    enqueued. Every method that communicates is collective and raises Error: usage, deadline or lost_rank.
    """

    def __init__(self, handle: ctypes.c_void_p):
        self.handle = handle
        self._free = finalizer(self, library.muster_communicator_free, handle)

    @property
    def rank(self) -> int:
        """This process's number in the communicator, from 0 on."""
        return library.muster_communicator_rank(self.handle)

    @property
    def size(self) -> int:
        """The number of its ranks."""
        return library.muster_communicator_size(self.handle)

    @property
    def backend(self) -> str:
        """"nccl", "open-mpi", "control-plane" or "alone"."""
        return library.muster_backend(self.handle).decode()

    def elements(self, buffer: Any, written: bool = False) -> Elements:
        """The buffer's elements, if they are in this communicator's memory."""
        found = elements(buffer, written)
        on_gpu = self.backend == "nccl"
        if found.on_gpu != on_gpu:
            raise usage(f"the array is in {'a GPU' if found.on_gpu else 'the host'}'s memory, and this communicator works on "
                        f"{'a GPU' if on_gpu else 'the host'}'s: use Job.{'host_world()' if on_gpu else 'world() of a job on GPUs'}")
        return found

    def _pair(self, source: Any, result: Any, name: str, sources: int = 1, results: int = 1) -> tuple[Elements, Elements]:
        """The two buffers of an operation; `source` has sources / results times the length of `result`."""
        from_, to = self.elements(source), self.elements(result, written=True)
        if from_.type != to.type or from_.count * results != to.count * sources:
            raise usage(f"{name}: {from_.count} elements of {from_.type} do not fit {to.count} of {to.type} on {self.size} ranks")
        return from_, to

    def all_reduce(self, buffer: Any, op: str = "sum", out: Any = None, stream: int | None = None) -> None:
        """Element-wise reduction over all ranks ("sum", "average", "min", "max" or "product"): in place, or into `out`."""
        from_, to = self._pair(buffer, buffer if out is None else out, "all_reduce")
        check(library.muster_all_reduce(self.handle, from_.address, to.address, to.count, to.type_number, reduction_number(op), stream))

    def all_reduce_async(self, buffer: Any, op: str = "sum", stream: int | None = None) -> Work:
        """The same in place, but returns at once."""
        all_ = self.elements(buffer, written=True)
        made = ctypes.c_void_p()
        check(library.muster_all_reduce_async(self.handle, all_.address, all_.address, all_.count, all_.type_number, reduction_number(op), stream,
                                              ctypes.byref(made)))
        return Work(made, (all_, self))

    def reduce(self, buffer: Any, root: int, op: str = "sum", stream: int | None = None) -> None:
        """Element-wise reduction over all ranks, in place at `root`. Buffers of other ranks stay unchanged."""
        all_ = self.elements(buffer, written=self.rank == root)
        check(library.muster_reduce(self.handle, all_.address, all_.count, all_.type_number, reduction_number(op), root, stream))

    def broadcast(self, buffer: Any, root: int, stream: int | None = None) -> None:
        """Copies root's buffer into every rank's."""
        all_ = self.elements(buffer, written=self.rank != root)
        check(library.muster_broadcast(self.handle, all_.address, all_.count, all_.type_number, root, stream))

    def all_gather(self, mine: Any, all: Any, stream: int | None = None) -> None:  # pylint: disable=redefined-builtin
        """Concatenates every rank's `mine` in `all`, which has size times its length."""
        from_, to = self._pair(mine, all, "all_gather", 1, self.size)
        check(library.muster_all_gather(self.handle, from_.address, from_.count, to.address, to.type_number, stream))

    def all_gather_v(self, mine: Any, all: Any, counts: Sequence[int], stream: int | None = None) -> None:  # pylint: disable=redefined-builtin
        """The same with shares of different lengths: counts[r] is the length of rank r's, the same on every rank."""
        from_, to = self.elements(mine), self.elements(all, written=True)
        if len(counts) != self.size or from_.count != counts[self.rank] or to.count != sum(counts) or from_.type != to.type:
            raise usage(f"all_gather_v: {from_.count} elements of {from_.type} and {to.count} of {to.type} do not fit the counts {list(counts)} of "
                        f"{self.size} ranks")
        check(library.muster_all_gather_v(self.handle, from_.address, to.address, counts_array(counts), to.type_number, stream))

    def reduce_scatter(self, all: Any, mine: Any, op: str = "sum", stream: int | None = None) -> None:  # pylint: disable=redefined-builtin
        """`mine` = this rank's slice of the element-wise reduction of `all`, which has size times its length."""
        from_, to = self._pair(all, mine, "reduce_scatter", self.size, 1)
        check(library.muster_reduce_scatter(self.handle, from_.address, to.address, to.count, to.type_number, reduction_number(op), stream))

    def all_to_all(self, source: Any, result: Any, stream: int | None = None) -> None:
        """Slice r of `result` = this rank's slice of rank r's `source`. Both have size slices of equal length."""
        from_, to = self._pair(source, result, "all_to_all")
        if to.count % self.size:
            raise usage(f"all_to_all: {to.count} elements are no multiple of {self.size} ranks")
        check(library.muster_all_to_all(self.handle, from_.address, to.address, to.count // self.size, to.type_number, stream))

    def send(self, buffer: Any, to: int, stream: int | None = None) -> None:
        """Each call matches one recv on rank `to` from this rank, of the same type and length."""
        all_ = self.elements(buffer)
        check(library.muster_send(self.handle, all_.address, all_.count, all_.type_number, to, stream))

    def recv(self, buffer: Any, from_: int, stream: int | None = None) -> None:
        """Each call matches one send on rank `from_` to this rank."""
        all_ = self.elements(buffer, written=True)
        check(library.muster_recv(self.handle, all_.address, all_.count, all_.type_number, from_, stream))

    def barrier(self, stream: int | None = None) -> None:
        """Returns when every rank has called it."""
        check(library.muster_communicator_barrier(self.handle, stream))

    def synchronize(self, stream: int | None = None) -> None:
        """Waits until the operations on `stream` have completed."""
        check(library.muster_synchronize(self.handle, stream))

    def split(self, color: int, key: int = 0) -> Communicator:
        """Ranks with the same color, at least 0, form a new communicator, ordered by (key, rank)."""
        made = ctypes.c_void_p()
        check(library.muster_split(self.handle, color, key, ctypes.byref(made)))
        return Communicator(made)

    def broadcast_state(self, buffers: Sequence[Any], stream: int | None = None) -> None:
        """Copies rank 0's buffers to every rank, bit for bit. Every rank must give as many bytes in each."""
        state, parts = ctypes.c_void_p(), [self.elements(buffer, written=self.rank != 0) for buffer in buffers]
        check(library.muster_state_new(ctypes.byref(state)))
        try:
            for part in parts:
                check(library.muster_state_add(state, part.address, part.bytes))
            check(library.muster_broadcast_state(self.handle, state, stream))
        finally:
            library.muster_state_free(state)

    def weighted_average(self, value: float, weight: float) -> float:
        """The mean over ranks of `value`, weighted with each rank's `weight` (samples, tokens). Not on "nccl"."""
        mean = ctypes.c_double()
        check(library.muster_weighted_average(self.handle, value, weight, ctypes.byref(mean)))
        return mean.value
