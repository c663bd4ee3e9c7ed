"""Maps an allocation of CUDA's virtual memory into this process, with a tensor over it.

Used on both sides: the grader allocates (gpu_memory.py), the worker imports a descriptor and maps
it with the given access. The hardware enforces read-only access: a store is an illegal memory
access. Source: CUDA Driver API, "Virtual Memory Management".
"""

from __future__ import annotations

import os
from typing import Any

import torch


class GpuMemoryError(RuntimeError):
    """The driver refuses; the message has the operation and the error."""


def map_allocation(driver: Any, handle: Any, length: int, device: int, writable: bool) -> int:
    """Map an allocation for this process; its address. Raises GpuMemoryError."""
    address = checked(driver.cuMemAddressReserve(length, 0, 0, 0), "reserving addresses")
    checked(driver.cuMemMap(address, length, 0, handle, 0), "mapping")
    access = driver.CUmemAccessDesc()
    access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = device
    flags = driver.CUmemAccess_flags
    access.flags = (
        flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        if writable
        else flags.CU_MEM_ACCESS_FLAGS_PROT_READ
    )
    checked(driver.cuMemSetAccess(address, length, [access], 1), "setting access")
    return int(address)


def tensor_at(address: int, length: int, device: int) -> torch.Tensor:
    """uint8[length] over device memory that another object owns."""

    class Described:
        def __init__(self) -> None:
            self.__cuda_array_interface__ = {
                "shape": (length,),
                "typestr": "|u1",
                "data": (address, False),
                "version": 3,
            }

    return torch.as_tensor(Described(), device=f"cuda:{device}")


def checked(answer: tuple[Any, ...], doing: str) -> Any:
    """The result of a driver call without its error code. Raises GpuMemoryError."""
    error, *rest = answer
    if int(error):
        raise GpuMemoryError(f"{doing}: {error.name}")
    return rest[0] if rest else None


class GpuBuffer:
    """A buffer of the arena on the GPU, imported on first use.

    The process is confined by then, and may have a context only afterwards.
    """

    def __init__(self, descriptor: int, length: int, writable: bool) -> None:
        self.length = length
        self.writable = writable
        self._descriptor = descriptor
        self._tensor: torch.Tensor | None = None

    def bytes(self, offset: int, length: int) -> torch.Tensor:
        """uint8[length] on the device, without a copy.

        Raises ValueError when the range doesn't lie inside the buffer, GpuMemoryError when the
        driver refuses.
        """
        if offset < 0 or length <= 0 or offset + length > self.length:
            raise ValueError(f"bytes {offset}..{offset + length} of a buffer of {self.length}")
        if self._tensor is None:
            self._tensor = self._imported()
        return self._tensor[offset : offset + length]

    def _imported(self) -> torch.Tensor:
        from cuda.bindings import driver

        torch.zeros(1, device="cuda")  # creates the context of the calls below
        posix = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        handle = checked(
            driver.cuMemImportFromShareableHandle(self._descriptor, posix), "importing"
        )
        os.close(self._descriptor)
        device = torch.cuda.current_device()
        address = map_allocation(driver, handle, self.length, device, self.writable)
        return tensor_at(address, self.length, device)
