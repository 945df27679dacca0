# SPDX-License-Identifier: Apache-2.0
"""muster.h for ctypes: types of arguments and results, structures, constants. Use the package's classes instead."""
import ctypes
import os
import sys
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

ABI_VERSION = 1
STORE_VALUE_BYTES = 65536
USAGE, DEVICE, SYSTEM, TEMPORARY, ENVIRONMENT = 64, 69, 71, 75, 78
ERRORS = ("usage", "environment", "device", "deadline", "lost_rank", "system")
DEVICES = {"auto": 0, "cpu": 1, "cuda": 2}
TYPES = {"float32": 0, "float64": 1, "bfloat16": 2, "float16": 3, "int8": 4, "uint8": 5, "int32": 6, "uint32": 7, "int64": 8, "uint64": 9}
REDUCTIONS = {"sum": 0, "average": 1, "min": 2, "max": 3, "product": 4}


def structure(name, **fields):
    """A structure that sets its own size. A field is given by its type, or by its type and default."""
    fields = {field: kind if isinstance(kind, tuple) else (kind, None) for field, kind in fields.items()}
    members = [("size", c_size_t)] + [(field, kind) for field, (kind, _) in fields.items()]
    made = type(name, (ctypes.Structure,), {"_fields_": members})
    defaults = {field: default for field, (_, default) in fields.items() if default is not None}
    return lambda **given: made(ctypes.sizeof(made), **{**defaults, **given})


JoinOptions = structure(
    "JoinOptions", deadline_ms=(c_int64, 60000), operation_timeout_ms=(c_int64, 600000), heartbeat_timeout_ms=(c_int64, 10000),
    device=c_int32, tolerate_rank_loss=c_int32, stall_warning_ms=(c_int64, 30000), abort_grace_ms=(c_int64, 1200),
    cpu_ranks=c_int64)
Hello = structure(
    "Hello", rank=c_int32, local_rank=c_int32, pid=c_int64, host=c_char_p, boot_id=c_char_p, address=c_char_p, gpu=c_char_p,
    gpu_uuid=c_char_p, cpus=c_char_p, muster_version=c_char_p, plugin_version=c_char_p, nccl_version=c_char_p)
ReducerOptions = structure(
    "ReducerOptions", bucket_bytes=c_uint64, chunks=c_uint64, reduction=(c_int32, REDUCTIONS["average"]), bfloat16=c_int32,
    overlap=(c_int32, 1), type=c_int32)
Statistics = structure(
    "Statistics", step=c_uint64, buckets=c_uint64, bytes=c_uint64, communication_seconds=c_double, exposed_seconds=c_double)
PHASES = ("join", "bootstrap", "gpu", "exchange", "plane", "world", "nccl_id", "nccl_init", "first_collective", "intra_node", "inter_node",
          "host_world")
Timings = structure("Timings", **{phase: c_double for phase in PHASES})


class Position(ctypes.Structure):
    _fields_ = [("seed", c_uint64), ("epoch", c_uint64), ("offset", c_uint64)]


class Average(ctypes.Structure):
    _fields_ = [("sum", c_double), ("weight", c_double)]


class Loss(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("ranks", POINTER(c_int)), ("rank_count", c_size_t), ("what", c_char_p)]


Batch = structure("Batch", samples=POINTER(c_uint64), count=c_size_t, global_=c_uint64, begin=Position)
Section = ctypes.CFUNCTYPE(c_int, c_void_p)
Save = ctypes.CFUNCTYPE(None, POINTER(Loss), c_void_p)

