# SPDX-License-Identifier: Apache-2.0
"""The package in a job of one rank: what memory it finds, and what it refuses."""
import array
import ctypes
import os
import subprocess
import sys
import threading
import unittest

import muster
from muster.buffers import DLTensor, elements


class CudaArray:
    """Memory that says that it is a GPU's."""

    def __init__(self, **changes):
        self.__cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3, **changes}


capsule_new = ctypes.pythonapi.PyCapsule_New
capsule_new.restype = ctypes.py_object
capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class GpuTensor:
    """Like PyTorch's in bfloat16 on a GPU. With `dlpack` off, DLPack cannot give its memory."""

    def __init__(self, requires_grad=False, dlpack=True, interface=None):
        self.requires_grad, self.dlpack, self.interface = requires_grad, dlpack, interface
        self.shape = (ctypes.c_int64 * 2)(2, 3)
        self.tensor = DLTensor(data=4096, device_type=2, ndim=2, code=4, bits=16, lanes=1, shape=self.shape)

    def detach(self):
        return GpuTensor(False, self.dlpack, self.interface)

    def __dlpack__(self):
        if self.requires_grad or not self.dlpack:
            raise BufferError("it cannot be exported")
        return capsule_new(ctypes.addressof(self.tensor), b"dltensor", None)

    @property
    def __cuda_array_interface__(self):
        if self.requires_grad or self.interface is None:
            raise RuntimeError("it has no such interface")
        return self.interface


class Buffers(unittest.TestCase):
    def refused(self, buffer, text, written=True):
        with self.assertRaisesRegex(muster.Error, text) as caught:
            elements(buffer, written)
        self.assertEqual((caught.exception.code, caught.exception.exit_code), ("usage", 64))
        self.assertNotIn("\n", str(caught.exception))

    def test_buffer_protocol(self):
        values = array.array("d", [1, 2, 3])
        found = elements(values, written=True)
        self.assertEqual((found.address, found.count, found.type, found.on_gpu, found.bytes), (values.buffer_info()[0], 3, "float64", False, 24))
        self.assertEqual(elements(bytearray(5)).type, "uint8")
        matrix = memoryview(bytearray(24)).cast("B").cast("f", [2, 3])
        self.assertEqual((elements(matrix).count, elements(matrix).type), (6, "float32"))
        self.assertEqual(elements(b"abc").count, 3)
        self.refused(b"abc", "the array is read-only, and the operation writes its result to it")
        self.refused(memoryview(bytearray(8))[::2], "the array is not contiguous in memory")
        self.refused(array.array("h", [1]), "arrays of h cannot be communicated: their type must be one of float32, float64, ")
        self.refused([1, 2], "a list is no array")

    def test_cuda_array_interface(self):
        found = elements(CudaArray(), written=True)
        self.assertEqual((found.address, found.count, found.type, found.on_gpu), (4096, 6, "float32", True))
        self.assertEqual(elements(CudaArray(strides=(12, 4))).count, 6)
        self.refused(CudaArray(strides=(4, 8)), "not contiguous")
        self.refused(CudaArray(data=(4096, True)), "read-only")
        self.refused(CudaArray(typestr="<c8"), "arrays of unknown64 cannot be communicated")

    def test_tensors_on_a_gpu(self):
        for requires_grad in (False, True):
            found = elements(GpuTensor(requires_grad), written=True)
            self.assertEqual((found.address, found.count, found.type, found.on_gpu, found.bytes), (4096, 6, "bfloat16", True, 12))
        by_interface = GpuTensor(True, dlpack=False, interface={"shape": (2, 3), "typestr": "<f4", "data": (8192, False)})
        found = elements(by_interface, written=True)
        self.assertEqual((found.address, found.count, found.type, found.on_gpu), (8192, 6, "float32", True))
        self.refused(GpuTensor(dlpack=False), "a GpuTensor is no array: it gives its memory neither by the buffer protocol nor by __dlpack__ nor by ")

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("there is no NumPy")
        for name in ("float32", "float64", "float16", "int8", "uint8", "int32", "uint32", "int64", "uint64"):
            values = numpy.zeros((3, 4), dtype=name)
            found = elements(values, written=True)
            self.assertEqual((found.address, found.count, found.type), (values.ctypes.data, 12, name))
        self.refused(numpy.zeros((3, 4))[:, :2], "not contiguous")

    def test_dlpack(self):
        try:
            import torch
        except ImportError:
            self.skipTest("there is no PyTorch")
        values = torch.ones(4, 2, dtype=torch.bfloat16, requires_grad=True)
        found = elements(values, written=True)
        self.assertEqual((found.address, found.count, found.type, found.bytes), (values.data_ptr(), 8, "bfloat16", 16))
        whole = torch.arange(10)
        self.assertEqual(elements(whole[4:]).address, whole.data_ptr() + 32)
        self.refused(torch.zeros(4, 4).t()[:2], "not contiguous")
        self.refused(torch.zeros(4, dtype=torch.complex64), "cannot be communicated")


