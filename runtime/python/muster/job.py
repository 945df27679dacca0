# SPDX-License-Identifier: Apache-2.0
"""This process as a rank of its job."""
from __future__ import annotations

import atexit
import ctypes
import os
import sys
from dataclasses import dataclass
from typing import Callable

from . import errors
from . import library as c
from .communicator import Communicator, in_use
from .errors import Error, LostRank, check, end_process, report, usage
from .library import library
from .store import Store


@dataclass(frozen=True)
class Hello:
    """What each rank publishes about itself at join, as muster::Hello."""

    rank: int
    local_rank: int
    pid: int
    host: str
    boot_id: str
    address: str
    gpu: str
    gpu_uuid: str
    cpus: str
    muster_version: str
    plugin_version: str
    nccl_version: str


open_jobs: set[Job] = set()  # that this process has neither left nor aborted
os.register_at_fork(after_in_child=open_jobs.clear)  # a forked child is no rank


def milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def end_on_uncaught_errors() -> None:
    """An exception that ends the program disconnects it at once, so that the other ranks notice; an Error is one line."""
    before = sys.excepthook

    def hook(kind, error, trace) -> None:
        for job in list(open_jobs):
            job.abort()
        if not isinstance(error, Error):
            return before(kind, error, trace)
        report(error)
        raise SystemExit(error.exit_code)

    sys.excepthook = hook


@atexit.register
def leave_open_jobs() -> None:
    for job in list(open_jobs):
        if job.has_lost_ranks:  # the program knows
            job.abort()
            continue
        try:
            job.leave()
        except Error as error:
            report(error)
            end_process(error.exit_code)


def join(*, deadline: float = 60, operation_timeout: float = 600, heartbeat_timeout: float = 10, device: str = "auto",
         tolerate_rank_loss: bool = False, stall_warning: float = 30, abort_grace: float = 1.2, cpu_ranks: int = 0) -> Job:
    """Joins the job that srun, mpirun, torchrun or the variables RANK and WORLD_SIZE describe; without any, a job of one
    rank. Once per process. Times are in seconds; muster::JoinOptions explains each.

    Raises Error: environment, device, deadline (it names the missing ranks), lost_rank, system.
    An Error that the program does not catch is printed as one line, by one rank, and ends it with the Error's exit code.
    """
    if device not in c.DEVICES:
        raise usage(f"there is no device '{device}': it must be one of {', '.join(c.DEVICES)}")
    options = c.JoinOptions(
        deadline_ms=milliseconds(deadline), operation_timeout_ms=milliseconds(operation_timeout), device=c.DEVICES[device],
        heartbeat_timeout_ms=milliseconds(heartbeat_timeout), tolerate_rank_loss=int(tolerate_rank_loss),
        stall_warning_ms=milliseconds(stall_warning), abort_grace_ms=milliseconds(abort_grace), cpu_ranks=cpu_ranks)
    made = ctypes.c_void_p()
    end_on_uncaught_errors()
    check(library.muster_join_abi(c.ABI_VERSION, ctypes.byref(options), ctypes.byref(made)))
    return Job(made)


