# SPDX-License-Identifier: Apache-2.0
# How training scripts select their GPUs, by framework, through CUDA's driver interface: makes the calls of
# the framework's CUDA build without the framework. Prints "RANK gpus=PCI,…", or "RANK gpus=failed: …" when
# the framework would fail. Usage: gpu_idioms.py IDIOM [GPUS-A-TASK]
import ctypes
import os
import sys

cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)


def device_count():
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    return count.value


def device(ordinal):
    found, pci = ctypes.c_int(), ctypes.create_string_buffer(16)
    if cuda.cuDeviceGet(ctypes.byref(found), ordinal):
        raise RuntimeError("invalid device ordinal")
    cuda.cuDeviceGetPCIBusId(pci, 16, found)
    return pci.value.decode()


each = int(sys.argv[2]) if len(sys.argv) > 2 else 1
slurm_rank = int(os.environ["SLURM_LOCALID"])  # as Horovod, Lightning and JAX count it themselves


def own(local_rank):
    return [device(each * local_rank + i) for i in range(each)]


def horovod():  # gpus = tf.config.list_physical_devices("GPU"); set_visible_devices(gpus[hvd.local_rank()], "GPU")
    gpus = list(range(device_count()))
    return [device(gpus[each * slurm_rank + i]) for i in range(each)]


def torch():  # torch.cuda.set_device(int(os.environ["LOCAL_RANK"])); accelerate and deepspeed.init_distributed() do the same
    return own(int(os.environ["LOCAL_RANK"]))


def torch_modulo():  # torch.cuda.set_device(rank % torch.cuda.device_count()), PyTorch's own example for several nodes
    return [device((each * slurm_rank + i) % device_count()) for i in range(each)]


def lightning():  # Trainer(devices=N), N = tasks per node: all N must exist, and local rank r uses index r
    wanted = int(os.environ["SLURM_NTASKS_PER_NODE"])
    if device_count() < wanted:
        raise RuntimeError(f"MisconfigurationException: devices={wanted}, but {device_count()} are there")
    return own(slurm_rank)


def tensorflow():  # MultiWorkerMirroredStrategy uses all GPUs that CUDA shows
    return [device(i) for i in range(device_count())]


def jax():  # jax.distributed.initialize(): JAX_LOCAL_DEVICE_IDS, else Slurm's local rank
    ids = os.environ.get("JAX_LOCAL_DEVICE_IDS", str(slurm_rank))
    return [device(int(i)) for i in ids.split(",")]


try:
    gpus = ",".join({f.__name__: f for f in (horovod, torch, torch_modulo, lightning, tensorflow, jax)}[sys.argv[1]]())
except (IndexError, KeyError, RuntimeError) as error:
    gpus = f"failed: {error!r}".replace(" ", "_")
print(os.environ["SLURM_PROCID"], f"gpus={gpus}", flush=True)
print(os.environ["SLURM_PROCID"], "own=" + os.environ.get("MUSTER_GPUS", ""), flush=True)
