"""Takes a calibration's timings by the clock, and writes the proposed thresholds into the specs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path as FilePath
from typing import Any

import yaml

from grader.evidence import PerformanceEvidence
from grader.executors.registry import RunnerOptions, Runners
from grader.gpu import machine, measured_roofs, nvml
from grader.gpu.devices import DeviceName
from grader.gpu.roofline import Roofs
from grader.gpu.state import GpuState
from grader.grading.session import PUBLIC_SEED, selected
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.spec import EXERCISES, Course, Exercise, SpecError, Variant, load
from grader.spec.document import read_document
from grader.spec.task import Task
from grader.staff.calibration import corpus, readings
from grader.staff.calibration.lint import lint
from grader.staff.calibration.proposals import Proposal, propose
from grader.staff.calibration.readings import CalibrationError, Measure, Readings
from grader.timing.attempt import Options
from grader.timing.failures import TimingFailed
from grader.timing.submission import as_timed
from grader.timing.timed_variant import measure, trusted_sandbox


def lint_lines(
    exercises: Mapping[str, Exercise],
    taken: Readings,
    folder: FilePath = EXERCISES,
    course: Course | None = None,
) -> list[str]:
    """Mistakes as lines: file, line, key, what was expected, what came."""
    slow = [*corpus.load("wrong", course=course), *corpus.load("wrong", "cuda", course)]
    lines: list[str] = []
    names = [each.exercise for each in taken.variants]
    for name in dict.fromkeys([*names, *(each.exercise for each in taken.ladders)]):
        exercise = exercises[name]
        known = {
            variant.name: [s.name for s in readings.slow_submissions(exercise, variant, slow)]
            for variant in exercise.variants.values()
        }
        mistakes = lint(exercise, taken, known)
        if mistakes:
            lines += read_document(folder / f"{name}.yaml").report(mistakes).mistakes
    return lines


def written(
    exercises: Mapping[str, Exercise], taken: Readings, folder: FilePath = EXERCISES
) -> list[FilePath]:
    """Put the proposed numbers and the GPU's name into the specs; returns those that changed.

    All of them or none. Raises CalibrationError where one can't be edited, or would be refused.
    """
    made: dict[FilePath, str] = {}
    for name in dict.fromkeys(each.exercise for each in taken.variants):
        path = folder / f"{name}.yaml"
        before = path.read_text(encoding="utf-8")
        after = changed(before, _values(exercises[name], taken), path.name)
        _expect_accepted(path.name, after)
        if after != before:
            made[path] = after
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return list(made)


def _values(exercise: Exercise, taken: Readings) -> dict[Path, float | str]:
    values: dict[Path, float | str] = {}
    for each in taken.variants:
        if each.exercise != exercise.name:
            continue
        variant = exercise.variants[each.variant]
        place = ("variants", variant.name, "performance")
        proposals = propose(variant, each)
        for proposal in proposals:
            values |= _numbers((*place, "thresholds", proposal.index), proposal)
        if any(proposal.at_least is not None for proposal in proposals):
            values |= {(*place, "device"): taken.device}
    return values


def _numbers(place: Path, proposal: Proposal) -> dict[Path, float]:
    numbers = {
        (*place, "at_least"): proposal.at_least,
        (*place, "from"): proposal.from_,
        (*place, "milliseconds", "at_most"): proposal.at_most,
    }
    return {path: value for path, value in numbers.items() if value is not None}


def _expect_accepted(name: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = FilePath(folder) / name
        path.write_text(text, encoding="utf-8")
        try:
            load(path)
        except SpecError as error:
            raise CalibrationError(f"not written, the spec would be refused:\n{error}") from None


def of_these(taken: Readings, exercises: Mapping[str, Exercise], names: list[str]) -> Readings:
    """The readings that were asked for, of variants that the specs have."""
    chosen = selected(exercises, names)
    kept = {(each.exercise.name, each.variant.name) for each in chosen}
    timed = {(e.exercise.name, e.variant.name) for e in chosen if e.variant.is_graded_on_speed}
    variants = (each for each in taken.variants if (each.exercise, each.variant) in timed)
    ladders = (e for e in taken.ladders if {(e.exercise, name) for name in e.rungs} & kept)
    return Readings(taken.device, tuple(variants), tuple(ladders))


@contextmanager
def clock(device: DeviceName = "cuda") -> Iterator[Measure]:
    """The clock, over files that the staff wrote."""
    kept = _kept_roofs()
    plans = Sandbox("interpreter", Level.limits, kind="plans")
    with plans, trusted_sandbox(device) as trusted:

        def timer(exercise: Exercise, variant: Variant, source: bytes) -> PerformanceEvidence:
            runners = Runners(
                {exercise.name: exercise},
                plans,
                device,
                lambda _: source,
                lambda _: False,
                RunnerOptions(level=Level.limits),
            )
            with closing(runners):
                try:
                    candidate = as_timed(runners, Task(exercise, variant))
                except TimingFailed as failed:
                    return PerformanceEvidence(failed.status, str(failed))
                return measure(candidate, PUBLIC_SEED, trusted=trusted, options=Options(roofs=kept))

        yield timer


def _kept_roofs() -> Roofs | None:
    """The roofs that `grader doctor --gpu` has measured and stored, if it has."""
    gpu = machine.gpu_properties()
    state = nvml.observe(gpu.uuid or None) if gpu else None
    if gpu is None or not isinstance(state, GpuState):
        return None
    identity = measured_roofs.Identity(gpu.uuid or gpu.name, state.driver, gpu.name)
    measured = measured_roofs.load(identity)
    return measured.roofs() if measured else None


# --- numbers of a spec, changed in place ----------------------------------------------------------

# Numbers of a spec changed in place: every other letter stays, comments and spaces too.
#
# PyYAML says where each value begins and ends in the text; what is written there is exchanged, and
# the result is read again to see that it says what was meant and nothing else has changed.

Path = tuple[str | int, ...]


def changed(text: str, values: Mapping[Path, float | str], source: str = "spec") -> str:
    """The YAML `text` with other values at some places.

    A place that isn't there must be a key of a mapping in block style; it is put in front of the
    mapping's last key. Raises CalibrationError where a place has no single value, or where the
    change would reach further than that place.
    """
    root = _composed(text, source)
    edits: list[tuple[int, int, str]] = []
    for path, value in values.items():
        node = _at(root, path)
        if node is None:
            edits.append(_inserted(text, root, path, _written(value), source))
        elif isinstance(node, yaml.ScalarNode):
            edits.append((node.start_mark.index, node.end_mark.index, _written(value)))
        else:
            raise CalibrationError(f"{source}: {_shown(path)}: expected one value")
    for start, end, written in sorted(edits, reverse=True):
        text = text[:start] + written + text[end:]
    _expect_meant(_composed(text, source), root, values, source)
    return text


def _composed(text: str, source: str) -> yaml.Node:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        raise CalibrationError(f"{source}: expected a spec, got an empty file")
    return root


def _at(node: yaml.Node | None, path: Path) -> yaml.Node | None:
    for step in path:
        node = _child(node, step)
    return node


def _child(node: yaml.Node | None, step: str | int) -> yaml.Node | None:
    known: Mapping[str | int, yaml.Node] = {}
    if isinstance(node, yaml.MappingNode):
        known = {key.value: value for key, value in node.value}
    elif isinstance(node, yaml.SequenceNode):
        known = dict(enumerate(node.value))
    return known.get(step)


def _inserted(
    text: str, root: yaml.Node, path: Path, written: str, source: str
) -> tuple[int, int, str]:
    around = _at(root, path[:-1])
    if not isinstance(around, yaml.MappingNode) or around.flow_style or not around.value:
        raise CalibrationError(f"{source}: {_shown(path)}: expected a place for it, found none")
    last, _ = around.value[-1]
    indent = " " * last.start_mark.column
    line = text.rfind("\n", 0, last.start_mark.index) + 1
    return line, line, f"{indent}{path[-1]}: {written}\n"


def _written(value: float | str) -> str:
    if isinstance(value, str):
        dumped = yaml.safe_dump(value, width=1000).strip()
        return dumped.removesuffix("\n...").strip()
    return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"


def _expect_meant(
    now: yaml.Node, before: yaml.Node, values: Mapping[Path, float | str], source: str
) -> None:
    # By way of JSON, in which nothing is shared: a change stays where it was made.
    wanted = json.loads(json.dumps(_data(before)))
    for path, value in values.items():
        place = wanted
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
    if _data(now) != wanted:
        paths = ", ".join(map(_shown, values))
        raise CalibrationError(
            f"{source}: {paths}: expected values that stand nowhere else; are there aliases? "
            "Write them by hand"
        )


def _data(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _shown(path: Path) -> str:
    return ".".join(map(str, path))
