# SPDX-License-Identifier: Apache-2.0
"""muster.h for ctypes: types of arguments and results, structures, constants."""
import ctypes
import os
import sys
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

ABI_VERSION = 1
FLOAT32, SUM, AVERAGE, CPU = 0, 0, 1, 1
USAGE, SYSTEM, TEMPORARY, ENVIRONMENT = 64, 71, 75, 78
ERROR_LOST_RANK, ERROR_SYSTEM = 4, 5


def structure(name, **fields):
    """A structure that sets its own size; a field is given by its type, or by its type and default."""
    fields = {field: kind if isinstance(kind, tuple) else (kind, None) for field, kind in fields.items()}
    members = [("size", c_size_t)] + [(field, kind) for field, (kind, _) in fields.items()]
    made = type(name, (ctypes.Structure,), {"_fields_": members})
    defaults = {field: default for field, (_, default) in fields.items() if default is not None}
    return lambda **given: made(ctypes.sizeof(made), **{**defaults, **given})


JoinOptions = structure(
    "JoinOptions", deadline_ms=(c_int64, 60000), operation_timeout_ms=(c_int64, 60000), heartbeat_timeout_ms=(c_int64, 10000),
    device=(c_int32, CPU), tolerate_rank_loss=c_int32, stall_warning_ms=(c_int64, 30000), abort_grace_ms=(c_int64, 1200))
ReducerOptions = structure(
    "ReducerOptions", bucket_bytes=c_uint64, chunks=c_uint64, reduction=(c_int32, AVERAGE), bfloat16=c_int32,
    overlap=(c_int32, 1), type=c_int32)
Statistics = structure(
    "Statistics", step=c_uint64, buckets=c_uint64, bytes=c_uint64, communication_seconds=c_double,
    exposed_seconds=c_double)
Timings = structure("Timings", **{phase: c_double for phase in (
    "join", "bootstrap", "gpu", "exchange", "plane", "world", "nccl_id", "nccl_init", "first_collective", "node",
    "inter_node", "host_world")})


class Position(ctypes.Structure):
    _fields_ = [("seed", c_uint64), ("epoch", c_uint64), ("offset", c_uint64)]


class Average(ctypes.Structure):
    _fields_ = [("sum", c_double), ("weight", c_double)]


class Loss(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("ranks", POINTER(c_int)), ("rank_count", c_size_t), ("what", c_char_p)]


Batch = structure("Batch", samples=POINTER(c_uint64), count=c_size_t, global_=c_uint64, begin=Position)
Section = ctypes.CFUNCTYPE(c_int, c_void_p)
Save = ctypes.CFUNCTYPE(None, POINTER(Loss), c_void_p)

handle, place = c_void_p, POINTER(c_void_p)
FUNCTIONS = {  # functions that return a status
    "join_abi": (c_int, c_void_p, place),
    "leave": (handle,),
    "world": (handle, place),
    "read_timings": (handle, c_void_p),
    "all_reduce": (handle, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p),
    "on_rank_0": (handle, c_char_p, Section, c_void_p, c_int64),
    "on_rank_lost": (handle, Save, c_void_p, c_int64),
    "shrink": (handle, c_int64),
    "set_error": (c_int, c_char_p),
    "share_of": (c_uint64, c_int, c_int, POINTER(c_uint64), POINTER(c_uint64)),
    "sampler_new": (c_uint64, c_int, c_int, POINTER(Position), c_int, place),
    "sampler_next": (handle, c_uint64, c_void_p),
    "sampler_tell": (handle, POINTER(Position)),
    "sampler_at": (handle, c_uint64, c_uint64, POINTER(c_uint64)),
    "state_new": (place,),
    "state_add": (handle, c_void_p, c_size_t),
    "state_add_sized": (handle, place, POINTER(c_size_t)),
    "broadcast_state": (handle, handle, c_void_p),
    "average_over_ranks": (handle, POINTER(Average), c_size_t),
    "weighted_average": (handle, c_double, c_double, POINTER(c_double)),
    "reducer_new": (handle, c_size_t, POINTER(c_size_t), c_void_p, c_void_p, place),
    "reducer_gradient": (handle, c_size_t, POINTER(c_void_p), POINTER(c_size_t)),
    "reducer_ready": (handle, c_size_t, c_void_p),
    "reducer_finish": (handle, c_void_p),
    "reducer_chunks": (handle, POINTER(c_uint64), POINTER(c_uint64)),
    "reducer_last_step": (handle, c_void_p),
}
ANSWERS = {"bootstrap": c_char_p, "backend": c_char_p, "rank": c_int, "size": c_int, "communicator_size": c_int,
           "reducer_parameters": c_size_t, "reducer_buckets": c_size_t, "reducer_bucket_bytes": c_size_t}
ENDINGS = ("job_free", "communicator_free", "sampler_free", "state_free", "reducer_free", "reducer_drop")

library = ctypes.CDLL(os.environ.get("MUSTER_LIBRARY", "libmuster.so.0"))
library.muster_last_error.restype = c_char_p
for name, arguments in FUNCTIONS.items():
    getattr(library, "muster_" + name).argtypes = arguments
for name, result in ANSWERS.items():
    getattr(library, "muster_" + name).argtypes = [handle]
    getattr(library, "muster_" + name).restype = result
for name in ENDINGS:
    getattr(library, "muster_" + name).argtypes = [handle]
    getattr(library, "muster_" + name).restype = None


def last_error():
    return library.muster_last_error().decode()


def check(status):
    if status != 0:
        if not library.muster_last_error_reported_elsewhere():
            print(os.path.basename(sys.argv[0]) + ":", last_error(), file=sys.stderr)
        sys.exit(status)


def new(function, *arguments):
    """Returns the handle that a function creates."""
    made = c_void_p()
    check(function(*arguments, ctypes.byref(made)))
    return made


def join(**options):
    return new(library.muster_join_abi, ABI_VERSION, ctypes.byref(JoinOptions(**options)))
