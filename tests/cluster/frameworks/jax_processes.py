# SPDX-License-Identifier: Apache-2.0
# A plain JAX program: initialize() has no arguments. Prints one line per process.
import jax

jax.distributed.initialize()

from jax.experimental import multihost_utils
import jax.numpy as jnp

rank, size = jax.process_index(), jax.process_count()
summed = multihost_utils.process_allgather(jnp.array([float(rank)])).sum()
print(f"jax {jax.__version__} rank {rank} of {size} sum {float(summed):.0f}", flush=True)
jax.distributed.shutdown()
