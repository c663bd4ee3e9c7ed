"""Validators of single values in a spec, with messages about wrong ones.

Each raises a pydantic error with the message `expected ..., got ...`; reading adds the file, the
line and the key.
"""

from __future__ import annotations

import difflib
import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeGuard, TypeVar

import pydantic
from pydantic import BeforeValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from grader import mistakes
from grader.spec.formula import FUNCTIONS, as_written

# Bytes per element of every dtype a spec may name.
ITEMSIZE = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
}  # fmt: skip
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
FLOATS = ("float64", "float32", "float16", "bfloat16", *FLOAT8)
# The lowest and the highest value of each integer dtype.
INTEGERS: dict[str, tuple[int, int]] = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}

MAX_LINES = 10  # of a SpecError
MAX_INT = 2**31 - 1
# Words with another meaning in a case string or a formula.
RESERVED = frozenset({"itemsize", "dtype", "seed", "data", "layout", *FUNCTIONS})


class SpecError(mistakes.Mistake, ValueError):
    """A spec is wrong. `mistakes` has a line each: file, line, key, expected and actual value.

    `right` are the exercises of the same folder whose specs are right, by name.
    """

    def __init__(self, mistakes: Iterable[str], right: Mapping[str, Any] | None = None) -> None:
        self.mistakes = tuple(mistakes)
        self.right = dict(right or {})
        shown = list(self.mistakes[:MAX_LINES])
        if len(self.mistakes) > MAX_LINES:
            shown.append(f"and {len(self.mistakes) - MAX_LINES} more")
        super().__init__("\n".join(shown))


class Mistake(NamedTuple):
    """A mistake at one place of a spec; `path` holds keys and indices from its top."""

    path: tuple[str | int, ...]
    message: str


def below(path: tuple[str | int, ...], mistakes: Iterable[Mistake]) -> Iterator[Mistake]:
    """The mistakes of a part of a spec, whose places are told from its own top, as the whole's."""
    for mistake in mistakes:
        yield Mistake((*path, *mistake.path), mistake.message)


