# SPDX-License-Identifier: Apache-2.0
"""The job's key-value store."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from . import library as c
from .errors import check, usage
from .library import library

if TYPE_CHECKING:
    from .job import Job


class Store:
    """Small values (addresses, ports, counters) on rank 0, which all ranks read and change: Job.store. Thread-safe while
    neither Job.shrink() nor Job.leave() runs.

    Keys have 250 bytes at most, values 64 KiB. A call that makes the store larger than 16 MiB, where each key counts as 256
    bytes, fails the job. Every call raises RankLost as soon as a rank is lost, and Error "usage" after Job.leave().
    """

    def __init__(self, job: Job):
        self._job = job

    def _call(self, function: str, key: str, *arguments) -> None:
        if "\0" in key:
            raise usage(f"store: {function}: the key {key!r} has a null character")
        check(getattr(library, "muster_store_" + function)(self._job.handle, key.encode(), *arguments))

    def put(self, key: str, value: bytes | str) -> None:
        """Stores a value; it replaces an earlier one. Does not wait for rank 0."""
        value = as_bytes(value)
        self._call("put", key, value, len(value))

    def get(self, key: str, timeout: float = 60) -> bytes:
        """Waits until a rank puts the value, at most `timeout` seconds: then DeadlineExceeded names the key."""
        value, length = place_for_value()
        self._call("get", key, value, c.STORE_VALUE_BYTES, length, round(1000 * timeout))
        return value.raw[:length.value]

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter of 64 bits and returns the sum. The counter is 0 at first, and its value is decimal text."""
        total = ctypes.c_int64()
        self._call("add", key, amount, ctypes.byref(total))
        return total.value

    def append(self, key: str, value: bytes | str) -> None:
        """Adds bytes at the end of the value."""
        value = as_bytes(value)
        self._call("append", key, value, len(value))

    def compare_set(self, key: str, expected: bytes | str, desired: bytes | str) -> bytes | None:
        """Stores `desired` if the value is `expected`, or if there is none and `expected` is empty. Returns the value that is
        stored then, if any."""
        value, length, found = *place_for_value(), ctypes.c_int()
        expected, desired = as_bytes(expected), as_bytes(desired)
        self._call("compare_set", key, expected, len(expected), desired, len(desired), value, c.STORE_VALUE_BYTES, length, ctypes.byref(found))
        return value.raw[:length.value] if found.value else None

    def check(self, key: str) -> bool:
        """Whether there is a value."""
        found = ctypes.c_int()
        self._call("check", key, ctypes.byref(found))
        return found.value == 1

    def delete_key(self, key: str) -> bool:
        """Removes a value, and returns whether there was one."""
        found = ctypes.c_int()
        self._call("delete_key", key, ctypes.byref(found))
        return found.value == 1

    def num_keys(self) -> int:
        """The number of keys that have a value."""
        count = ctypes.c_size_t()
        check(library.muster_store_num_keys(self._job.handle, ctypes.byref(count)))
        return count.value


def as_bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def place_for_value():
    return ctypes.create_string_buffer(c.STORE_VALUE_BYTES), ctypes.c_size_t()
