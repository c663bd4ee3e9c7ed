"""nvcc's host code asks for the same as the emulator's: on features, on entries, on solutions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from grader import spec
from grader.cases import Space, arena, fixed_case, inputs
from grader.executors.answers import unanswered
from grader.executors.cuda import cuda_build
from grader.executors.cuda.native_planner import NativePlanner
from grader.plan import Plan
from grader.sandbox import Sandbox
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Argument, DType, Kind
from tests.support import emulator_features
from tests.support.nvcc_plans import (
    NEEDS_NVCC,
    Both,
    comparable,
    entries_of,
    lines,
    names_are_the_cubins,
    symbols_of,
)
from tests.support.sampling import sampled_by

pytestmark = NEEDS_NVCC
ROOT = Path(__file__).resolve().parents[4]
PLANS = ROOT / "tests" / "grader" / "emulator" / "planner" / "plans.cu"
NOT_HERE = ("#include <cublas_v2.h>", "#include <cuda_fp8.h>")  # of libraries that nvcc may lack
SPECS = spec.load_all()
MOST_LINES = 3  # of one statement
# By what host code does: kernels' own features make no difference.
ABOUT_HOST_CODE = ("Language", "Runtime", "Cooperative groups")
# Of deduced parameters the emulator knows no default: it passes fewer bytes. The others are about
# device code: their hosts launch one kernel, as others do.
LEFT_OUT = (
    "language_templates",
    "language_inline_assembly",
    "language_local_memory",
    "language_qualifiers",
    "language_static_shared",
    "groups_blocks",
    "groups_coalesced",
    "groups_grid",
    "groups_tiles",
)
FEATURES = sampled_by(
    [
        pytest.param(each, id=each.path.stem)
        for each in emulator_features.features()
        if each.area in ABOUT_HOST_CODE and each.path.stem not in LEFT_OUT
    ],
    lambda values: values[0].area,
)


def tensor(dtype: DType, count: int) -> Argument:
    return Argument(Kind.tensor, dtype, shape=(count,), strides=(1,), buffer=9)


def assert_same(emulated: Plan | None, by_nvcc: Plan | None) -> None:
    assert emulated is not None and by_nvcc is not None
    assert comparable(by_nvcc) == comparable(emulated)
    pairs = zip(lines(by_nvcc), lines(emulated), strict=True)
    assert all(abs(ours - theirs) <= MOST_LINES for ours, theirs in pairs)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_is_planned_the_same(feature: emulator_features.Feature, tmp_path: Path) -> None:
    both = Both.of(feature.path, {"feature": ["pointer:int32", "int"]}, tmp_path)
    count = 64
    given = [tensor(DType.int32, count), Argument(Kind.int64, scalar=count)]
    emulated, by_nvcc = both.plans("feature", given)
    assert by_nvcc.code is emulated.code, by_nvcc.text
    assert_same(emulated.plan, by_nvcc.plan)
    assert by_nvcc.plan is not None and names_are_the_cubins(both.by_nvcc, by_nvcc.plan)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("both")
    text = PLANS.read_text()
    for each in NOT_HERE:
        text = text.replace(each, "")
    source = folder / "plans.cu"
    source.write_text(text)
    entries = {
        name: ["int" if each == "int n" else "pointer:float32" for each in parameters]
        for name, parameters in entries_of(text).items()
    }
    both = Both.of(source, entries, folder)
    assert not both.by_nvcc.problems, both.by_nvcc.problems
    return both


PARAMETERS = entries_of(PLANS.read_text())


def given(parameters: Sequence[str]) -> list[Argument]:
    count = 256
    number = Argument(Kind.int64, scalar=count)
    return [number if each == "int n" else tensor(DType.float32, count) for each in parameters]


# A kernel of which the emulator knows each launch by a name of its own, or with its own words.
ONE_FOR_NVCC = ("kept_between_calls", "streams", "too_many_threads", "waits_of_the_host")


@pytest.mark.parametrize("entry", PARAMETERS)
def test_an_entry_is_planned_the_same(plans: Both, entry: str) -> None:
    emulated, by_nvcc = plans.plans(entry, given(PARAMETERS[entry]))
    assert by_nvcc.code is emulated.code, by_nvcc.text
    if emulated.plan is None or entry in ONE_FOR_NVCC:
        assert (by_nvcc.plan is None) == (emulated.plan is None)
    else:
        assert_same(emulated.plan, by_nvcc.plan)
    kinds = [
        [each.kind for each in (said.report.findings if said.report else ())]
        for said in (emulated, by_nvcc)
    ]
    assert kinds[0] == kinds[1]
    if entry in ONE_FOR_NVCC:
        verbs = [[step.do for step in said.plan.calls[0]] for said in (emulated, by_nvcc)]
        assert verbs[0] == verbs[1]
        assert len(by_nvcc.plan.specialisations) == 1


def test_a_refused_launch_whose_error_was_taken_is_told_by_both(plans: Both) -> None:
    case = fixed_case(Task(SPECS["silu"], SPECS["silu"].variants["cuda"]), {"n": 256}, 7)
    for said in plans.plans("takes_the_error", given(PARAMETERS["takes_the_error"])):
        assert said.plan is not None
        told = unanswered(case, said.plan)
        assert told is not None and told.status is Status.launch_error


def solutions() -> dict[Path, list[Task]]:
    """The variants of each file of solutions."""
    tasks: dict[Path, list[Task]] = {}
    for exercise in SPECS.values():
        for variant in exercise.variants.values():
            for folder in (ROOT / "reference", ROOT / "reference" / "expert"):
                path = folder / variant.file
                if variant.language == "cuda" and path.exists():
                    tasks.setdefault(path, []).append(Task(exercise, variant))
    return tasks


SOLUTIONS = solutions()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    cuda_build.prepare()
    cuda_build.prepare_planner()
    with Sandbox("emulator", kind="native") as opened:
        opened.start()
        yield opened


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: f"{path.parent.name}_{path.stem}")
def test_a_files_solutions_are_planned_the_same(sandbox: Sandbox, path: Path) -> None:
    data = path.read_bytes()
    tasks = SOLUTIONS[path]
    entries = cuda_build.called([(each.exercise, each.variant) for each in tasks])
    programs = [
        cuda_build.build(sandbox, path.name, data, entries, backend)
        for backend in ("emulator", "gpu")
    ]
    held = sandbox.hold(path.name, data)
    for task in tasks:
        exercise, variant = task.exercise, task.variant
        size = next(iter(exercise.sizes))
        case = Space(Task(exercise, variant), variant.dtypes[0], size, seed=5).edges()[-1]
        arguments = inputs.blank(Task(exercise, variant), case)
        given = arguments.arguments(arena.described(arguments.slots))
        found: list[Any] = []
        for program in programs:
            with contextlib.closing(NativePlanner(sandbox, task, held, program)) as plans:
                found.append(plans.plan_of(case, given))
                assert plans.planned_report is None
        emulated, by_nvcc = found
        assert isinstance(by_nvcc, Plan), by_nvcc
        assert_same(emulated, by_nvcc)
        names = {each.kernel for each in by_nvcc.specialisations}
        assert names <= symbols_of(programs[1].executor)