class Job:
    """The job. As a context manager it leaves at the end, and aborts when an exception passes:

        with muster.join() as job:
            job.world().all_reduce(gradients, "average")
    """

    def __init__(self, handle: ctypes.c_void_p):
        self._handle, self._lost = handle, []
        errors.lost_ranks = lambda: self._lost
        self.on_rank_lost(lambda lost, what: None, deadline=0)
        open_jobs.add(self)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind, error, trace) -> None:
        if kind is None:
            self.leave()
        elif not isinstance(error, Error):
            self.abort()

    @property
    def rank(self) -> int:
        """This process's number in the job, from 0 on."""
        return library.muster_rank(self._handle)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return library.muster_size(self._handle)

    @property
    def local_rank(self) -> int:
        """This rank's number on its host, from 0 on."""
        return library.muster_local_rank(self._handle)

    @property
    def local_size(self) -> int:
        """The number of ranks on its host."""
        return library.muster_local_size(self._handle)

    @property
    def host_index(self) -> int:
        """The number of its host, in the order of the hosts' lowest ranks."""
        return library.muster_host_index(self._handle)

    @property
    def host_count(self) -> int:
        """The number of hosts."""
        return library.muster_host_count(self._handle)

    @property
    def has_lost_ranks(self) -> bool:
        """Whether a call has raised RankLost since join() or shrink()."""
        return bool(self._lost)

    @property
    def on_gpu(self) -> bool:
        """Whether world() works on GPU memory."""
        return library.muster_on_gpu(self._handle) == 1

    @property
    def bootstrap(self) -> str:
        """"pmix", "slurm", "address" or "alone"."""
        return library.muster_bootstrap(self._handle).decode()

    @property
    def handle(self) -> ctypes.c_void_p:
        """The muster_job of muster.h."""
        return self._handle

    @property
    def store(self) -> Store:
        """The job's key-value store. shrink() makes a new one, which is empty."""
        return Store(self)

    @property
    def roster(self) -> list[Hello]:
        """All hellos, by rank; the same on every rank."""
        return [self._hello(rank) for rank in range(self.size)]

    def _hello(self, rank: int) -> Hello:
        found = c.Hello()
        check(library.muster_roster_entry(self._handle, rank, ctypes.byref(found)))
        values = {name: getattr(found, name) for name in Hello.__dataclass_fields__}
        return Hello(**{name: value.decode(errors="replace") if isinstance(value, bytes) else value for name, value in values.items()})

    @property
    def timings(self) -> dict[str, float]:
        """Seconds that this rank spent in each phase so far."""
        found = c.Timings()
        check(library.muster_read_timings(self._handle, ctypes.byref(found)))
        return {phase: getattr(found, phase) / 1000 for phase in c.PHASES}

    def _communicator(self, function) -> Communicator:
        made = ctypes.c_void_p()
        check(function(self._handle, ctypes.byref(made)))
        return Communicator(made)

    def world(self) -> Communicator:
        """All ranks: on NCCL when on_gpu, else on host memory. The first call is collective."""
        return self._communicator(library.muster_world)

    def host_world(self) -> Communicator:
        """All ranks, on host memory. The first call is collective."""
        return self._communicator(library.muster_host_world)

    def intra_node(self) -> Communicator:
        """The ranks of this host. The first call is collective over all ranks of the job."""
        return self._communicator(library.muster_intra_node)

    def inter_node(self) -> Communicator:
        """The ranks that have this one's local rank. The first call is collective over all ranks of the job."""
        return self._communicator(library.muster_inter_node)

    def barrier(self, name: str, deadline: float = 60) -> None:
        """Returns when every rank has called it, else DeadlineExceeded names the missing ranks."""
        check(library.muster_barrier(self._handle, name.encode(), milliseconds(deadline)))

    def on_rank_0(self, name: str, function: Callable[[], None], deadline: float = 600) -> None:
        """Runs `function` on rank 0 while the other ranks wait. Its exception is raised on rank 0, and as an Error on the
        others. It must not communicate with other ranks. Collective."""
        raised: list[BaseException] = []

        def section(_) -> int:
            try:
                function()
                return 0
            except BaseException as error:  # pylint: disable=broad-exception-caught  # no exception passes through C
                raised.append(error)
                return library.muster_set_error(c.ERRORS.index("system"), f"{name}: {type(error).__name__}: {error}".encode())

        status = library.muster_on_rank_0(self._handle, name.encode(), c.Section(section), None, milliseconds(deadline))
        if raised:
            raise raised[0]
        check(status)

    def on_rank_lost(self, function: Callable[[list[LostRank], str], None], deadline: float = 30) -> None:
        """function(lost ranks, the job's line) is called once after a loss, before the call of Muster that raises RankLost.
        It may save the program's state, and must not use this job."""
        hosts = [hello.host for hello in self.roster]

        def save(loss, _) -> None:
            its = loss.contents
            self._lost = [LostRank(rank, hosts[rank]) for rank in its.ranks[:its.rank_count]]
            function(self._lost, its.what.decode(errors="replace"))

        callback = c.Save(save)
        check(library.muster_on_rank_lost(self._handle, callback, None, milliseconds(deadline)))
        self._on_lost, self._callback = (function, deadline), callback  # the library calls it later

    def shrink(self, deadline: float = 60) -> None:
        """After RankLost, in a job joined with tolerate_rank_loss: continues with the remaining ranks, which have new
        numbers. Old communicators must not be used any more. Collective over the remaining ranks."""
        check(library.muster_shrink(self._handle, milliseconds(deadline)))
        self._lost = []
        self.on_rank_lost(*self._on_lost)  # the ranks have other hosts now

    def leave(self) -> None:
        """Waits for the other ranks, then leaves the job. Works and reducers are closed."""
        open_jobs.discard(self)
        for one in list(in_use):
            one.close()
        check(library.muster_leave(self._handle))

    def abort(self) -> None:
        """Disconnects at once because this rank cannot continue for a reason that the program prints."""
        open_jobs.discard(self)
        library.muster_abort(self._handle)
