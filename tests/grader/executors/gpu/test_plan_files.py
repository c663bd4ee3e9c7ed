"""Plans that travel: what is planned on one machine is run and timed on another."""

from __future__ import annotations

import contextlib
import json
import random
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from grader import __version__
from grader import evidence as evidence_files
from grader.batch import tasks
from grader.cases import Space, arena, fixed_case, inputs
from grader.cli import app
from grader.evidence import PartEvidence, PerformanceEvidence
from grader.executors import gpu
from grader.executors.cuda import cuda_build
from grader.executors.gpu import bundle as bundles
from grader.executors.gpu.bundle import Bundle, BundleRunner, PlannedCase
from grader.executors.runner import CaseResult
from grader.gpu import locks, machine
from grader.grading import plan_files
from grader.grading.session import Options, Session, selected
from grader.mistakes import Mistake
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing.buffer_sets import Layout
from grader.timing.contenders import FromPlans
from grader.timing.failures import TimingFailed
from grader.timing.submission import Stopwatch
from grader.timing.timed_variant import cases_of
from grader.worker.protocol import Argument, Code, Reply
from tests.support.small_exercise import ROOT

EXERCISES = load_all()
REFERENCE = ROOT / "reference"
ONE = PlannedCase("n=1 dtype=float32 seed=2026", (0,))


def _made(*names: str) -> Bundle:
    with Session(REFERENCE, EXERCISES, Options(device="cpu")) as session:
        return plan_files.make(session, "reference", selected(EXERCISES, names))


@pytest.fixture(scope="module")
def silu() -> Bundle:
    return _made("silu/triton")


def _small(*cases: PlannedCase, documents: tuple[bytes, ...] = (b"\0document\xff",)) -> Bundle:
    """A bundle without a real kernel in it."""
    exercise = EXERCISES["silu"]
    part = bundles.PlannedPart("float32", "degenerate", cases or (ONE,))
    variant = bundles.PlannedVariant(
        "silu", "triton", "silu.py", "a" * 64, bundles.spec_hash(exercise), "", (part,)
    )
    return Bundle("reference", 2026, __version__, 90, {"triton": "3.6"}, (variant,), documents)


def _run(*words: str | Path):
    return CliRunner().invoke(app.app, [str(word) for word in words])


# --- what is planned ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "silu/triton",
        "rmsnorm/triton",
        "gemm/triton_v4",
        "transpose/triton_v4",
        "silu/cuda",
        "transpose/cuda_v2",
        "copy_first_column/cuda",
    ],
)
def test_the_file_has_the_documents_that_a_session_would_make(name: str):
    [task] = selected(EXERCISES, [name])
    exercise, variant = task.exercise, task.variant
    if variant.language == "cuda" and (reason := cuda_build.why_not("gpu")):
        pytest.skip(reason)
    made = _made(name)
    [planned] = made.variants
    with Session(REFERENCE, EXERCISES, Options(device="cpu")) as session:
        plans = session.runners.plans_of(task)
        for part in planned.parts:
            assert part.cases
            space = Space(Task(exercise, variant), part.dtype, part.size_class, session.seed)
            cases = {str(case): case for case in space.edges()}
            for each in part.cases[:2]:
                case = cases[each.case]
                values = inputs.make(Task(exercise, variant), case)
                size = arena.required_bytes(values.slots)
                with arena.Arena(size, size) as memory:  # as a runner places them
                    placed = memory.place(values.slots)
                    arguments = values.arguments([item.argument for item in placed])
                    found = plans.planned(case, arguments, memory.buffers)
                    assert not isinstance(found, CaseResult)
                    document = gpu.document(plans, case, found)
                    assert isinstance(document, bytes)
                [number] = each.documents
                assert _steps(document, task) == _steps(made.documents[number], task), each.case
        timed = cases_of(task, session.seed) if variant.is_graded_on_speed else []
        for each, case in list(zip(planned.timed, timed, strict=True))[:2]:
            assert each.case == str(case)
            arguments = Layout.of(Task(exercise, variant), case).arguments(0)
            documents = FromPlans(plans).documents(case, arguments)
            kept = [_steps(made.documents[number], task) for number in each.documents]
            assert [_steps(document, task) for document in documents] == kept


