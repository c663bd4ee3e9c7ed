"""The worker's view of the arena: buffers mapped between inaccessible pages, tensors over them."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Sequence
from typing import Protocol

import torch

from .protocol import Argument, Kind

# A stray pointer within this distance of a buffer faults.
MARGIN = 1 << 30

_PROT_NONE = 0
_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class TensorSource(Protocol):
    """A buffer of the arena, on the host or on the GPU."""

    def bytes(self, offset: int, length: int) -> torch.Tensor: ...


class Buffer:
    """A mapped file descriptor of the arena: `length` bytes at `address`."""

    def __init__(self, address: int, length: int, writable: bool) -> None:
        self.address = address
        self.length = length
        self.writable = writable
        self._memory = memoryview((ctypes.c_uint8 * length).from_address(address)).cast("B")
        self._exposed: list[tuple[int, int]] = [(0, length)]  # first byte and end, sorted

    def expose(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Make these (offset, length) accessible, widened to pages, and nothing else.

        Raises OSError when the kernel refuses.
        """
        wanted = sorted(
            (start - start % mmap.PAGESIZE, min(_whole_pages(start + length), self.length))
            for start, length in ranges
        )
        if wanted == self._exposed:
            return
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if self.writable else 0)
        for start, end in self._exposed:
            _mprotect(self.address + start, end - start, _PROT_NONE)
        for start, end in wanted:
            _mprotect(self.address + start, end - start, protection)
        self._exposed = wanted

    def bytes(self, offset: int, length: int) -> torch.Tensor:
        """uint8[length] over the mapping, without a copy.

        Raises ValueError when the range doesn't lie inside the buffer.
        """
        if offset < 0 or length <= 0 or offset + length > self.length:
            raise ValueError(f"bytes {offset}..{offset + length} of a buffer of {self.length}")
        return torch.frombuffer(self._memory, dtype=torch.uint8, count=length, offset=offset)


def map_buffer(descriptor: int, length: int, writable: bool) -> Buffer:
    """Map a descriptor between two inaccessible margins and close it.

    Raises OSError when the kernel refuses.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    reserved = _mmap(0, length + 2 * MARGIN, _PROT_NONE, flags, -1)
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    address = _mmap(reserved + MARGIN, length, protection, mmap.MAP_SHARED | _MAP_FIXED, descriptor)
    os.close(descriptor)
    return Buffer(address, length, writable)


def expose(arguments: Sequence[Argument], buffers: Sequence[Buffer]) -> None:
    """Make the arguments' allocations accessible and nothing else, so that a stray access faults.

    Raises OSError when the kernel refuses.
    """
    tensors = [argument for argument in arguments if argument.kind is Kind.tensor]
    for index, buffer in enumerate(buffers):
        buffer.expose(each.allocation for each in tensors if each.buffer == index)


def allocation(argument: Argument, buffers: Sequence[TensorSource]) -> torch.Tensor:
    """uint8 over the whole allocation of an argument, guard zones included."""
    return buffers[argument.buffer].bytes(*argument.allocation)


def view(argument: Argument, allocated: torch.Tensor) -> torch.Tensor:
    """The strided tensor an argument describes, on its allocation (or a copy of that)."""
    dtype = getattr(torch, argument.dtype_name)
    if beyond := allocated.numel() % dtype.itemsize:
        allocated = allocated[:-beyond]
    typed = allocated.view(dtype)
    # as_strided counts from the start of the storage, which may begin before this tensor.
    first = typed.storage_offset() + (argument.offset - argument.allocation[0]) // dtype.itemsize
    return typed.as_strided(argument.shape, argument.strides, first)


def _whole_pages(length: int) -> int:
    return -(-length // mmap.PAGESIZE) * mmap.PAGESIZE


def _mprotect(address: int, length: int, protection: int) -> None:
    if _libc.mprotect(address, length, protection):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _mmap(address: int, length: int, protection: int, flags: int, descriptor: int) -> int:
    result: int = _libc.mmap(address or None, length, protection, flags, descriptor, 0)
    if result == _MAP_FAILED:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
