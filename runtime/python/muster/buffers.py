# SPDX-License-Identifier: Apache-2.0
"""Finds the memory of arrays: by the buffer protocol, DLPack or __cuda_array_interface__, without importing their package."""
from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from .errors import usage
from .library import TYPES

HOST_DEVICES = (1, 3)  # DLPack's kDLCPU and kDLCUDAHost
CUDA_DEVICES = (2, 13)  # kDLCUDA and kDLCUDAManaged
FORMATS = {"f": "float32", "d": "float64", "e": "float16", "b": "int8", "B": "uint8", "c": "uint8", "i": "int32", "I": "uint32", "q": "int64",
           "Q": "uint64", "l": "int64", "L": "uint64"}
DLPACK_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
TYPESTR_CODES = {"i": "int", "u": "uint", "f": "float"}


class DLTensor(ctypes.Structure):
    """Of DLPack's C header, at the beginning of DLManagedTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype = ctypes.c_void_p
capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


@dataclass(frozen=True)
class Elements:
    """The elements of an array, contiguous in memory. It keeps the array alive."""

    address: int
    count: int
    type: str
    on_gpu: bool
    owner: Any

    @property
    def type_number(self) -> int:
        return TYPES[self.type]

    @property
    def bytes(self) -> int:
        return self.count * int("".join(filter(str.isdigit, self.type))) // 8


def elements(array: Any, written: bool = False) -> Elements:
    """The elements of `array`. `written`: they will be written to.

    Raises Error when it has no memory that can be used: another type, not contiguous, or not writable.
    """
    if written and type(array).__module__.partition(".")[0] in ("jax", "jaxlib"):
        raise usage("a jax array cannot be changed: give the operation a NumPy array, or another one, for its result")
    if hasattr(array, "detach"):
        array = array.detach()  # PyTorch shows no protocol the memory of a tensor that requires a gradient
    try:
        view = memoryview(array)
    except (TypeError, BufferError):
        capsule = dlpack_capsule(array)
        return from_cuda(array, written) if capsule is None else from_dlpack(capsule, array)
    return from_view(view, written)


def supported(name: str) -> str:
    if name not in TYPES:
        raise usage(f"arrays of {name} cannot be communicated: their type must be one of {', '.join(TYPES)}")
    return name


def from_view(view: memoryview, written: bool) -> Elements:
    if not view.c_contiguous:
        raise usage("the array is not contiguous in memory: make a copy that is, such as numpy.ascontiguousarray(array)")
    if written and view.readonly:
        raise usage("the array is read-only, and the operation writes its result to it")
    name = FORMATS.get(view.format.lstrip("@=<"), view.format)
    return Elements(buffer_address(view), view.nbytes // view.itemsize, supported(name), False, view)


class PyBuffer(ctypes.Structure):
    """The beginning of Python's Py_buffer, with room for the rest."""

    _fields_ = [("address", ctypes.c_void_p), ("rest", ctypes.c_void_p * 16)]


def buffer_address(view: memoryview) -> int:
    buffer = PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), 0)
    address = buffer.address or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address


def is_contiguous(shape: list[int], strides: list[int]) -> bool:
    """In C's order; strides in elements."""
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length > 1 and stride != expected:
            return False
        expected *= length
    return True


def product(shape: list[int]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def dlpack_capsule(array: Any) -> Any:
    """The array's memory in DLPack's form, which has bfloat16; None if the array does not give it."""
    try:
        return array.__dlpack__()
    except (AttributeError, BufferError):
        return None


def from_dlpack(capsule: Any, array: Any) -> Elements:
    """The capsule's destructor releases the tensor."""
    tensor = DLTensor.from_address(capsule_pointer(capsule, b"dltensor"))
    if tensor.device_type not in HOST_DEVICES + CUDA_DEVICES:
        raise usage(f"the array is on a device of DLPack's type {tensor.device_type}: only host memory and CUDA's can be used")
    shape = tensor.shape[:tensor.ndim]
    if tensor.strides and not is_contiguous(shape, tensor.strides[:tensor.ndim]):
        raise usage("the array is not contiguous in memory: make a copy that is, such as tensor.contiguous()")
    name = supported(f"{DLPACK_CODES.get(tensor.code, 'unknown')}{tensor.bits}")
    address = (tensor.data or 0) + tensor.byte_offset
    return Elements(address, product(shape), name, tensor.device_type in CUDA_DEVICES, (array, capsule))


def from_cuda(array: Any, written: bool) -> Elements:
    try:
        interface = array.__cuda_array_interface__
    except Exception:  # pylint: disable=broad-exception-caught  # a property, which says so in its package's own way
        raise usage(f"a {type(array).__name__} is no array: it gives its memory neither by the buffer protocol nor by __dlpack__ nor by "
                    "__cuda_array_interface__") from None
    code, size = interface["typestr"][1], int(interface["typestr"][2:])
    name = supported(f"{TYPESTR_CODES.get(code, 'unknown')}{8 * size}")
    address, readonly = interface["data"]
    shape = list(interface["shape"])
    if interface.get("strides") and not is_contiguous(shape, [stride // size for stride in interface["strides"]]):
        raise usage("the array is not contiguous in memory: make a copy that is")
    if written and readonly:
        raise usage("the array is read-only, and the operation writes its result to it")
    return Elements(address or 0, product(shape), name, True, array)