def _steps(document: bytes, task: Task) -> bytes:
    """A document; of CUDA C++ without its one cubin, which nvcc never makes the same twice."""
    modules, length = struct.unpack_from("<2I", document, 8)
    if task.variant.language == "triton" or not modules:
        return document
    assert document[16:].startswith(b"\x7fELF")
    return document[16 + length :]


def test_what_cannot_be_planned_says_why(tmp_path: Path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    source = (REFERENCE / "silu.py").read_text()
    (folder / "silu.py").write_text(source.replace("def silu(", "def silu_of_mine("))
    result = _run("plan", "silu", "--submission", folder, "--out", tmp_path / "f.plans")
    assert result.exit_code == 0, result.output
    told = " ".join(result.output.split())
    assert "silu/triton: 0 cases to run, 0 to time" in told and "silu_of_mine" in told
    assert "silu/cuda: not attempted" in told
    made = bundles.read(tmp_path / "f.plans")
    failed = made.variants[0].parts[0].cases[0]
    assert failed.status.is_failure and failed.what and not failed.documents


def test_another_capability_may_be_planned_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "_compiled_for", None)
    out = tmp_path / "f.plans"
    result = _run("plan", "silu/triton", "--submission", REFERENCE, "--out", out, "--gpu", "80")
    assert result.exit_code == 0, result.output
    made = bundles.read(out)
    assert made.capability == 80 and all(each.documents for each in made.variants[0].timed)


@pytest.mark.parametrize(
    "words", [[], ["silu", "--gpu", "80"], ["silu", "--out", "f", "--case", "n=1"]]
)
def test_options_that_do_not_go_together_are_refused(words: list[str]):
    result = _run("plan", *words)
    assert result.exit_code == 2 and "expected" in result.output


def test_what_is_timed_travels_from_the_process_that_checks_it(silu: Bundle):
    [task] = selected(EXERCISES, ["silu/triton"])
    with Session(REFERENCE, EXERCISES, Options(device="cpu")) as session:
        data = plan_files.plans_to_time(session, task)
    given = task.variant.performance.every_case[0]
    case = fixed_case(task, given, 2026)
    documents = plan_files.documents_of(data).documents(case, ())
    assert documents == [silu.documents[n] for n in silu.variants[0].timed[0].documents]
    other = replace(case, seed=7)
    with pytest.raises(TimingFailed, match="no plan of this case"):
        plan_files.documents_of(data).documents(other, ())


def test_a_class_is_planned_while_it_is_checked(without_a_gpu: dict, monkeypatch):
    """So that a GPU that is held alone doesn't wait for compilers."""
    part = PartEvidence("float32", "ragged", Status.passed)
    monkeypatch.setattr(tasks, "_check_is_the_same_grader", lambda task: None)
    monkeypatch.setattr(
        tasks, "check", lambda session, of, _: replace(session.blank_evidence(of), parts=(part,))
    )
    files = {"silu.py": (REFERENCE / "silu.py").read_bytes()}
    wanted = tasks.Wanted("silu", "triton", "key")
    task = tasks.HandinTask(files, (wanted,), EXERCISES, 2026, "a GPU", require_sandbox=False)
    [checked] = tasks.grade_files(task).results
    assert checked.to_measure and checked.planned
    monkeypatch.setattr(plan_files, "plans_to_time", lambda *_: pytest.fail("planned again"))
    again = replace(wanted, checked=checked.evidence, planned=checked.planned)
    [timed] = tasks.grade_files(replace(task, wanted=(again,))).results
    seen = evidence_files.variant_from_json(timed.evidence)
    assert seen.performance.microseconds == 1.0 and not timed.planned
    assert len(without_a_gpu["timed"]) == 2  # the spec's case, and one beside it


def test_a_case_with_more_code_than_fits_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plan_files, "MAX_DOCUMENT_BYTES", 1000)
    [planned] = _made("silu/triton").variants
    assert planned.timed[0].status is Status.not_measured and "room for" in planned.timed[0].what


# --- the file -------------------------------------------------------------------------------------


