"""Buffers on a GPU that a worker can map too: CUDA's virtual memory, by file descriptor.

This process allocates (cuMemCreate), maps the memory and exports a descriptor. The worker imports
it and maps inputs read-only; the hardware enforces that, so a store to one is an illegal memory
access. Only the allocation is visible, unlike with a CUDA IPC handle, which opens a whole segment
of an allocator. Source: CUDA Driver API, "Virtual Memory Management".

Needs cuda-bindings (the extra `gpu`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch

from grader.sandbox.memfd import SharedBuffers
from grader.worker.gpu_mapping import GpuMemoryError, checked, map_allocation, tensor_at

MISSING = "cuda-bindings isn't installed: pip install 'warpgrade[gpu]'"


class GpuMemory(SharedBuffers):
    """Two buffers on a GPU. Raises GpuMemoryError for any refusal by CUDA."""

    on_gpu = True

    def __init__(self, input_bytes: int, output_bytes: int, device: int = 0) -> None:
        """Raises GpuMemoryError where memory or cuda-bindings are lacking."""
        self._device = device
        with _explained("starting CUDA"):
            _expect_default_mode(_driver(), device)  # before a context takes memory
            torch.cuda.init()  # type: ignore[no-untyped-call]  # torch has no type for it
            torch.zeros(1, device=f"cuda:{device}")  # creates the context of the calls below
        inputs = _Allocation(input_bytes, device)
        try:
            super().__init__(inputs, _Allocation(output_bytes, device))
        except GpuMemoryError:
            inputs.close()
            raise

    def put(self, buffer: int, start: int, values: torch.Tensor) -> None:
        with _explained("copying to the GPU"):
            super().put(buffer, start, values)

    def finish(self) -> None:
        with _explained("copying to the GPU"):
            torch.cuda.synchronize(self._device)

    def take(self, buffer: int, start: int, length: int) -> torch.Tensor:
        with _explained("copying from the GPU"):
            return super().take(buffer, start, length)


def why_not_shared() -> str:
    """Why a GPU's memory can't be shared with workers here, or ""."""
    try:
        GpuMemory(1, 1).close()
        return ""
    except GpuMemoryError as error:
        return str(error)


REACHES_HOST_MEMORY = (
    "this GPU reads and writes ordinary memory of a process (HMM): a kernel reaches what the "
    "executor beside it has mapped"
)


def reaches_host_memory() -> bool:
    """Whether CUDA says that kernels can access unmapped host memory.

    CUDA Programming Guide, "Unified Memory on devices with full CUDA managed memory support".
    """
    with contextlib.suppress(GpuMemoryError), _explained("asking for the GPU's reach"):
        driver = _driver()
        checked(driver.cuInit(0), "starting CUDA")
        number = checked(driver.cuDeviceGet(0), "finding the GPU")
        asked = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS
        return bool(checked(driver.cuDeviceGetAttribute(asked, number), "asking for its reach"))
    return False


class _Allocation:
    """One physical allocation, mapped here, with a descriptor for others."""

    def __init__(self, length: int, device: int) -> None:
        self._driver = driver = _driver()
        wanted = _properties(driver, device)
        minimum = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        step = checked(
            driver.cuMemGetAllocationGranularity(wanted, minimum), "asking for the granularity"
        )
        self.length = -(-max(length, 1) // step) * step
        self._handle = checked(driver.cuMemCreate(self.length, wanted, 0), f"{length} bytes")
        posix = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        try:
            self.descriptor = int(
                checked(driver.cuMemExportToShareableHandle(self._handle, posix, 0), "exporting")
            )
        except GpuMemoryError:
            driver.cuMemRelease(self._handle)
            raise
        try:
            address = map_allocation(driver, self._handle, self.length, device, writable=True)
            with _explained("a tensor over shared memory"):
                self.tensor = tensor_at(address, self.length, device)
        except GpuMemoryError:
            driver.cuMemRelease(self._handle)
            os.close(self.descriptor)
            raise
        self._address = address

    def close(self) -> None:
        del self.tensor
        os.close(self.descriptor)
        with _explained("waiting for the GPU"):
            torch.cuda.synchronize()
        checked(self._driver.cuMemUnmap(self._address, self.length), "unmapping")
        checked(self._driver.cuMemAddressFree(self._address, self.length), "freeing addresses")
        checked(self._driver.cuMemRelease(self._handle), "releasing")


def _driver() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError:
        raise GpuMemoryError(MISSING) from None
    return driver


def _expect_default_mode(driver: Any, device: int) -> None:
    """Raise GpuMemoryError where a context of ours would exclude the workers'."""
    checked(driver.cuInit(0), "starting CUDA")
    number = checked(driver.cuDeviceGet(device), "finding the GPU")
    asked = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_MODE
    mode = checked(driver.cuDeviceGetAttribute(asked, number), "asking for the compute mode")
    if mode != int(driver.CUcomputemode.CU_COMPUTEMODE_DEFAULT):
        raise GpuMemoryError("the GPU's compute mode lets one process use it, and no other")


@contextlib.contextmanager
def _explained(doing: str) -> Iterator[None]:
    """Turn exceptions of torch and cuda-bindings into one line."""
    try:
        yield
    except GpuMemoryError:
        raise
    except (RuntimeError, AssertionError) as error:  # the latter from a torch without CUDA
        raise GpuMemoryError(f"{doing}: {str(error).partition(chr(10))[0]}") from None


def _properties(driver: Any, device: int) -> Any:
    wanted = driver.CUmemAllocationProp()
    wanted.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = device
    wanted.requestedHandleTypes = (
        driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    )
    return wanted
