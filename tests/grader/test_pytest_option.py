"""What students see of pytest: the ids, what is skipped and why, and failures that teach."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import SimpleNamespace

import hypothesis.control
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from grader import spec
from grader.evidence import Baseline, PartEvidence, PerformanceEvidence, VariantEvidence
from grader.grading import search
from grader.pytest_option import by_whole_names, none_selected
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from tests import test_assignment
from tests.support import warm_python
from tests.support.children import SECONDS, wait_until
from tests.support.small_exercise import GRID_ROUNDS_DOWN, RIGHT, ROOT, STUB, submission

WIDTH = 60
EXERCISES = load_all()


def run(
    *words: object, cwd: Path = ROOT, width: int = WIDTH, path: Sequence[Path] = (ROOT,)
) -> subprocess.CompletedProcess[str]:
    """Run pytest as a student does, in the project's folder. Packages are found on `path`."""
    added = {"COLUMNS": str(width), "PYTHONPATH": os.pathsep.join(map(str, path))}
    return warm_python.run(["-m", "pytest", *words], cwd, {**os.environ, **added})


# Runs of pytest that only collect, in one process: what costs is importing torch.
RMSNORM, MEMORY = ("-q", "-k", "rmsnorm"), ("-q", "-k", "transpose and memory")
MISSPELT, IN_PART = ("-k", "rmsnrm"), ("-k", "rmsnorm or xyz")
IN_THE_ASSIGNMENT = ("-q", "-k", "rmsnorm-triton-memory")
COLLECT = """
import json, os, sys
import pytest
for folder, words in json.loads(sys.argv[1]):
    os.chdir(folder)
    status = pytest.main(["--collect-only", *words])
    print(f"\\n--- {int(status)}", flush=True)
"""


@pytest.fixture(scope="module")
def collected() -> dict[tuple[str, ...], tuple[int, str]]:
    """Exit status and output of `pytest --collect-only WORDS` in the project's folder."""
    words = [RMSNORM, MEMORY, MISSPELT, IN_PART, IN_THE_ASSIGNMENT]
    folders = [*[ROOT] * 4, ROOT / "assignment"]
    asked = json.dumps([[str(folder), each] for folder, each in zip(folders, words, strict=True)])
    environment = {**os.environ, "COLUMNS": "200", "PYTHONPATH": str(ROOT)}
    ran = warm_python.run(["-c", COLLECT, asked], ROOT, environment)
    statuses = [int(status) for status in re.findall(r"^--- (\d+)$", ran.stdout, re.M)]
    printed = re.split(r"^--- \d+$", ran.stdout, flags=re.M)[:-1]
    return dict(zip(words, zip(statuses, printed, strict=True), strict=True))


@pytest.fixture(scope="module")
def wrong(tmp_path_factory) -> Path:
    """A submission with a wrong SiLU and no RMSNorm."""
    return submission(tmp_path_factory.mktemp("wrong") / "ada lovelace", GRID_ROUNDS_DOWN)


@pytest.fixture(scope="module")
def failing(wrong) -> str:
    """What `make check` prints when a kernel is wrong."""
    words = ("tests/test_assignment.py", "--submission", wrong, "-k", "silu-triton-float16")
    ran = run(*words)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout


def test_ids_name_exercise_variant_dtype_and_size_class_and_k_picks_one_exercise(collected):
    _, listed = collected[RMSNORM]
    ids = re.findall(r"\[(.*)\]", listed)
    dtypes, classes = ("float32", "float16", "bfloat16"), ("aligned", "ragged", "degenerate")
    triton = [f"rmsnorm-triton-{dtype}-{name}" for dtype in dtypes for name in classes]
    triton += ["rmsnorm-triton-memory", "rmsnorm-triton-performance"]
    assert [each for each in ids if "-triton-" in each] == triton
    rows = [f"rmsnorm-cuda_vector-float32-{name}" for name in ("row_aligned", "row_ragged")]
    rows.append("rmsnorm-cuda_vector-memory")
    assert [each for each in ids if "-cuda_vector-" in each] == rows
    assert all(each.startswith("rmsnorm-") for each in ids)


