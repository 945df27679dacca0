# SPDX-License-Identifier: Apache-2.0
"""Uses libmuster through Python's ctypes, on as many ranks as the launcher started."""
import array
import ctypes

from muster.library import ABI_VERSION, ENVIRONMENT, REDUCTIONS, TYPES, USAGE, library
from muster_library import check, join, last_error, new

FLOAT32, SUM = TYPES["float32"], REDUCTIONS["sum"]

rejected = ctypes.c_void_p()
assert library.muster_abi_version() == ABI_VERSION
assert library.muster_join_abi(ABI_VERSION + 1, None, ctypes.byref(rejected)) == ENVIRONMENT
assert "build the program again" in last_error() and rejected.value is None
job = join()
world = new(library.muster_world, job)
rank, size = library.muster_rank(job), library.muster_size(job)

values = array.array("f", [rank + 1.0] * 1000)
address, count = values.buffer_info()
check(library.muster_all_reduce(world, address, address, count, FLOAT32, SUM, None))
assert list(values) == [size * (size + 1) / 2] * 1000, values[:3]
assert library.muster_all_reduce(world, address, address, count, 99, SUM, None) == USAGE
assert "99 is not an element type" in last_error()

print(f"rank {rank} of {size} ({library.muster_bootstrap(job).decode()}): sum {values[0]:g}")
library.muster_communicator_free(world)
check(library.muster_leave(job))
library.muster_job_free(job)