class Alone(unittest.TestCase):
    def test_job(self):
        job = muster.join(device="cpu")
        self.assertEqual((job.rank, job.size, job.local_rank, job.host_count, job.bootstrap, job.on_gpu), (0, 1, 0, 1, "alone", False))
        self.assertEqual([hello.rank for hello in job.roster], [0])
        self.assertEqual(job.roster[0].muster_version, muster.__version__)
        self.assertGreater(job.timings["join"], 0)
        values, world = array.array("f", [3, 4]), job.host_world()
        world.all_reduce(values)
        world.all_reduce_async(values, "average").wait()
        self.assertEqual((list(values), world.rank, world.size, world.backend), ([3, 4], 0, 1, "alone"))
        with self.assertRaisesRegex(muster.Error, "there is no reduction 'mean': it must be one of sum, average, "):
            world.all_reduce(values, "mean")
        with self.assertRaisesRegex(muster.Error, "all_gather: 2 elements of float32 do not fit 3 of float32 on 1 ranks"):
            world.all_gather(values, array.array("f", [0, 0, 0]))
        with self.assertRaisesRegex(muster.Error, "broadcast: rank 5 is not in"):
            world.broadcast(values, 5)
        with self.assertRaisesRegex(muster.Error, "the array is in a GPU's memory, and this communicator works on the host's: use Job.world.. of a job on GPUs"):
            world.all_reduce(array.array("f", [0] * 6), out=CudaArray())
        self.refuse_failures(job)
        self.use_store(job.store)
        closed = self.refuse_closed(world)
        work, reducer = world.all_reduce_async(values), muster.Reducer(world, [values])
        job.leave()
        self.refuse_calls(closed + [(work, "wait"), (reducer, "finish")])
        with self.assertRaisesRegex(muster.Error, "store: the job was left already"):
            job.store.put("key", "")

    def refuse_closed(self, world):
        """Closes a work and a reducer. Their calls, which must raise Error then."""
        values = array.array("f", [3, 4])
        work, reducer = world.all_reduce_async(values), muster.Reducer(world, [values])
        work.wait()
        work.close()
        reducer.close()
        calls = [(work, "wait"), (work, "wait_for", 0), (work, "test"), (reducer, "ready", 0), (reducer, "finish"), (reducer, "buckets"), (reducer, "own_chunks")]
        self.refuse_calls(calls)
        return calls

    def refuse_calls(self, calls):
        for owner, name, *arguments in calls:
            with self.assertRaisesRegex(muster.Error, f"the {type(owner).__name__.lower()} is closed: close.. or Job.leave.. was called before") as caught:
                getattr(owner, name)(*arguments)
            self.assertEqual(caught.exception.code, "usage")

    def use_store(self, store):
        store.put("key", "text")
        self.assertEqual((store.get("key"), store.check("key"), store.check("other"), store.num_keys()), (b"text", True, False, 1))
        self.assertEqual((store.compare_set("key", "text", b"\0"), store.compare_set("other", "x", "y")), (b"\0", None))
        self.assertEqual((store.delete_key("key"), store.delete_key("key"), store.num_keys()), (True, False, 0))
        threading.Timer(0.1, store.put, ["late", b"1"]).start()
        self.assertEqual((store.get("late", 30), store.add("late", -3)), (b"1", -2))
        with self.assertRaisesRegex(muster.DeadlineExceeded, "store: get: no rank put 'never' within 10 ms"):
            store.get("never", 0.01)
        for call, text in ((lambda: store.put("k" * 251, ""), "has 251 bytes, and the limit is 250"),
                           (lambda: store.put("a\0b", ""), "has a null character"),
                           (lambda: store.put("key", bytes(65537)), "has 65537 bytes, and the limit is 65536")):
            with self.assertRaisesRegex(muster.Error, text):
                call()

    def refuse_failures(self, job):
        def fail():
            raise ValueError("on purpose")

        with self.assertRaisesRegex(ValueError, "on purpose"):
            job.on_rank_0("section", fail)
        with self.assertRaisesRegex(muster.Error, "shrink: the job was not joined with"):
            job.shrink()
        with self.assertRaisesRegex(muster.Error, "there is no device 'tpu'"):
            muster.join(device="tpu")
        with self.assertRaisesRegex(muster.Error, "join: cpu_ranks is -1, not 0 or more"):
            muster.join(cpu_ranks=-1)

    def test_sampler(self):
        sampler = muster.Sampler(10, 1, 3, muster.Position(seed=3))
        seen = sampler.next(7)
        self.assertEqual((len(seen.samples), seen.global_size, seen.begin), (2, 7, muster.Position(3)))
        self.assertEqual(sampler.position, muster.Position(3, 0, 7))
        self.assertEqual(muster.share_of(10, 0, 4), range(3))
        with self.assertRaises(muster.Error):
            muster.Sampler(0, 0, 1)


