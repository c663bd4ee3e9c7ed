"""How a CUDA variant is compiled: further files, headers of the course, flags, an entry per dtype.

variants:
  cuda:
    file: launcher.cu
    entry: {float32: scale_f32, float16: scale_f16}
    compile:
      files: [kernel.cu, helper.cuh]       # handed in beside `file`
      headers: [course.cuh]                # the course's, in reference/
      flags: [-D TILE=16, -use_fast_math]
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BeforeValidator

from grader.spec.values import (
    ITEMSIZE,
    Block,
    Dtype,
    Identifier,
    choice_problem,
    filled,
    matching,
    nonempty_list,
    refusal,
    unexpected,
)

FLAGS = "-D NAME, -D NAME=VALUE, -use_fast_math, --maxrregcount=NUMBER (a NAME in capitals)"
_DEFINITION = re.compile(r"-D ?(?P<name>[A-Z][A-Z0-9_]*)(=(?P<value>-?[A-Za-z0-9_.]+))?")
_REGISTERS = re.compile(r"--?maxrregcount[= ](?P<count>[0-9]{1,3})")
_FAST = ("-use_fast_math", "--use_fast_math")
_LEAST_REGISTERS, _MOST_REGISTERS = 16, 255  # of a thread


def _flag(value: object) -> object:
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if text in _FAST or _DEFINITION.fullmatch(text):
        return text
    if (match := _REGISTERS.fullmatch(text)) is None:
        raise unexpected(f"one of the flags {FLAGS}", value)
    if not _LEAST_REGISTERS <= int(match["count"]) <= _MOST_REGISTERS:
        raise unexpected(f"{_LEAST_REGISTERS} to {_MOST_REGISTERS} registers", value)
    return text


Flag = Annotated[str, BeforeValidator(_flag)]
_NAME = "a file name of letters, digits and _, without a folder, ending in"
LabFile = Annotated[str, matching(r"[A-Za-z0-9_]+\.(cu|cuh|h)", f"{_NAME} .cu, .cuh or .h")]
Header = Annotated[str, matching(r"[A-Za-z0-9_]+\.(cuh|h)", f"{_NAME} .cuh or .h")]


class Compile(Block):
    """The key `compile` of a variant.

    `files` are handed in beside the variant's `file`, and compiled with it as one program.
    `headers` are the course's, in the folder of its solutions. `flags` are those of nvcc.
    """

    files: Annotated[tuple[LabFile, ...], BeforeValidator(nonempty_list)] = ()
    headers: Annotated[tuple[Header, ...], BeforeValidator(nonempty_list)] = ()
    flags: Annotated[tuple[Flag, ...], BeforeValidator(nonempty_list)] = ()

    @property
    def definitions(self) -> tuple[str, ...]:
        """The macros of -D, as `TILE 16`: of a flag without a value, 1."""
        matches = filter(None, map(_DEFINITION.fullmatch, self.flags))
        return tuple(f"{each['name']} {each['value'] or 1}" for each in matches)

    @property
    def options(self) -> tuple[str, ...]:
        """The flags that only nvcc knows, as it takes them."""
        counts = filter(None, map(_REGISTERS.fullmatch, self.flags))
        fast = ("-use_fast_math",) if any(each in _FAST for each in self.flags) else ()
        return (*fast, *(f"-maxrregcount={each['count']}" for each in counts))


def digest(hashes: Sequence[str]) -> str:
    """One hash for those of a variant's files, of which the first is its `file`; "" without it."""
    if len(hashes) == 1 or not hashes[0]:
        return hashes[0]
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def _single(value: object) -> object:
    """The entry of a variant that has one for each dtype: the first. `_by_dtype` checks them."""
    names = [*value.values()] if isinstance(value, Mapping) else []
    right = [each for each in names if isinstance(each, str) and each.isidentifier()]
    return (right or ["_"])[0] if isinstance(value, Mapping) else value


def _by_dtype(value: object) -> object:
    if not isinstance(value, Mapping):
        return {}
    filled(value)
    for key in value:
        if problem := choice_problem([*ITEMSIZE], key):
            raise refusal(problem)
    return value


Entry = Annotated[Identifier, BeforeValidator(_single)]
Entries = Annotated[dict[Dtype, Identifier], BeforeValidator(_by_dtype)]