handle, place, counts = c_void_p, POINTER(c_void_p), POINTER(c_size_t)
FUNCTIONS = {  # functions that return a status
    "join_abi": (c_int, c_void_p, place),
    "leave": (handle,),
    "roster_entry": (handle, c_int, c_void_p),
    "world": (handle, place),
    "host_world": (handle, place),
    "intra_node": (handle, place),
    "inter_node": (handle, place),
    "split": (handle, c_int, c_int, place),
    "read_timings": (handle, c_void_p),
    "barrier": (handle, c_char_p, c_int64),
    "all_reduce": (handle, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p),
    "all_reduce_async": (handle, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, place),
    "reduce": (handle, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p),
    "broadcast": (handle, c_void_p, c_size_t, c_int, c_int, c_void_p),
    "all_gather": (handle, c_void_p, c_size_t, c_void_p, c_int, c_void_p),
    "all_gather_v": (handle, c_void_p, c_void_p, counts, c_int, c_void_p),
    "reduce_scatter": (handle, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p),
    "all_to_all": (handle, c_void_p, c_void_p, c_size_t, c_int, c_void_p),
    "send": (handle, c_void_p, c_size_t, c_int, c_int, c_void_p),
    "recv": (handle, c_void_p, c_size_t, c_int, c_int, c_void_p),
    "communicator_barrier": (handle, c_void_p),
    "synchronize": (handle, c_void_p),
    "work_wait": (handle,),
    "work_wait_for": (handle, c_int64, POINTER(c_int)),
    "work_test": (handle, POINTER(c_int)),
    "on_rank_0": (handle, c_char_p, Section, c_void_p, c_int64),
    "on_rank_lost": (handle, Save, c_void_p, c_int64),
    "shrink": (handle, c_int64),
    "set_error": (c_int, c_char_p),
    "store_put": (handle, c_char_p, c_char_p, c_size_t),
    "store_get": (handle, c_char_p, c_char_p, c_size_t, counts, c_int64),
    "store_add": (handle, c_char_p, c_int64, POINTER(c_int64)),
    "store_append": (handle, c_char_p, c_char_p, c_size_t),
    "store_compare_set": (handle, c_char_p, c_char_p, c_size_t, c_char_p, c_size_t, c_char_p, c_size_t, counts, POINTER(c_int)),
    "store_check": (handle, c_char_p, POINTER(c_int)),
    "store_delete_key": (handle, c_char_p, POINTER(c_int)),
    "store_num_keys": (handle, counts),
    "share_of": (c_uint64, c_int, c_int, POINTER(c_uint64), POINTER(c_uint64)),
    "sampler_new": (c_uint64, c_int, c_int, POINTER(Position), c_int, place),
    "sampler_next": (handle, c_uint64, c_void_p),
    "sampler_tell": (handle, POINTER(Position)),
    "sampler_at": (handle, c_uint64, c_uint64, POINTER(c_uint64)),
    "state_new": (place,),
    "state_add": (handle, c_void_p, c_size_t),
    "state_add_sized": (handle, place, counts),
    "broadcast_state": (handle, handle, c_void_p),
    "average_over_ranks": (handle, POINTER(Average), c_size_t),
    "weighted_average": (handle, c_double, c_double, POINTER(c_double)),
    "reducer_new": (handle, c_size_t, counts, c_void_p, c_void_p, place),
    "reducer_gradient": (handle, c_size_t, POINTER(c_void_p), counts),
    "reducer_ready": (handle, c_size_t, c_void_p),
    "reducer_finish": (handle, c_void_p),
    "reducer_chunks": (handle, POINTER(c_uint64), POINTER(c_uint64)),
    "reducer_last_step": (handle, c_void_p),
}
GETTERS = {"bootstrap": c_char_p, "backend": c_char_p, "rank": c_int, "size": c_int, "local_rank": c_int, "local_size": c_int,
           "host_index": c_int, "host_count": c_int, "on_gpu": c_int, "communicator_rank": c_int, "communicator_size": c_int,
           "reducer_parameters": c_size_t, "reducer_buckets": c_size_t, "reducer_bucket_bytes": c_size_t}
ENDINGS = ("abort", "job_free", "communicator_free", "work_free", "sampler_free", "state_free", "reducer_free", "reducer_drop")


def refused(text: str) -> ImportError:
    """The error of `import muster`: one line and exit code 78 where the program does not catch it."""
    refusal, before = ImportError(f"muster: {text}"), sys.excepthook

    def hook(kind, error, trace) -> None:
        if error is not refusal:
            return before(kind, error, trace)
        print(error, file=sys.stderr, flush=True)
        raise SystemExit(ENVIRONMENT)

    sys.excepthook = hook
    return refusal


def load():
    """Loads libmuster and declares its functions. Raises ImportError."""
    path = os.environ.get("MUSTER_LIBRARY", "libmuster.so.0")
    try:
        found = ctypes.CDLL(path)
    except OSError as error:
        raise refused(f"cannot load libmuster ({error}): install it, or name it by MUSTER_LIBRARY or LD_LIBRARY_PATH") from None
    for name in ("version", "last_error"):
        getattr(found, "muster_" + name).restype = c_char_p
    if found.muster_abi_version() != ABI_VERSION:
        raise refused(f"{path} is libmuster {found.muster_version().decode()} with ABI {found.muster_abi_version()}, and this package needs ABI "
                      f"{ABI_VERSION}: install the two in the same version")
    for name, arguments in FUNCTIONS.items():
        getattr(found, "muster_" + name).argtypes = arguments
    for name, result in GETTERS.items():
        getattr(found, "muster_" + name).argtypes = [handle]
        getattr(found, "muster_" + name).restype = result
    for name in ENDINGS:
        getattr(found, "muster_" + name).argtypes = [handle]
        getattr(found, "muster_" + name).restype = None
    return found


library = load()
