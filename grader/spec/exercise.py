"""Exercise specs: YAML in, frozen and validated objects out.

One file of a course's `exercises/` is one Exercise. It is read as text, YAML nodes (with lines),
plain data and pydantic models, and checked across fields. Each mistake is a line of a SpecError:

    rmsnorm.yaml:31: variants.triton.points.ragged: expected a number >= 0, got -2
"""

from __future__ import annotations

import math
import re
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pydantic
from pydantic import BeforeValidator

from grader.spec.blocks import (
    Argument,
    Layouts,
    Limits,
    Memory,
    Pattern,
    Performance,
    PlannedSizes,
    Policy,
    Scalar,
    Size,
    SizeClass,
    SizeRule,
    Tensor,
    Threshold,
    Tolerance,
    derived_size,
)
from grader.spec.checks import across, derived_mistakes, point_keys
from grader.spec.compiling import Compile, Entries, Entry
from grader.spec.document import read_document
from grader.spec.formula import Formula, Relation
from grader.spec.possible import impossible_cases
from grader.spec.predictions import ANSWERS, PREDICTIONS, Predictions
from grader.spec.values import (
    FLOATS,
    ITEMSIZE,
    Block,
    ClassLabel,
    Dtype,
    File,
    Identifier,
    Label,
    Mistake,
    Name,
    Points,
    SpecError,
    YesOrNo,
    filled,
    nonempty_list,
    one_of,
    refusals,
)

# Of the default course, beside the package: in a checkout, or where a wheel puts it.
_PROJECT = Path(__file__).resolve().parents[2]
HOME = (
    _PROJECT
    if (_PROJECT / "course.yaml").is_file()
    else Path(sysconfig.get_path("data")) / "share" / "warpgrade"
)
REFERENCE = HOME / "reference"

# Words by which `pytest -k` selects other tests than an exercise's.
SURROUNDINGS = ("tests", "test", "grader", "assignment", "reference", "performance", "memory")


class _OfCourse(Block):
    """What knows its course: the folder of its solutions and oracles, and its GPU."""

    _reference: Path | None = pydantic.PrivateAttr(None)
    _gpu: str = pydantic.PrivateAttr("")

    @property
    def reference(self) -> Path:
        """The folder of its oracle and its solutions: its course's, or the default course's."""
        return self._reference or REFERENCE

    @property
    def gpu(self) -> str:
        """Its course's GPU, such as A100; "" where none is set."""
        return self._gpu

    def belongs_to(self, reference: Path | None, gpu: str = "") -> None:
        """Take oracle and solutions from this folder, or the default course's; set the GPU.

        The variants of an exercise do the same.
        """
        self._reference, self._gpu = reference, gpu
        variants: Mapping[str, _OfCourse] = getattr(self, "variants", {})
        for variant in variants.values():
            variant.belongs_to(reference, gpu)