def test_memory_has_a_test_of_its_own(collected):
    _, listed = collected[MEMORY]
    assert re.findall(r"\[(.*)\]", listed) == [
        f"transpose-{language}_v{i}-memory" for language in ("cuda", "triton") for i in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("rmsnrm", "no test has 'rmsnrm' in its name. Did you mean rmsnorm?"),
        ("RMSnrm or xyz", "no test has 'RMSnrm' in its name. Did you mean rmsnorm?"),
        ("silu and triton_v44", "no test has 'triton_v44' in its name. Did you mean triton_v4 or"),
        ("xyz", "no test has 'xyz' in its name. Exercises: gelu, silu, softmax, rmsnorm,"),
        ("silu and cuda_v1", "every word is in a test's name, but no test answers to it all."),
        ("rms-norm", "no test has 'rms-norm' in its name. Type: pytest -k rmsnorm"),
        ("Flash-Attention", "no test has 'Flash-Attention' in its name. Type: pytest -k flash_att"),
        ("fp16", "no test has 'fp16' in its name. Type: pytest -k float16"),
        (
            "(rms-norm or silu2) and not bf16",
            "no test has 'rms-norm' in its name. Did you mean rmsnorm?",
        ),
        (
            "rms-norm and bf16",
            "no test has 'rms-norm' in its name. Type: pytest -k 'rmsnorm and bfloat16'",
        ),
        (
            "softmax/online or gelu",
            "no test has 'softmax/online' in its name. Type: pytest -k '(softmax and "
            "online) or gelu'",
        ),
        ("speed", "no test has 'speed' in its name. Type: pytest -k performance"),
    ],
)
def test_a_k_that_selects_nothing_is_told_what_is_near_it(expression, told):
    names = [
        f"test_assignment[{name}-{variant}-{dtype}-aligned]"
        for name, exercise in load_all().items()
        for variant in exercise.variants
        for dtype in (*exercise.variants[variant].dtypes, "performance")
    ]
    assert none_selected(expression, names).startswith(f"-k {expression!r}: {told}")


@pytest.mark.parametrize(
    ("expression", "rewritten"),
    [
        ("gemm", "[gemm-"),
        ("GEMM and not float16", "[GEMM- and not float16"),
        ("(silu or batched_gemm) and ragged", "([silu- or [batched_gemm-) and ragged"),
        ("gem or my_gemm or gemm-triton", "gem or my_gemm or gemm-triton"),
    ],
)
def test_the_name_of_an_exercise_is_a_whole_word(expression, rewritten):
    assert by_whole_names(expression, ["silu", "gemm", "batched_gemm"]) == rewritten


def test_pytest_says_what_is_near_a_misspelt_k(collected):
    status, printed = collected[MISSPELT]
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "-k 'rmsnrm': no test has 'rmsnrm' in its name. Did you mean rmsnorm?" in printed


def test_a_k_that_selects_something_is_told_nothing(collected):
    status, printed = collected[IN_PART]
    assert status == 0 and "-k '" not in printed


def test_what_was_not_attempted_is_skipped_with_its_reason_shown(tmp_path):
    folder = submission(tmp_path / "sub", STUB)
    ran = run(f"--submission={folder}", width=200)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "SKIPPED [9]" in ran.stdout
    assert "silu/triton not attempted: silu() is still the stub" in ran.stdout
    assert "rmsnorm/triton not attempted: there is no rmsnorm.py" in ran.stdout
    assert "rmsnorm/cuda_matrix not attempted: there is no rmsnorm.cu" in ran.stdout
    assert re.search(r"=== \d+ skipped in", ran.stdout)


def test_a_failure_has_its_four_parts_and_a_line_to_paste(failing, wrong):
    text = " ".join(failing.split())
    assert "test_assignment[silu-triton-float16-ragged]" in failing
    assert "silu/triton: `n_elements // BLOCK` rounds down" in text
    assert (
        "Left output unwritten for n=1, float16 (smallest failing case found): nothing was "
        "written to out." in text
    )
    assert "Round up: triton.cdiv." in text
    case = "n=1 dtype=float16 seed=2026"
    assert (
        f"  grader check silu/triton --case '{case}' --submission '{wrong}'" in failing.splitlines()
    )
    assert "2 failed, 1 passed" in failing


def test_a_failure_shows_no_internals_of_the_grader(failing):
    for word in ("Traceback", "traceback", "grader/", "part_block", "pytest.fail", "session"):
        assert word not in failing.split("= FAILURES =")[1], word


def test_a_failure_fits_the_window_but_for_the_line_to_paste(failing):
    told = failing.split("= FAILURES =")[1].split("short test summary")[0].splitlines()[1:]
    assert [line for line in told if len(line) > WIDTH and "grader check" not in line] == []