def test_a_bundle_comes_back_as_it_was_written(silu: Bundle, tmp_path: Path):
    path = tmp_path / "silu.plans"
    bundles.write(path, silu)
    assert bundles.read(path) == silu
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    bundles.expect_usable(silu, path, EXERCISES, machine.CAPABILITY)


def _fields(bundle: Bundle) -> dict:
    return json.loads(bundles._BUNDLE.dump_json(bundle))


def _write(path: Path, text: bytes, head: bytes = b"warpgrade plans 1\n") -> Path:
    path.write_bytes(head + zlib.compress(text))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.update(seed="1"), "seed: "),
        (lambda f: f.update(seed=10**400), "seed: "),
        (lambda f: f.update(capability=1e308), "capability: "),
        (lambda f: f.update(extra=1), "extra: "),
        (lambda f: f.pop("documents"), "documents: "),
        (lambda f: f.update(documents=["*"]), "documents.0: "),
        (lambda f: f.update(variants={}), "variants: "),
        (lambda f: f["variants"][0].update(sha256="A"), "variants.0.sha256: "),
        (lambda f: f["variants"][0]["parts"][0]["cases"][0].update(documents=[1]), "isn't in the"),
        (lambda f: f["variants"][0]["parts"][0]["cases"][0].update(documents=[-1]), "documents.0"),
        (lambda f: f["variants"][0]["parts"][0]["cases"][0].update(documents=[]), "why there is"),
        (lambda f: f["variants"][0]["parts"][0]["cases"][0].update(status="fine"), "status: "),
        (lambda f: f.update(submission="x" * 401), "submission: "),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, change, message: str):
    fields = _fields(_small())
    change(fields)
    path = _write(tmp_path / "f.plans", json.dumps(fields).encode())
    with pytest.raises(Mistake) as raised:
        bundles.read(path)
    assert str(raised.value).startswith(f"{path}: ") and message in str(raised.value)
    assert len(str(raised.value)) < len(str(path)) + 600


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a file that"),
        (b"PK\x03\x04", "expected a file that"),
        (b"warpgrade plans 2\nx", "version: expected 1, got 2"),
        (b"warpgrade plans \xff\x1b\n", "version: expected 1"),
        (b"warpgrade plans 1\nxyz", "damaged"),
        (b"warpgrade plans 1\n", "got a part of it"),
        (b"warpgrade plans 1\n" + zlib.compress(b"{}")[:-2], "got a part of it"),
        (b"warpgrade plans 1\n" + zlib.compress(b"{}") + b"x", "got more behind it"),
        (b"warpgrade plans 1\n" + zlib.compress(b"[" * 100_000), "top level: "),
        (b"warpgrade plans 1\n" + zlib.compress(b"\xff"), "top level: "),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, message: str):
    path = tmp_path / "f.plans"
    path.write_bytes(data)
    with pytest.raises(Mistake) as raised:
        bundles.read(path)
    assert str(raised.value).startswith(f"{path}: ") and message in str(raised.value)


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(bundles, "MAX_JSON_BYTES", 1 << 20)
    path = _write(tmp_path / "f.plans", b" " * (3 << 20))
    with pytest.raises(Mistake, match="at most 1 MiB of plans"):
        bundles.read(path)


def test_a_small_file_of_very_many_values_is_refused_before_they_are_made(tmp_path: Path):
    path = _write(tmp_path / "f.plans", b'{"documents": [' + b"[]," * bundles.MAX_VALUES + b"[]]}")
    assert path.stat().st_size < 1 << 16
    with pytest.raises(Mistake, match="at most 1,000,000 lists and fields"):
        bundles.read(path)


def test_a_variant_that_stands_in_a_file_twice_is_refused():
    """Each would be timed: a small file could keep a GPU busy for hours."""
    made = _small()
    bundles.expect_usable(made, Path("f.plans"), EXERCISES, 90)
    twice = replace(made, variants=made.variants * 2)
    with pytest.raises(Mistake, match="silu/triton: expected one plan of it, got another"):
        bundles.expect_usable(twice, Path("f.plans"), EXERCISES, 90)


def test_a_file_has_room_for_its_documents_and_for_few_cases_beside_them():
    documents = plan_files.MAX_BYTES * 4 // 3  # in base64
    assert documents + (16 << 20) < bundles.MAX_JSON_BYTES < 2 * documents


