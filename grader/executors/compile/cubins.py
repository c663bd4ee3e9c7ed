"""Cubins of one submission's Triton kernels, made from TTIR by a backend process, each once.

The process is given TTIR and options, and nothing else of a submission.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pydantic
from pydantic import Field

from grader.executors.compile.frontend import Compiler, Failure
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.encoding import DeviceKernel, NotExecutable
from grader.executors.gpu import strided_copies
from grader.gpu import machine
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death, Limits, Worker
from grader.worker.protocol import Code, Operation, Reply

LIMITS = Limits(cpu_seconds=120.0, memory_bytes=4 << 30)
MAX_CUBIN_BYTES = 3 << 20  # in base64, what fits into an answer
_TOO_LARGE = (
    f"its machine code is larger than the {MAX_CUBIN_BYTES >> 20} MiB that the grader takes: a "
    "thread has so many elements that registers don't hold them. Make the block smaller, or "
    "num_warps larger."
)


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
            is_large = len(str(answer.get("cubin"))) > MAX_CUBIN_BYTES
            message = "the compiler's backend gave no code that can be used."
            return Failure(None, _TOO_LARGE if is_large else message)
        if not key.startswith("ours"):
            self._kept.put(key, json.dumps(answer))
        return made

    def _asked(
        self, ttir: str, options: Mapping[str, Any], limits: Limits
    ) -> dict[str, Any] | Failure:
        kernel = {"ttir": ttir, "options": dict(options), "cubin": True}
        kernel["capability"] = machine.capability()
        answer = self.ask(Operation.assemble, {"kernels": [kernel]}, limits)
        if isinstance(answer, Death):
            return Failure(answer, "the compiler's process ended.")
        if answer.code is Code.raised:  # the answer is too long
            return Failure(answer, _TOO_LARGE)
        if answer.code is not Code.ok:
            return Failure(answer, "the compiler could not serve a request.")
        fields = next(iter(untrusted.dicts(untrusted.fields(answer).get("kernels"))), {})
        if isinstance(error := fields.get("error"), dict):
            return Failure.of(error)
        return {name: fields.get(name) for name in _Answered.model_fields}


class _Answered(pydantic.BaseModel):
    """The fields of a backend's answer that a launch needs."""

    model_config = pydantic.ConfigDict(strict=True)

    name: Annotated[str, Field(max_length=1000)]
    shared: Annotated[int, Field(ge=0, lt=1 << 20)]
    num_warps: Annotated[int, Field(gt=0, le=64)]
    global_scratch_size: Annotated[int, Field(ge=0, le=1 << 30)]
    descriptors: Annotated[list[Any], Field(max_length=64)]
    cubin: str


def read(fields: Mapping[str, Any]) -> DeviceKernel | None:
    """A kernel from a backend's answer; None where that makes no sense."""
    try:
        checked = _Answered.model_validate(fields)
        data = base64.b64decode(checked.cubin, validate=True)
    except ValueError:
        return None
    if not checked.name.isprintable() or not 0 < len(data) <= MAX_CUBIN_BYTES:
        return None
    known = tuple(each for each in checked.descriptors if isinstance(each, dict))
    scratch = checked.global_scratch_size
    return DeviceKernel(data, checked.name, checked.num_warps, checked.shared, scratch, known)
