"""The lines of `grader serve --jsonl`: requests in, answers out, each with a schema number.

    {"schema": 1, "id": "a", "exercise": "silu/triton", "source": "import triton ..."}
    {"schema": 1, "id": "a", "outcome": "graded", "result": {...}}

Fields may be added under the same number; none may change its meaning or go.
"""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from grader.service.results import CheckResult
from grader.spec.formula import as_written

SCHEMA: Literal[1] = 1
MOST_LINE_BYTES = 8 << 20  # a file of 1 MiB, however its text is escaped
LIMIT_S = 60.0

Id = Annotated[str, pydantic.Field(max_length=200)] | int
Outcome = Literal["graded", "time_limit", "interrupted", "refused", "malformed", "failed"]


class Request(pydantic.BaseModel):
    """One source to be checked as one variant of an exercise."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    schema_: Literal[1] = pydantic.Field(alias="schema")
    id: Id
    exercise: Annotated[str, pydantic.Field(max_length=200)]  # "silu/triton"
    source: str
    seed: Annotated[int, pydantic.Field(ge=0, lt=1 << 32)] | None = None  # None: a new one
    effort: Literal["full", "quick"] = "full"
    timed: bool = True
    limit_s: Annotated[float, pydantic.Field(gt=0, le=3600)] = LIMIT_S


class Answer(pydantic.BaseModel):
    """What became of one request, or of a line that is none."""

    model_config = pydantic.ConfigDict(frozen=True)

    schema_: Literal[1] = pydantic.Field(default=SCHEMA, serialization_alias="schema")
    id: Id | None = None
    outcome: Outcome
    result: CheckResult | None = None  # of a graded one
    error: str = ""  # of all others: what happened, with the line's number where it is malformed

    def line(self) -> str:
        """The answer as one line."""
        return self.model_dump_json(by_alias=True) + "\n"


def read(line: bytes, number: int) -> Request | Answer:
    """The request on a line; or an answer that names what is wrong, and where."""
    try:
        return Request.model_validate_json(line)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the line"
        is_value = isinstance(first["input"], (str, int, float)) and first["loc"]
        came = f", got {as_written(first['input'])}" if is_value else ""
        reason = f"line {number}: {place}: {first['msg']}{came}"
        return Answer(outcome="malformed", error=reason, id=_id_in(line))


class _Named(pydantic.BaseModel):
    id: Id | None = None


def _id_in(line: bytes) -> str | int | None:
    """The id of a line that is wrong elsewhere; None where there is none to read."""
    try:
        return _Named.model_validate_json(line).id
    except pydantic.ValidationError:
        return None
