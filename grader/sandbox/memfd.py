"""A pair of sealed memfds: memory that a worker maps too, the first one read-only.

Sealing follows memfd_create(2) and fcntl(2). Without F_SEAL_SHRINK, a truncate in the worker would
kill the grader by SIGBUS; without F_SEAL_FUTURE_WRITE, a read-only mapping can be made writable.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # a sandbox is begun before torch is imported: see grading/head_start.py
    import torch

_F_ADD_SEALS = 1033
_F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW, _F_SEAL_WRITE, _F_SEAL_FUTURE_WRITE = 1, 2, 4, 8, 16


@contextlib.contextmanager
def sealed(data: bytes) -> Iterator[int]:
    """A descriptor of memory that holds `data` and can't be changed; closed at the end."""
    descriptor = os.memfd_create("document", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        seals = _F_SEAL_SHRINK | _F_SEAL_GROW | _F_SEAL_WRITE | _F_SEAL_SEAL
        fcntl.fcntl(descriptor, _F_ADD_SEALS, seals)
        yield descriptor
    finally:
        os.close(descriptor)


class Shared(Protocol):
    """Memory that another process can map by its descriptor."""

    descriptor: int
    length: int  # bytes
    tensor: torch.Tensor  # uint8, over all of it

    def close(self) -> None: ...


class SharedBuffers:
    """Two buffers that a worker maps too: it can only read the inputs."""

    on_gpu = False

    def __init__(self, inputs: Shared, outputs: Shared) -> None:
        """They are closed with the pair."""
        self._inputs, self._outputs = inputs, outputs

    @property
    def buffers(self) -> list[tuple[int, int, bool]]:
        """For the worker: descriptor, length in bytes, whether it may write."""
        return [
            (self._inputs.descriptor, self._inputs.length, False),
            (self._outputs.descriptor, self._outputs.length, True),
        ]

    @property
    def inputs(self) -> torch.Tensor:
        """uint8: what the worker can only read."""
        return self._inputs.tensor

    @property
    def outputs(self) -> torch.Tensor:
        """uint8: what it can write."""
        return self._outputs.tensor

    def part(self, buffer: int, start: int, length: int) -> torch.Tensor:
        """uint8[length] from a place in a buffer on, without a copy."""
        return (self.inputs, self.outputs)[buffer][start : start + length]

    def put(self, buffer: int, start: int, values: torch.Tensor) -> None:
        """Copy bytes of this process to a place in a buffer; complete after `finish`."""
        self.part(buffer, start, len(values)).copy_(values)

    def finish(self) -> None:
        """Wait for all puts; in host memory they are done already."""

    def take(self, buffer: int, start: int, length: int) -> torch.Tensor:
        """uint8[length], a copy on the host, private to this process."""
        return self.part(buffer, start, length).to("cpu", copy=True)

    def close(self) -> None:
        """Free the memory, once the worker's mappings are gone too."""
        try:
            self._inputs.close()
        finally:
            self._outputs.close()


class Memfds(SharedBuffers):
    """Two buffers in host memory."""

    def __init__(self, input_bytes: int, output_bytes: int) -> None:
        inputs = _Memfd("inputs", input_bytes, seal_writes=True)
        super().__init__(inputs, _Memfd("outputs", output_bytes, seal_writes=False))


class _Memfd:
    """Memory behind a descriptor, mapped writable before it is sealed."""

    def __init__(self, name: str, length: int, seal_writes: bool) -> None:
        import torch

        pages = -(-max(length, 1) // mmap.PAGESIZE)  # a size of 0 can't be mapped
        self.length = pages * mmap.PAGESIZE
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, self.length)
        self._map = mmap.mmap(self.descriptor, self.length)
        seals = _F_SEAL_SHRINK | _F_SEAL_GROW | _F_SEAL_SEAL
        if seal_writes:
            seals |= _F_SEAL_FUTURE_WRITE
        fcntl.fcntl(self.descriptor, _F_ADD_SEALS, seals)
        self.tensor = torch.frombuffer(self._map, dtype=torch.uint8)

    def close(self) -> None:
        os.close(self.descriptor)
        # Unmapped with the last tensor over it, which a caller may hold: torch keeps the object
        # alive but doesn't count as an export of its buffer, so closing would be unsafe.
        del self.tensor, self._map