class Variant(_OfCourse):
    """One thing to implement: a function `entry` of one file of the submission.

    `points` maps size classes, `performance` and `memory` to points. `arguments` names arguments
    and sizes in call order; None means the exercise's own. `layout` has the tensor layouts that the
    variant is called with; None means all of them. `tolerance` and `limits`, where given, are
    complete: the exercise fills their gaps. The points of a `bonus` count in a score, and in no
    maximum. A CUDA variant may have an entry for each dtype: `entries`, of which `entry` is the
    first.
    """

    name: Label
    file: File
    entry: Entry
    entries: Entries = pydantic.Field(default_factory=dict, alias="entry")
    dtypes: Annotated[tuple[Dtype, ...], BeforeValidator(nonempty_list)]
    points: Annotated[dict[str, Points], BeforeValidator(filled)]
    bonus: YesOrNo = False
    arguments: Annotated[tuple[str, ...], BeforeValidator(nonempty_list)] | None = None
    layout: Layouts | None = None
    tolerance: Tolerance | None = None
    limits: Limits | None = None
    policy: Policy = Policy()
    performance: Performance | None = None
    memory: Memory | None = None
    compile: Compile = Compile()

    def of_dtype(self, dtype: str) -> Variant:
        """The variant with the entry of a dtype; the same one where all dtypes have one entry."""
        if dtype not in self.entries:
            return self
        narrow = {"entry": self.entries[dtype], "entries": {}, "dtypes": (dtype,)}
        return self.model_copy(update=narrow)

    @property
    def all_entries(self) -> tuple[str, ...]:
        """Its entries, in the order of the spec: one, or one for each dtype."""
        return tuple(self.entries.values()) or (self.entry,)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of a submission that it is made of; `file` is the first."""
        return (self.file, *self.compile.files)

    @property
    def language(self) -> Literal["triton", "cuda", "answers"]:
        if self.file == ANSWERS:
            return "answers"
        return "triton" if self.file.endswith(".py") else "cuda"

    @property
    def timed(self) -> Performance:
        """Its performance block. Raises ValueError where it has none."""
        if self.performance is None:
            raise ValueError(f"expected a variant that is timed, got {self.name}")
        return self.performance

    @property
    def is_graded_on_speed(self) -> bool:
        """Whether a grade times it; `grader bench` also times what has a case and no points."""
        return self.performance is not None and bool(self.performance.thresholds)

    def on(self, device: str) -> Variant:
        """The variant with the thresholds that it has on a device: see Performance.on."""
        if self.performance is None or not self.performance.by_gpu:
            return self
        return self.model_copy(update={"performance": self.performance.on(device)})

    @property
    def counted(self) -> Memory:
        """Its memory block. Raises ValueError where it has none."""
        if self.memory is None:
            raise ValueError(f"expected a variant with memory targets, got {self.name}")
        return self.memory

    @property
    def max_points(self) -> float:
        """All points of the variant, also of a bonus."""
        return math.fsum(self.points.values())

    @property
    def size_classes(self) -> tuple[str, ...]:
        """The size classes that give points, in the order of `sizes`."""
        return tuple(
            key for key in self.points if key not in ("performance", "memory", PREDICTIONS)
        )


class Exercise(_OfCourse):
    """A kernel task from its spec; `name` is the stem of the file.

    `sizes` maps a size class to its alternatives: a case follows the rules of one of them, and its
    sizes meet every relation of `where`. `derived` names numbers that follow from sizes; a formula
    may use them as it does sizes. `oracle` names the function of reference/oracles.py that computes
    the right result. `launches_at` maps size classes to sizes at which the entry's launches must be
    possible, too: they are planned, no kernel runs, and a launch beyond the GPU's limits, or none,
    or host code that raises, is a failure of the class. `predictions` are questions that a student
    answers in answers.yaml.
    """

    name: Label
    title: str
    summary: str = ""
    oracle: Identifier = ""
    arguments: Annotated[tuple[Argument, ...], BeforeValidator(nonempty_list)]
    sizes: Annotated[dict[ClassLabel, SizeClass], BeforeValidator(filled)]
    launches_at: dict[ClassLabel, PlannedSizes] = pydantic.Field(default_factory=dict)
    where: tuple[Relation, ...] = ()
    derived: dict[Name, Formula] = pydantic.Field(default_factory=dict)
    data: Annotated[
        tuple[Annotated[Pattern, one_of(get_args(Pattern))], ...], BeforeValidator(nonempty_list)
    ] = ("normal",)
    tolerance: Tolerance = Tolerance()
    limits: Limits = Limits()
    policy: Policy = Policy()
    moves_data: YesOrNo = False
    variants: Annotated[dict[str, Variant], BeforeValidator(filled)]
    predictions: Predictions | None = None

    @pydantic.model_validator(mode="after")
    def _finish(self) -> Exercise:
        mistakes = list(derived_mistakes(self))
        if not mistakes and self.derived:
            _write_out_derived(self)
        mistakes = mistakes or list(across(self)) or list(impossible_cases(self))
        if mistakes:
            raise refusals(mistakes)
        if not self.oracle:
            object.__setattr__(self, "oracle", self.name)
        resolved = {name: _resolved(variant, self) for name, variant in self.variants.items()}
        object.__setattr__(self, "variants", resolved)
        return self

    @property
    def graded(self) -> Mapping[str, Variant]:
        """All that a submission is graded on: the variants, and the answers to `predictions`."""
        if self.predictions is None:
            return self.variants
        first = next(iter(self.variants.values()))
        answers = Variant.model_construct(
            name=PREDICTIONS,
            file=ANSWERS,
            entry=PREDICTIONS,
            dtypes=first.dtypes[:1],
            points={PREDICTIONS: self.predictions.points},
            bonus=True,
        )
        return {**self.variants, PREDICTIONS: answers}

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The arguments that are tensors."""
        return tuple(each for each in self.arguments if isinstance(each, Tensor))

    @property
    def sizes_names(self) -> tuple[str, ...]:
        """The names of the sizes, which are the same in every class."""
        first = next(iter(self.sizes.values()))
        return tuple(first[0])

    @property
    def numbers_names(self) -> tuple[str, ...]:
        """The names of the sizes, and of what is derived from them."""
        return (*self.sizes_names, *self.derived)

    @property
    def max_points(self) -> float:
        """The points of all variants except bonuses."""
        return math.fsum(each.max_points for each in self.variants.values() if not each.bonus)

    @property
    def max_bonus(self) -> float:
        return math.fsum(each.max_points for each in self.graded.values() if each.bonus)

    def rules_of(self, size: str) -> list[SizeRule]:
        """The rules that the classes have for one size."""
        return [rules[size] for classes in self.sizes.values() for rules in classes]

    def signature(self, variant: Variant) -> tuple[Tensor | Scalar | Size, ...]:
        """The arguments of the variant's entry, in call order."""
        arguments = [_laid_out(argument, variant) for argument in self.arguments]
        if variant.arguments is None:
            return tuple(arguments)
        by_name: dict[str, Tensor | Scalar | Size] = {
            **{name: Size(name=name) for name in self.sizes_names},
            **{name: Size(name=name, formula=each) for name, each in self.derived.items()},
            **{argument.name: argument for argument in arguments},
        }
        return tuple(by_name[name] for name in variant.arguments)

    def inputs(self, variant: Variant) -> tuple[Tensor, ...]:
        """The tensors that the variant reads, in call order, including inouts."""
        given = self.signature(variant)
        return tuple(each for each in given if isinstance(each, Tensor) and each.is_input)

    def outputs(self, variant: Variant) -> tuple[Tensor, ...]:
        """The tensors that the variant writes, in call order, including inouts."""
        given = self.signature(variant)
        return tuple(each for each in given if isinstance(each, Tensor) and each.is_output)

    def leading_input(self, variant: Variant, dtype: str) -> str:
        """The input that a case's `data` is about: the first of floats without `values`, or ""."""
        leading = (
            each.name
            for each in self.inputs(variant)
            if each.values is None and each.concrete_dtype(dtype) in FLOATS
        )
        return next(leading, "")

    def numbers(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """A case's sizes, and the numbers derived from them."""
        return {**sizes, **{n: derived_size(each, sizes) for n, each in self.derived.items()}}

    def tolerance_of(self, variant: Variant) -> Tolerance:
        return variant.tolerance or self.tolerance


def _write_out_derived(exercise: Exercise) -> None:
    """Replace derived numbers in every formula by what they stand for, in sizes."""
    definitions: dict[str, Formula] = {}
    for name, formula in exercise.derived.items():  # each may use those before it
        definitions[name] = formula.with_definitions(definitions)
    for name in type(exercise).model_fields:
        changed = _with_definitions(getattr(exercise, name), definitions)
        object.__setattr__(exercise, name, definitions if name == "derived" else changed)


def _with_definitions(value: Any, definitions: Mapping[str, Formula]) -> Any:
    """A part of a spec with the definitions written out in its formulas; their texts stay."""
    if isinstance(value, (Formula, Relation)):
        return value.with_definitions(definitions)
    if isinstance(value, Block):
        fields = dict(value)
        changed = {name: _with_definitions(each, definitions) for name, each in fields.items()}
        different = {name: each for name, each in changed.items() if each is not fields[name]}
        return value.model_copy(update=different) if different else value
    if isinstance(value, tuple):
        items = tuple(_with_definitions(each, definitions) for each in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, Mapping):
        entries = {key: _with_definitions(each, definitions) for key, each in value.items()}
        return value if all(entries[key] is value[key] for key in entries) else entries
    return value


def _resolved(variant: Variant, exercise: Exercise) -> Variant:
    """The variant with the gaps of its overrides filled, and its points in spec order."""
    points = {key: variant.points[key] for key in point_keys(exercise) if key in variant.points}
    update: dict[str, Any] = {"points": points}
    if variant.tolerance is not None:
        update["tolerance"] = exercise.tolerance.overridden_by(variant.tolerance)
    if variant.limits is not None:
        update["limits"] = exercise.limits.overridden_by(variant.limits)
    return variant.model_copy(update=update)


def weighted(exercise: Exercise, weight: float) -> Exercise:
    """The exercise with all its points multiplied, those of thresholds too."""

    def of(thresholds: Iterable[Threshold]) -> tuple[Threshold, ...]:
        return tuple(t.model_copy(update={"points": t.points * weight}) for t in thresholds)

    variants = {}
    for name, variant in exercise.variants.items():
        update: dict[str, Any] = {
            "points": {key: points * weight for key, points in variant.points.items()}
        }
        if (timed := variant.performance) is not None:
            by_gpu = {gpu: of(each) for gpu, each in timed.by_gpu.items()}
            more = {"thresholds": of(timed.thresholds), "by_gpu": by_gpu}
            update["performance"] = timed.model_copy(update=more)
        variants[name] = variant.model_copy(update=update)
    return exercise.model_copy(update={"variants": variants})


def _laid_out(argument: Argument, variant: Variant) -> Argument:
    """The argument with the layouts that the variant is called with."""
    if not isinstance(argument, Tensor) or variant.layout is None:
        return argument
    kept = tuple(layout for layout in argument.layout if layout in variant.layout)
    return argument if kept == argument.layout else argument.model_copy(update={"layout": kept})


def load(path: Path) -> Exercise:
    """Read one spec. Raises SpecError, with a line for every mistake."""
    path = Path(path)
    document = read_document(path)
    mistakes = _name_after_keys(document.data, path.stem)
    if mistakes:
        raise document.report(mistakes)
    return document.as_a(Exercise)


def _name_after_keys(data: dict[str, Any], stem: str) -> list[Mistake]:
    """Name the exercise by its file's stem and variants by their keys."""
    mistakes = []
    if "name" in data:
        mistakes.append(Mistake(("name",), "expected no name: an exercise is named by its file"))
    data["name"] = stem
    variants = data.get("variants")
    for key, variant in variants.items() if isinstance(variants, dict) else ():
        if isinstance(variant, dict):
            if "name" in variant:
                path = ("variants", key, "name")
                mistakes.append(Mistake(path, "expected no name: a variant is named by its key"))
            variant["name"] = key
    return mistakes


def load_folder(folder: Path) -> dict[str, Exercise]:
    """Read every spec of a folder, by name, in the order of the alphabet.

    Raises SpecError with the mistakes of all files, and the exercises of those that are right.
    """
    folder = Path(folder)
    exercises: dict[str, Exercise] = {}
    mistakes: list[str] = []
    if not folder.is_dir():
        raise SpecError([f"{folder}: expected a folder of specs, there is none"])
    for path in sorted(folder.iterdir()):
        if path.suffix == ".yml":
            mistakes.append(f"{path.name}: expected a name ending in .yaml")
        if path.suffix != ".yaml":
            continue
        try:
            exercises[path.stem] = load(path)
        except SpecError as error:
            mistakes.extend(error.mistakes)
    for name, conflict in list(name_conflicts(exercises)):
        del exercises[name]
        mistakes.append(conflict)
    for name, place in list(_compile_conflicts(exercises)):
        del exercises[name]
        wrong = Mistake(place, "expected the same as an earlier variant of this file has")
        mistakes.extend(read_document(folder / f"{name}.yaml").report([wrong]).mistakes)
    if not exercises and not mistakes:
        mistakes.append(f"{folder}: expected at least one .yaml file, got none")
    if mistakes:
        raise SpecError(mistakes, exercises)
    return exercises


def _compile_conflicts(exercises: Mapping[str, Exercise]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Exercises with a file that is compiled in another way than before, and the place."""
    first: dict[str, Compile] = {}
    for name, exercise in exercises.items():
        for key, variant in exercise.variants.items():
            if first.setdefault(variant.file, variant.compile) != variant.compile:
                yield name, ("variants", key, "compile")
                break


def name_conflicts(exercises: Mapping[str, Exercise]) -> Iterator[tuple[str, str]]:
    """Exercises named by a word that `pytest -k` selects other tests by, with the mistake."""
    for name in exercises:
        words = dict.fromkeys((*SURROUNDINGS, *ITEMSIZE), "a word in the names of tests")
        for other, exercise in exercises.items():
            if other != name:
                words.update(dict.fromkeys(exercise.sizes, f"a size class of {other}.yaml"))
                words.update(dict.fromkeys(exercise.variants, f"a variant of {other}.yaml"))
        if kind := words.get(name):
            yield (
                name,
                f"{name}.yaml: expected another file name: {name!r} is {kind}, and "
                f"pytest -k {name} would mean both",
            )


# Ladders: the variants v0 to v4 of an exercise, each of which asks for one improvement more.
_RUNG = re.compile(r"(?P<ladder>\w+)_v(?P<number>\d+)")


def rung_of(variant: str) -> tuple[str, int] | None:
    """`triton_v3` is rung 3 of the ladder `triton`; None for what is on no ladder."""
    match = _RUNG.fullmatch(variant)
    return (match["ladder"], int(match["number"])) if match else None


def on_one_case(rungs: Sequence[Variant]) -> list[Variant]:
    """Rungs, each with the first performance case of the highest, in a dtype that all of them take.

    Empty where no dtype is common to all. The last of the rungs with a performance block is the
    highest.
    """
    [*_, top] = (each for each in rungs if each.performance is not None)
    case = dict(top.timed.every_case[0])
    shared = [dtype for dtype in top.dtypes if all(dtype in each.dtypes for each in rungs)]
    if not shared:
        return []
    case["dtype"] = case.get("dtype") if case.get("dtype") in shared else shared[0]
    performance = top.timed.model_copy(update={"case": case, "cases": None})
    return [each.model_copy(update={"performance": performance}) for each in rungs]
