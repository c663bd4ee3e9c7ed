"""Cubins of one submission's Triton kernels, made from TTIR by a backend process, each once.

The process is given TTIR and options, and nothing else of a submission.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any

from grader.executors.compile.frontend import Compiler, Failure
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.encoding import DeviceKernel, NotExecutable
from grader.executors.gpu import strided_copies
from grader.gpu import machine
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death, Limits, Worker
from grader.worker.protocol import Code, Operation, Reply

LIMITS = Limits(cpu_seconds=120.0, memory_bytes=4 << 30)
MAX_CUBIN_BYTES = 2 << 20
_MOST_SCRATCH_BYTES = 1 << 30
_MOST_DESCRIPTORS = 64


class Cubins(Compiler):
    """The cubins of one variant."""

    def __init__(
        self,
        spawn: Callable[[Limits], Worker],
        kept: KeptBuilds | None = None,
        made: dict[str, DeviceKernel | Failure] | None = None,
    ) -> None:
        """Earlier runs have left cubins in `kept`, other runners of this submission in `made`: by
        a key of all that a cubin follows from."""
        super().__init__(spawn, LIMITS, kept)
        self.made = {} if made is None else made

    def of(
        self, key: str, ttir: str, options: Mapping[str, Any], limits: Limits = LIMITS
    ) -> DeviceKernel | Failure:
        """The kernel that the backend makes of a text."""
        if key not in self.made:
            name = f"{key}-cubin-{machine.capability()}"
            self.made[key] = self._kept_or_asked(name, ttir, options, limits)
        return self.made[key]

    def of_ours(self, ttir: str) -> DeviceKernel:
        """The kernel of a text of strided_copies.py. Raises NotExecutable where it can't be had."""
        made = self.of(f"ours {hash(ttir)}", ttir, strided_copies.OPTIONS)
        if isinstance(made, Failure):
            raise NotExecutable(f"a copy of a strided view ({made.message})")
        return made

    def _kept_or_asked(
        self, key: str, ttir: str, options: Mapping[str, Any], limits: Limits
    ) -> DeviceKernel | Failure:
        text = self._kept.get(key)
        if text and (known := read(untrusted.fields(Reply(0, Code.ok, text)))) is not None:
            return known
        answer = self._asked(ttir, options, limits)
        if isinstance(answer, Failure):
            return answer
        if (made := read(answer)) is None:
            return Failure(None, "the compiler's backend gave no code that can be used.")
        if not key.startswith("ours"):
            self._kept.put(key, json.dumps(answer))
        return made

    def _asked(
        self, ttir: str, options: Mapping[str, Any], limits: Limits
    ) -> dict[str, Any] | Failure:
        kernel = {"ttir": ttir, "options": dict(options), "cubin": True}
        kernel["capability"] = machine.capability()
        answer = self._ask_process(Operation.assemble, {"kernels": [kernel]}, limits)
        if isinstance(answer, Death):
            return Failure(answer, "the compiler's process ended.")
        if answer.code is not Code.ok:
            return Failure(answer, "the compiler could not serve a request.")
        fields = next(iter(untrusted.dicts(untrusted.fields(answer).get("kernels"))), {})
        if isinstance(error := fields.get("error"), dict):
            return Failure.of(error)
        return {name: fields.get(name) for name in _FIELDS}


_FIELDS = ("name", "shared", "num_warps", "global_scratch_size", "descriptors", "cubin")


def read(fields: Mapping[str, Any]) -> DeviceKernel | None:
    """A kernel from a backend's answer; None where that makes no sense."""
    name, cubin = fields.get("name"), fields.get("cubin")
    given = [fields.get(each) for each in ("num_warps", "shared", "global_scratch_size")]
    numbers = [each for each in given if type(each) is int]
    descriptors = fields.get("descriptors")
    if not isinstance(name, str) or not isinstance(cubin, str) or len(name) > 1000:
        return None
    if not name.isprintable():  # nor has UTF-8 a lone surrogate, which JSON has
        return None
    if len(numbers) < len(given) or not isinstance(descriptors, list):
        return None
    warps, shared, scratch = numbers
    in_range = 0 < warps <= 64 and 0 <= shared < 1 << 20 and 0 <= scratch <= _MOST_SCRATCH_BYTES
    if not in_range or len(descriptors) > _MOST_DESCRIPTORS:
        return None
    try:
        data = base64.b64decode(cubin, validate=True)
    except binascii.Error:
        return None
    if not 0 < len(data) <= MAX_CUBIN_BYTES:
        return None
    known = tuple(each for each in descriptors if isinstance(each, dict))
    return DeviceKernel(data, name, warps, shared, scratch, known)