class Forked(unittest.TestCase):
    def test_a_child_frees_nothing_of_its_parent(self):
        program = """
import array, os, sys, muster, muster.library
parent, library, values = os.getpid(), muster.library.library, array.array("f", [1])
for name in ("communicator", "work", "reducer"):
    def free(handle, name=name):
        print(name, "of the parent" if os.getpid() == parent else "of the child", flush=True)
    setattr(library, f"muster_{name}_free", free)
job = muster.join(device="cpu")
world = job.world()
work, reducer = world.all_reduce_async(values), muster.Reducer(world, [values])
if os.fork() == 0:
    try:
        work.wait()
    except muster.Error as error:
        print(error, flush=True)
    sys.exit()
os.wait()"""
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        lines = ended.stdout.splitlines()
        self.assertEqual(lines[0], "the work is closed: close() or Job.leave() was called before, or another process made it")
        self.assertEqual(sorted(lines[1:]), [f"{name} of the parent" for name in ("communicator", "reducer", "work")], ended.stderr)


class Documentation(unittest.TestCase):
    def test_docstrings(self):
        for one in (muster.Batch, muster.Communicator, muster.Error, muster.Job, muster.Reducer, muster.Sampler, muster.Store, muster.Work):
            for name, member in vars(one).items():
                if not name.startswith("_") and (callable(member) or isinstance(member, property)):
                    self.assertTrue(member.__doc__, f"{one.__name__}.{name}")


class Loading(unittest.TestCase):
    def ended(self, program, **variables):
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env={**os.environ, **variables})

    def test_missing_library(self):
        ended = self.ended("import muster", MUSTER_LIBRARY="/nowhere/libmuster.so")
        self.assertEqual(ended.returncode, 78)
        self.assertRegex(ended.stderr, r"^muster: cannot load libmuster \(/nowhere/libmuster\.so: .*\): install it, or name it by MUSTER_LIBRARY or LD_LIBRARY_PATH\n$")

    def test_a_program_that_goes_on_without_the_library(self):
        ended = self.ended("""
try: import muster
except ImportError as error: print(error)
raise ValueError("its own")""", MUSTER_LIBRARY="/nowhere/libmuster.so")
        self.assertEqual((ended.returncode, ended.stdout.startswith("muster: cannot load libmuster")), (1, True))
        self.assertRegex(ended.stderr, r"^Traceback[^$]*\nValueError: its own\n$")

    def test_another_abi(self):
        program = """
import ctypes
class Function:
    def __init__(self, value): self.value = value
    def __call__(self): return self.value
class Library:
    def __init__(self, path): self.muster_version, self.muster_last_error, self.muster_abi_version = Function(b"9.8"), Function(b""), Function(99)
ctypes.CDLL = Library
import muster"""
        ended = self.ended(program)
        self.assertEqual(ended.returncode, 78)
        self.assertRegex(ended.stderr, r"^muster: .* is libmuster 9\.8 with ABI 99, and this package needs ABI \d+: install the two in the same version\n$")


if __name__ == "__main__":
    unittest.main()
