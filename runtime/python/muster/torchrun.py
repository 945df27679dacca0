# SPDX-License-Identifier: Apache-2.0
"""torchrun --rdzv-backend=muster: its agents are the ranks of a job, and end when one of them is lost."""
from __future__ import annotations

import sys
import threading

import torch.distributed as dist
from torch.distributed.elastic.rendezvous.api import RendezvousHandler, RendezvousInfo, RendezvousParameters, RendezvousStoreInfo

from .errors import Error, report, usage
from .job import Job, join

ROUND_SECONDS = 365 * 86400  # a round lasts as long as its workers


def creator():
    """The entry point of torchrun.handlers."""
    return Rendezvous


class Rendezvous(RendezvousHandler):
    """One agent on each node. When the workers of an agent fail and may restart, all agents restart theirs."""

    def __init__(self, parameters: RendezvousParameters):
        self._parameters, self._timeout = parameters, parameters.get_as_int("join_timeout", 60)
        self._round, self._job, self._error = 0, None, None

    def next_rendezvous(self) -> RendezvousInfo:
        from .torch import Store  # not above: PyTorch loads this module while it is itself loading
        if self._job is None:
            self._job = self._join()
        else:
            self._job.store.put(self._key(), "")
            self._job.barrier(self._key(), self._timeout)
        job, store = self._job, dist.PrefixStore(self._key(), Store(self._job))
        self._round += 1
        self._observer = threading.Thread(target=self._observe, args=[self._key()], daemon=True)
        self._observer.start()
        # The port at which the workers' rank 0 listens.
        return RendezvousInfo(store, job.rank, job.size, RendezvousStoreInfo.build(job.rank, store, job.roster[0].address))

    def _join(self) -> Job:
        job, asked = join(deadline=self._timeout), self._parameters
        if not asked.min_nodes <= job.size <= asked.max_nodes:
            nodes = str(asked.min_nodes) if asked.min_nodes == asked.max_nodes else f"{asked.min_nodes}:{asked.max_nodes}"
            raise usage(f"torchrun: --nnodes={nodes} does not fit the job, which has {job.size} ranks: start one torchrun on each node, "
                        "for example with srun --ntasks-per-node=1")
        return job

    def _key(self) -> str:
        return f"torchrun: round {self._round}"

    def _observe(self, next_round: str) -> None:
        """Ends when an agent asks for the next round, or when the job has failed."""
        try:
            self._job.store.get(next_round, ROUND_SECONDS)
        except Error as error:
            self._error = error

    def num_nodes_waiting(self) -> int:
        """The agent calls it every 0.1 s while its workers run."""
        if self._error:
            raise self._error
        return 0 if self._observer.is_alive() else 1

    def shutdown(self) -> bool:
        # torchrun ignores errors here, and a loss while the agent waits for the others' workers.
        if self._job is not None and sys.exc_info()[0] is None:
            try:
                self._job.leave()
            except Error as error:
                report(error)
                raise SystemExit(error.exit_code) from None
        return True

    def get_backend(self) -> str:
        return "muster"

    def get_run_id(self) -> str:
        return self._parameters.run_id

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        pass