def test_no_mutation_of_a_file_gives_a_traceback(silu: Bundle, tmp_path: Path):
    path = tmp_path / "f.plans"
    bundles.write(path, replace(silu, documents=tuple(each[:99] for each in silu.documents)))
    whole = path.read_bytes()
    text = zlib.decompress(whole.partition(b"\n")[2])
    draw = random.Random(7)
    wrong = 0
    for turn in range(600):
        inside = turn % 2
        data = bytearray(text if inside else whole)
        for _ in range(draw.randint(1, 4)):
            first = draw.randrange(len(data))
            last = min(first + draw.choice((0, 1, 1, 8, 400)), len(data))
            data[first:last] = draw.choice(
                (b"", b"9" * 30, b"-1", b"null", b"[]", b'"', b"1e999", draw.randbytes(2))
            )
        _write(path, bytes(data)) if inside else path.write_bytes(data)
        try:
            bundles.expect_usable(bundles.read(path), path, EXERCISES, 90)
        except Mistake as error:
            wrong += 1
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
    assert wrong > 300


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"warpgrade": "0.0.1\x1b"}, "install the same on both machines"),
        ({"capability": 80}, "plan again with --gpu 90"),
        ({"exercise": "nothing"}, "nothing/triton: expected the spec .* got none"),
        ({"variant": "nothing"}, "silu/nothing: expected the spec .* got none"),
        ({"spec": "b" * 64}, "silu/triton: expected the spec .* got another"),
        ({"file": "../silu.py"}, "silu/triton: expected the spec .* got another"),
    ],
)
def test_what_is_not_for_this_machine_is_refused_by_name(changed: dict[str, Any], message: str):
    made = _small()
    if changed.keys() <= {"warpgrade", "capability"}:
        made = replace(made, **changed)
    else:
        made = replace(made, variants=(replace(made.variants[0], **changed),))
    with pytest.raises(Mistake, match=message) as raised:
        bundles.expect_usable(made, Path("f.plans"), EXERCISES, 90)
    assert "\x1b" not in str(raised.value)


# --- where the GPU is -----------------------------------------------------------------------------


def test_without_a_gpu_it_says_that_it_needs_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "gpu_name", lambda: None)
    bundles.write(tmp_path / "f.plans", _small())
    result = _run("run-plan", tmp_path / "f.plans")
    assert result.exit_code == 2
    assert "expected a machine with an NVIDIA GPU" in " ".join(result.output.split())


class _Silu:
    """An executor that has no GPU and knows one kernel."""

    def __init__(self, runner: BundleRunner, is_right: bool, seen: list[bytes]) -> None:
        self._arena, self._is_right, self._seen = runner._memory.arena, is_right, seen

    def ask(self, operation, arguments=(), document: bytes = b"", **_) -> Reply:
        self._seen.append(document)
        x, out = (self._view(each) for each in arguments)
        out.copy_((x.float() * torch.sigmoid(x.float())) if self._is_right else x)
        return Reply(0, Code.ok, "{}")

    def close(self) -> None:
        pass

    def _view(self, argument: Argument) -> torch.Tensor:
        memory = (self._arena.memory.inputs, self._arena.memory.outputs)[argument.buffer]
        typed = memory[argument.offset % 2 :].view(getattr(torch, argument.dtype.name))
        first = argument.offset // typed.dtype.itemsize
        return typed.as_strided(argument.shape, argument.strides, first)


@pytest.fixture
def without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict]:
    """`run` where executor and clock are ours; what they were given, and how they answer."""
    what: dict[str, Any] = {"is_right": True, "documents": [], "timed": []}

    def time(self, task, waiting=None, documents=None) -> PerformanceEvidence:
        for case in cases_of(task, 2026):
            try:
                what["timed"] += documents.documents(case, ())
            except TimingFailed as failed:
                return PerformanceEvidence(failed.status, str(failed))
        return PerformanceEvidence(Status.passed, microseconds=1.0)

    def start(self, count) -> None:
        self._worker = _Silu(self, what["is_right"], what["documents"])

    monkeypatch.setattr(BundleRunner, "_start", start)
    monkeypatch.setattr(Stopwatch, "time", time)
    monkeypatch.setattr(locks, "shared_on", lambda _: contextlib.nullcontext(lambda: None))
    yield what