def joined(path: Iterable[str | int]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def refusal(message: str) -> PydanticCustomError:
    return PydanticCustomError("spec", "{message}", {"message": message})


def unexpected(wanted: str, value: object, advice: str = "") -> PydanticCustomError:
    return refusal(f"expected {wanted}, got {as_written(value)}{advice}")


def refusals(mistakes: list[Mistake]) -> PydanticCustomError:
    """Several mistakes below the current place, as one pydantic error."""
    text = "; ".join(f"{joined(mistake.path)}: {mistake.message}" for mistake in mistakes)
    return PydanticCustomError("spec", "{message}", {"message": text, "mistakes": mistakes})


def hint(word: object, known: Iterable[str]) -> str:
    """`, did you mean 'dtype'?` where a known word is close or begins so, else nothing."""
    word, known = str(word), list(known)
    begun = [each for each in known if len(word) > 2 and each.startswith(word)]
    close = begun if len(begun) == 1 else difflib.get_close_matches(word, known, n=1)
    return f", did you mean {close[0]!r}?" if close else ""


_EXPONENT = re.compile(r"([+-]?)(\d*)\.?(\d*)[eE]([+-]?)(\d+)", re.ASCII)


def number_in_text(text: str) -> str:
    """How to write a number that YAML took for text; nothing where the text isn't one."""
    match = _EXPONENT.fullmatch(text)
    if match:
        sign, whole, fraction, exponent_sign, exponent = match.groups()
        right = f"{sign}{whole or 0}.{fraction or 0}e{exponent_sign or '+'}{exponent}"
        if right == text:
            return f": write it without quotes, {right}"
        return f": write {right}: YAML reads {text} as text"
    try:
        float(text)
    except ValueError:
        return ""
    return ": write it without quotes"


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a finite number: YAML's true and false are none."""
    is_bool = isinstance(value, bool)
    return isinstance(value, (int, float)) and not is_bool and math.isfinite(value)


def number(at_least: float | None = None, above: float | None = None) -> BeforeValidator:
    """A finite number (no bool, no text), with an inclusive or exclusive lower bound."""
    wanted = "a number"
    if at_least is not None:
        wanted += f" >= {at_least:g}"
    if above is not None:
        wanted += f" > {above:g}"

    def check(value: object) -> object:
        if isinstance(value, str):
            raise unexpected(wanted, value, number_in_text(value))
        if not is_number(value):
            raise unexpected(wanted, value)
        if (at_least is not None and value < at_least) or (above is not None and value <= above):
            raise unexpected(wanted, value)
        return value

    return BeforeValidator(check)


def whole(value: object, wanted: str = "a whole number >= 1") -> int:
    """A whole number that fits a C int, which is the type of sizes in kernels."""
    if isinstance(value, str) and value.isdigit():
        raise unexpected(wanted, value, ": write it without quotes")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise unexpected(wanted, value)
    if value > MAX_INT:
        raise unexpected(f"at most {MAX_INT} (a C int)", value)
    return value


def matching(pattern: str, wanted: str, forbidden: Iterable[str] = ()) -> BeforeValidator:
    """A text that matches a pattern as a whole, and is none of the forbidden ones."""

    def check(value: object) -> object:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
            raise unexpected(wanted, value)
        if value in forbidden or keyword.iskeyword(value):
            raise refusal(f"expected another name: {value!r} has a meaning of its own")
        return value

    return BeforeValidator(check)


def choice_problem(known: Sequence[str], value: object, kind: str = "") -> str:
    """Why a value is none of the known ones, which are of a kind ("the sizes "), or ""."""
    if value in known:
        return ""
    wanted = f"expected one of {kind}{', '.join(known)}"
    return f"{wanted}, got {as_written(value)}{hint(value, known)}"


def one_of(known: Iterable[str]) -> BeforeValidator:
    words = tuple(known)

    def check(value: object) -> object:
        problem = choice_problem(words, value)
        if problem:
            raise refusal(problem)
        return value

    return BeforeValidator(check)


def nonempty_list(value: object) -> list[Any] | tuple[Any, ...]:
    """A list without repetitions that isn't empty."""
    if not isinstance(value, (list, tuple)):
        raise unexpected("a list", value)
    if not value:
        raise refusal("expected at least one, got an empty list")
    twice = [index for index, item in enumerate(value) if _stands_in(item, value[:index])]
    if twice:
        item, place = as_written(value[twice[0]]), twice[0] + 1
        raise refusal(f"expected each one once, got {item} twice, the second time as item {place}")
    return value


def _stands_in(item: object, others: Iterable[object]) -> bool:
    # By type too: 1 == True, but a list with both has another mistake.
    return any(type(item) is type(other) and item == other for other in others)


def yes_or_no(value: object) -> bool:
    """A bool; 1 and "yes" aren't."""
    if not isinstance(value, bool):
        raise unexpected("true or false", value)
    return value


def filled(value: object) -> object:
    if not isinstance(value, Mapping):
        raise unexpected("a mapping", value)
    if not value:
        raise refusal("expected at least one entry, got an empty mapping")
    return value


_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*", "a name of letters, digits and _"
Identifier = Annotated[str, matching(*_IDENTIFIER)]
# Sizes and scalars also appear in formulas and case strings.
Name = Annotated[str, matching(*_IDENTIFIER, RESERVED)]
# Parts of pytest ids, which '-' separates: lower case, so that `pytest -k` is predictable.
_LABEL = r"[a-z][a-z0-9_]*", "a lower-case name of letters, digits and _"
Label = Annotated[str, matching(*_LABEL)]
ClassLabel = Annotated[str, matching(*_LABEL, ("performance", "memory"))]
_FILE = "a file name of letters, digits and _, without a folder, ending in .py or .cu"
File = Annotated[str, matching(r"[A-Za-z0-9_]+\.(py|cu)", _FILE)]
Dtype = Annotated[str, one_of(ITEMSIZE)]
TensorDtype = Annotated[str, one_of(["$dtype", *ITEMSIZE])]
Points = Annotated[float, number(at_least=0)]
Positive = Annotated[float, number(above=0)]
YesOrNo = Annotated[bool, BeforeValidator(yes_or_no)]


_Block = TypeVar("_Block", bound="Block")


class Block(pydantic.BaseModel):
    """A mapping of a spec: unknown keys are mistakes, values are frozen."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _remember(cls, data: Any, info: ValidationInfo) -> Any:
        # The model of each mapping: an unknown key's message names the closest known one.
        if isinstance(info.context, dict):
            info.context[id(data)] = cls
        return data

    def overridden_by(self: _Block, other: _Block) -> _Block:
        """This block with the fields that `other` sets, a mapping's key by key."""
        said = {name: getattr(other, name) for name in other.model_fields_set}
        for name, value in said.items():
            if isinstance(value, Mapping):
                said[name] = {**getattr(self, name), **value}
        return self.model_copy(update=said)