def test_pytest_finds_the_project_from_a_folder_outside_of_it(tmp_path):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = settings["project"]["entry-points"]["pytest11"]
    # As an installation has it: a distribution on the path, with its entry points.
    installed = tmp_path / "site" / "warpgrade-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: warpgrade\nVersion: 0\n")
    lines = "".join(f"{name} = {module}\n" for name, module in declared.items())
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{lines}")
    folder = submission(tmp_path / "ada lovelace", RIGHT)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --collect-only\n")
    words = ("-k", "silu-triton-float16-degenerate", "--submission", folder.name, "-q")
    ran = run(*words, cwd=tmp_path, path=(installed.parent, ROOT))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
    assert "warning" not in ran.stdout.lower()


def test_in_the_assignments_folder_pytest_runs_its_tests(collected):
    _, listed = collected[IN_THE_ASSIGNMENT]
    assert re.findall(r"\[(.*)\]", listed) == ["rmsnorm-triton-memory"]


@pytest.mark.parametrize("form", ["--submission=nowhere", "--submission nowhere"])
def test_a_folder_that_is_not_there_gets_one_line(form):
    ran = run(*form.split())
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    said = "ERROR: --submission: expected a folder like assignment/, got nowhere"
    assert (ran.stdout + ran.stderr).strip() == said


@pytest.mark.parametrize(
    ("ratio", "ends"),
    [(0.95, None), (0.7, "short of the target: 0.700 of torch's speed"), (0.8, None)],
)
def test_speed_is_judged_by_the_thresholds_of_a_grade(monkeypatch, ratio, ends):
    task = Task(EXERCISES["silu"], EXERCISES["silu"].variants["triton"])
    parts = tuple(PartEvidence(*name, Status.passed, 1) for name in task.parts)
    blank = VariantEvidence("silu", "triton", "silu.py")
    timed = PerformanceEvidence(
        Status.passed,
        device="NVIDIA H100 80GB HBM3",
        case="n=67108864 dtype=bfloat16 seed=2026",
        microseconds=100.0,
        bytes=268435456,
        baselines=(Baseline("torch", 100.0 * ratio, ratio),),
    )
    session = SimpleNamespace(
        device="cuda", not_attempted=lambda _: "", blank_evidence=lambda _: blank
    )
    monkeypatch.setattr(test_assignment, "check_parts", lambda *_: parts)
    measured = lambda _, of, evidence: replace(evidence, performance=timed)  # noqa: E731
    monkeypatch.setattr(test_assignment, "measure", measured)
    told: list[str] = []
    given = (session, task.exercise, task.variant, told.append)
    if ends is None:
        test_assignment.test_speed(*given)
        assert told[0].startswith(f"silu/triton: {ratio:.3f} of torch's speed (target ")
        return
    with pytest.raises(pytest.fail.Exception, match=ends):
        test_assignment.test_speed(*given)


def test_memory_and_speed_of_a_kernel_that_is_wrong_are_not_judged(monkeypatch):
    exercise = EXERCISES["silu"]
    session = SimpleNamespace(device="cuda", not_attempted=lambda _: "")
    monkeypatch.setitem(test_assignment.right_on, "silu/triton", -1)
    for test in (test_assignment.test_memory, test_assignment.test_speed):
        with pytest.raises(pytest.skip.Exception, match="the kernel must be right first"):
            test(session, exercise, exercise.variants["triton"], print)
    session.device = "cpu"
    with pytest.raises(pytest.skip.Exception, match="timing needs an NVIDIA GPU"):
        test_assignment.test_speed(session, exercise, exercise.variants["triton"], print)


def test_installed_modules_are_imported_as_they_are() -> None:
    """Pytest compiles no hundreds of files anew, to explain assertions that they don't have."""
    for module in (spec, search, hypothesis.control):
        assert isinstance(module.__spec__.loader, SourceFileLoader)  # type: ignore[union-attr]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_folder(tmp_path, how):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    # What started this process may have it ignore a signal.
    started = "signal.default_int_handler" if how is signal.SIGINT else "signal.SIG_DFL"
    program = f"import signal, sys, pytest; signal.signal({int(how)}, {started})"
    line = ["-c", f"{program}; sys.exit(pytest.main(sys.argv[1:]))", "-q", "-k=silu-triton"]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    line += ["--submission=reference", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [sys.executable, *line], env=environment, cwd=ROOT, text=True, **both
    ) as run:
        wait_until(lambda: any(tmp_path.glob("*/scratch/*")))  # it plans
        run.send_signal(how)
        printed = run.communicate(timeout=SECONDS)[0]
    assert run.returncode == int(pytest.ExitCode.INTERRUPTED)
    assert "KeyboardInterrupt" in printed and not [*tmp_path.iterdir()]
