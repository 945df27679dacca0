# SPDX-License-Identifier: Apache-2.0
"""PyTorch on the job's control plane: torch.distributed.init_process_group("gloo", init_method="muster://") after
`import muster.torch`, and watch() for a program that starts torch.distributed in another way."""
from __future__ import annotations

import itertools
import os
import time
from datetime import timedelta
from typing import Iterator, Sequence
from urllib.parse import parse_qs, urlparse

import torch.distributed as dist

from .errors import usage
from .job import Job
from .watch import share_free_port, watch

__all__ = ["Store", "set_environment", "watch"]  # type checkers take an imported name as the module's only if it stands here

kept: list[Store] = []  # c10d refers to a store's C++ object only, which needs the Python object
groups = itertools.count()


class Store(dist.Store):
    """The job's key-value store for torch.distributed. get(), wait() and multi_get() raise RankLost as soon as a rank is
    lost, and DeadlineExceeded after `timeout`. Thread-safe. There are no queues, and no list of keys."""

    def __init__(self, job: Job):
        super().__init__()
        self._job = job
        kept.append(self)

    def clone(self) -> Store:
        copy = Store(self._job)
        copy.set_timeout(self.timeout)
        return copy

    def set(self, key: str, value: bytes | str) -> None:
        self._job.store.put(key, value)

    def get(self, key: str) -> bytes:
        return self._job.store.get(key, self.timeout.total_seconds())

    def add(self, key: str, amount: int) -> int:
        return self._job.store.add(key, amount)

    def append(self, key: str, value: bytes | str) -> None:
        self._job.store.append(key, value)

    def compare_set(self, key: str, expected: bytes | str, desired: bytes | str) -> bytes:
        stored = self._job.store.compare_set(key, expected, desired)
        return stored if stored is not None else expected.encode() if isinstance(expected, str) else expected

    def check(self, keys: Sequence[str]) -> bool:
        return all(self._job.store.check(key) for key in keys)

    def delete_key(self, key: str) -> bool:
        return self._job.store.delete_key(key)

    def num_keys(self) -> int:
        return self._job.store.num_keys()

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._get_all(keys, self.timeout if timeout is None else timeout)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._get_all(keys, self.timeout)

    def multi_set(self, keys: Sequence[str], values: Sequence[bytes | str]) -> None:
        for key, value in zip(keys, values):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        return True

    def _get_all(self, keys: Sequence[str], timeout: timedelta) -> list[bytes]:
        until = time.monotonic() + timeout.total_seconds()
        return [self._job.store.get(key, max(0.0, until - time.monotonic())) for key in keys]

    deleteKey, getNumKeys = delete_key, num_keys  # the names by which c10d's C++ calls them


def set_environment(deadline: float = 60, **options) -> Job:
    """For Lightning, accelerate and other programs that read torchrun's variables: joins the job as watch() does, and sets RANK,
    WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR and MASTER_PORT where they are not set. All ranks call it,
    once, before these libraries start. Returns the job.
    """
    job = watch(deadline=deadline, **options)
    found = {"RANK": job.rank, "WORLD_SIZE": job.size, "LOCAL_RANK": job.local_rank, "LOCAL_WORLD_SIZE": job.local_size,
             "NODE_RANK": job.host_index, "MASTER_ADDR": job.roster[0].address, "MASTER_PORT": share_free_port(job, "muster.torch", deadline)}
    for name, value in found.items():
        os.environ.setdefault(name, str(value))
    return job


def rendezvous(url: str, timeout: timedelta = timedelta(seconds=60), **_) -> Iterator[tuple[dist.Store, int, int]]:
    """The handler of muster://. Joins the job within 60 s, or `timeout` if that is shorter, unless the program has joined."""
    job = watch(deadline=min(60.0, timeout.total_seconds()))
    expected = {"rank": job.rank, "world_size": job.size}
    for name, (value, *_) in parse_qs(urlparse(url).query).items():
        if name not in expected or value != str(expected[name]):
            raise usage(f"init_process_group: {name}={value} does not fit the job, in which this is rank {job.rank} of {job.size}: leave it out")
    # A later group must not find the keys of an earlier one.
    yield dist.PrefixStore(str(next(groups)), Store(job)), job.rank, job.size


dist.register_rendezvous_handler("muster", rendezvous)
