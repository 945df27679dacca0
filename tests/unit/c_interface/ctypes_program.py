# SPDX-License-Identifier: Apache-2.0
"""Uses libmuster through Python's ctypes, on as many ranks as the launcher started."""
import array
import ctypes
import os
import sys

ABI_VERSION = 1
FLOAT32, SUM, CPU = 0, 0, 1


class JoinOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("deadline_ms", ctypes.c_int64), ("operation_timeout_ms", ctypes.c_int64),
                ("silence_ms", ctypes.c_int64), ("device", ctypes.c_int32), ("survive_losses", ctypes.c_int32),
                ("stall_warning_ms", ctypes.c_int64), ("unattended_ms", ctypes.c_int64)]


muster = ctypes.CDLL(os.environ.get("MUSTER_LIBRARY", "libmuster.so.0"))
muster.muster_last_error.restype = ctypes.c_char_p
muster.muster_bootstrap.restype = ctypes.c_char_p
for name in ("muster_bootstrap", "muster_rank", "muster_size", "muster_leave", "muster_job_free",
             "muster_communicator_free"):
    getattr(muster, name).argtypes = [ctypes.c_void_p]
muster.muster_world.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]
muster.muster_all_reduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                     ctypes.c_int, ctypes.c_void_p]


def check(status):
    if status != 0:
        if not muster.muster_last_error_repeated():
            print("ctypes_program:", muster.muster_last_error().decode(), file=sys.stderr)
        sys.exit(status)


job, world = ctypes.c_void_p(), ctypes.c_void_p()
assert muster.muster_abi_version() == ABI_VERSION
assert muster.muster_join_abi(ABI_VERSION + 1, None, ctypes.byref(job)) == 78
assert b"build the program again" in muster.muster_last_error() and job.value is None
options = JoinOptions(ctypes.sizeof(JoinOptions), 60000, 60000, 10000, CPU, 0, 30000, 1200)
check(muster.muster_join_abi(ABI_VERSION, ctypes.byref(options), ctypes.byref(job)))
check(muster.muster_world(job, ctypes.byref(world)))
rank, size = muster.muster_rank(job), muster.muster_size(job)

values = array.array("f", [rank + 1.0] * 1000)
address, count = values.buffer_info()
check(muster.muster_all_reduce(world, address, address, count, FLOAT32, SUM, None))
assert list(values) == [size * (size + 1) / 2] * 1000, values[:3]
assert muster.muster_all_reduce(world, address, address, count, 99, SUM, None) == 64
assert b"99 is none of the element types" in muster.muster_last_error()

print(f"rank {rank} of {size} ({muster.muster_bootstrap(job).decode()}): sum {values[0]:g}")
muster.muster_communicator_free(world)
check(muster.muster_leave(job))
muster.muster_job_free(job)
