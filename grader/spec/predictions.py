"""Questions that a student answers before writing code: `predictions:` of a spec.

    predictions:
      points: 1
      questions:
        bytes:
          ask: x has {n} elements of bfloat16. How many bytes does the kernel move at least?
          draw: {n: {power_of_two: [1048576, 67108864]}}
          unit: bytes
          answer: bytes
          accept: 0.01

The numbers in braces are drawn from the student's name. `answer` is a formula over them, over sizes
of the variant's own case, and over QUANTITIES: what the spec's formulas, the GPU's data sheet and
the grader's counters say. A release for students has no `answer` and no `accept`.
"""

from __future__ import annotations

import math
import random
import re
import string
from collections.abc import Iterator, Mapping
from typing import Annotated

import pydantic
from pydantic import BeforeValidator

from grader.spec import drawn_sizes
from grader.spec.blocks import SizeRules
from grader.spec.formula import Formula, as_written
from grader.spec.values import Block, Dtype, Label, Mistake, Points, Positive, filled

PREDICTIONS = "predictions"  # the name of the check, and of its row in a score
ANSWERS = "answers.yaml"  # in a submission's folder
STUDENT = "student"  # the key in it that names the student

# By the spec's formulas of the variant's performance block.
OF_THE_SPEC = ("itemsize", "bytes", "flops", "intensity")
# By the data sheet of the course's GPU: FLOP/byte, microseconds, SMs, GB/s and TFLOP/s.
OF_THE_GPU = ("ridge", "floor_us", "sms", "gb_s", "tflops")
# By occupancy arithmetic, where `threads` are drawn, and `registers` and `shared` may be.
OF_OCCUPANCY = ("blocks_per_sm", "warps_per_sm")
# By the executor's counters, in a run of the solution.
OF_A_RUN = (
    "launches",
    "blocks",
    "requests",
    "load_requests",
    "store_requests",
    "load_sectors",
    "store_sectors",
    "bank_conflicts",
    "bank_ways",
    "copies",
    "bytes_copied",
)
# Those of them that are counted in CUDA C++ alone.
OF_A_CUDA_RUN = ("bank_conflicts", "bank_ways", "copies", "bytes_copied")
# Answers that are one of the question's choices.
IN_WORDS = ("bound", "limit")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")
QUANTITIES = (*OF_THE_SPEC, *OF_THE_GPU, *OF_OCCUPANCY, *OF_A_RUN)


class Question(Block):
    """One question. `ask` is its text, with drawn numbers in braces.

    An answer is a number in `unit`, right within `accept` of the value of `answer` (a share of it),
    or one of `choices`. `variant` and `dtype` say what the quantities are of: by default the
    exercise's first variant and its first dtype.
    """

    ask: str
    draw: SizeRules = pydantic.Field(default_factory=dict)
    unit: str = ""
    choices: tuple[str, ...] = ()
    variant: str = ""
    dtype: Dtype | None = None
    answer: Formula | None = None  # None in a release for students
    accept: Positive = 0.01

    @property
    def is_in_words(self) -> bool:
        """Whether the right answer is a word that the grader works out."""
        return self.answer is not None and self.answer.text in IN_WORDS


class Predictions(Block):
    """The questions of an exercise. All have the same share of the points, which are a bonus."""

    points: Points
    questions: Annotated[dict[Label, Question], BeforeValidator(filled)]


def named(student: str) -> str:
    """A student's name as numbers are drawn from it: neither case nor spaces matter."""
    return " ".join(student.split()).casefold()


def drawn(exercise: str, key: str, question: Question, student: str) -> dict[str, int]:
    """The numbers of a question for one student; the same wherever they are drawn."""
    chooser = random.Random(f"{exercise}/{key}/{named(student)}")
    return drawn_sizes.drawn(question.draw, chooser)


def asked(question: Question, numbers: Mapping[str, int]) -> str:
    """A question's text with its numbers."""
    return question.ask.format(**{name: f"{value:,}" for name, value in numbers.items()})


def form_mistake(question: Question, given: object) -> str:
    """Why an answer, as text, can't be one of the question's; or ""."""
    unit = f" ({question.unit})" if question.unit else ""
    wanted = f"one of {', '.join(question.choices)}" if question.choices else f"a number{unit}"
    if given is None or given == "":
        return f"expected {wanted}, got no answer"
    if question.choices:
        is_one, as_in = given in question.choices, ""
    else:
        is_one, as_in = number_of(given) is not None, "; write it without a unit, as 2.28e8"
    return "" if is_one else f"expected {wanted}, got {as_written(given)}{as_in}"


def number_of(given: object) -> float | None:
    """The number that a text is, as 228000000, 228,000,000 or 2.28e8; None where it is none."""
    if isinstance(given, str) and _THOUSANDS.fullmatch(given):
        given = given.replace(",", "")
    try:
        number = float(given) if isinstance(given, str) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def question_mistakes(
    question: Question, variants: Mapping[str, tuple[str, ...]], sizes: tuple[str, ...]
) -> Iterator[Mistake]:
    """The mistakes of a question besides its form. `variants` have their dtypes."""
    try:
        used = {name for _, name, _, _ in string.Formatter().parse(question.ask) if name}
    except ValueError as error:
        yield Mistake(("ask",), f"expected text with {{names}} of drawn numbers: {error}")
        return
    if used != {*question.draw}:
        expected = ", ".join(question.draw) or "no names"
        came = ", ".join(sorted(used)) or "none"
        yield Mistake(("ask",), f"expected {expected} in braces, as `draw` has it; got {came}")
    if question.variant and question.variant not in variants:
        wanted = ", ".join(variants)
        yield Mistake(("variant",), f"expected one of {wanted}, got {question.variant!r}")
    elif (
        question.dtype and question.dtype not in variants[question.variant or next(iter(variants))]
    ):
        yield Mistake(("dtype",), f"expected a dtype of the variant, got {question.dtype!r}")
    if question.is_in_words and not question.choices:
        yield Mistake(("answer",), "expected `choices` for an answer in words, got none")
    elif question.answer is not None and not question.is_in_words:
        if question.choices:
            wanted = " or ".join(IN_WORDS)
            yield Mistake(("answer",), f"expected {wanted} where there are choices")
        known = (*question.draw, *sizes, *QUANTITIES)
        for name in sorted(question.answer.names - {*known}):
            wanted = ", ".join(dict.fromkeys(known))
            yield Mistake(("answer",), f"expected {wanted}, got the name {name!r}")