def test_evidence_is_that_of_a_session_with_times(silu: Bundle, without_a_gpu: dict):
    seen = plan_files.run(silu, EXERCISES)
    assert evidence_files.from_json(evidence_files.to_json(seen)) == seen
    [variant] = seen.variants
    assert variant.correctness is Status.passed, variant
    assert [(p.dtype, p.size_class) for p in variant.parts] == [
        (p.dtype, p.size_class) for p in silu.variants[0].parts
    ]
    assert all(part.cases_run == 2 for part in variant.parts)
    assert variant.sha256 == silu.variants[0].sha256 and variant.performance.microseconds == 1.0
    assert without_a_gpu["timed"] == [
        silu.documents[n] for each in silu.variants[0].timed for n in each.documents
    ]
    assert set(without_a_gpu["documents"]) <= set(silu.documents)
    assert seen.complete and seen.environment["planned"]["capability"] == silu.capability


def test_wrong_results_are_told_and_not_timed(silu: Bundle, without_a_gpu: dict):
    without_a_gpu["is_right"] = False
    [variant] = plan_files.run(silu, EXERCISES).variants
    assert variant.correctness is Status.wrong_values and variant.performance is None
    assert variant.parts[0].failures[0].case in {c.case for c in silu.variants[0].parts[0].cases}


def test_why_there_was_no_plan_is_the_verdict(without_a_gpu: dict):
    why = PlannedCase(ONE.case, (), Status.launch_error, "a grid of none.\x1b", "hint", line=3)
    [variant] = plan_files.run(_small(why), EXERCISES).variants
    told = {part.size_class: part for part in variant.parts if part.dtype == "float32"}
    [failure] = told["degenerate"].failures
    assert failure.status is Status.launch_error and failure.where == "silu.py:3"
    assert failure.what.startswith("a grid of none.") and "\x1b" not in failure.what
    assert told["ragged"].status is Status.not_measured


def test_cases_that_are_none_of_the_part_are_not_run(without_a_gpu: dict):
    huge = PlannedCase("n=99999999999 dtype=float32 seed=2026", (0,))
    [variant] = plan_files.run(_small(huge), EXERCISES).variants
    assert {part.status for part in variant.parts} == {Status.not_measured}
    assert not without_a_gpu["documents"]


def test_a_part_whose_edges_are_left_out_is_not_passed(silu: Bundle, without_a_gpu: dict):
    [planned] = silu.variants
    fewer = [replace(part, cases=part.cases[:1]) for part in planned.parts]
    [variant] = plan_files.run(
        replace(silu, variants=(replace(planned, parts=tuple(fewer)),)), EXERCISES
    ).variants
    assert {part.status for part in variant.parts} == {Status.not_measured}
    assert all("the file lacks n=" in part.reason for part in variant.parts)
    assert variant.performance is None


def test_an_interrupt_leaves_what_was_done(silu: Bundle, without_a_gpu: dict):
    both = replace(silu, variants=silu.variants * 2)
    begun = []

    def interrupt(step) -> None:
        begun.append(step.part)
        if begun.count("timing") == 2:
            raise KeyboardInterrupt

    seen = plan_files.run(both, EXERCISES, interrupt)
    assert not seen.complete and seen.variants[0].performance is not None
    assert seen.variants[1].parts == ()


@pytest.mark.gpu
def test_a_file_of_the_solution_is_run_and_timed(tmp_path: Path):
    out, evidence = tmp_path / "silu.plans", tmp_path / "evidence.json"
    planned = _run("plan", "silu/triton", "--submission", REFERENCE, "--out", out)
    assert planned.exit_code == 0, planned.output
    result = _run("run-plan", out, "--evidence", evidence)
    assert result.exit_code == 0, result.output
    [variant] = evidence_files.read(evidence).variants
    assert variant.correctness is Status.passed
    assert variant.performance.status is Status.passed
    assert (variant.performance.microseconds or 0) > 0
