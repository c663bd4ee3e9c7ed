"""The autograder upload: no secrets in it, the same bytes each time, and valid results whatever
happens in the container."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grader.cli import app
from grader.evidence import Evidence
from grader.grading import gradescope as autograder
from grader.grading.gradescope import CONFIG, Config
from grader.grading.session import PUBLIC_SEED
from grader.mistakes import Mistake
from grader.sandbox import confinement
from grader.sandbox.confinement import Confinement, Level
from grader.staff import release
from grader.staff.autograder import upload
from grader.staff.autograder.upload import Settings
from tests.support.gradebooks import EXERCISES, variant_evidence
from tests.support.leaks import leaks, solution_lines
from tests.support.small_exercise import ROOT

RIGHT = (ROOT / "reference" / "silu.py").read_text(encoding="utf-8")
WRONG = (ROOT / "reference" / "silu.cu").read_text(encoding="utf-8").replace("1.0f", "2.0f")
CLASS_SEED = 987654321


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> Path:
    """The zip of silu, with its CUDA part hidden, under a class's seed."""
    out = tmp_path_factory.mktemp("zip") / "autograder.zip"
    settings = Settings(only=["silu"], hidden=["silu/cuda"], seed=CLASS_SEED)
    made = upload.make(ROOT, EXERCISES, settings)
    upload.write(made, out)
    return out


@pytest.fixture
def root(tmp_path, packed) -> Path:
    """A folder of the container's layout, with the zip unpacked."""
    folder = tmp_path / "autograder"
    (folder / "submission").mkdir(parents=True)
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder / "source")
    return folder


def run_autograder(root: Path, python: Path | str = sys.executable) -> dict:
    """What run_autograder leaves in results.json."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"AUTOGRADER": str(root), "AUTOGRADER_PYTHON": str(python)}
    program = root / "source" / "run_autograder"
    subprocess.run([sys.executable, program], env=environment, check=True, capture_output=True)
    return json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))


def shell(folder: Path, text: str) -> Path:
    """A program in place of the container's Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def is_no_score(results: dict) -> bool:
    """Whether Gradescope can show no 0: no points are named, and a hidden test hides the total."""
    tests = results["tests"]
    told = "score" in results or any("score" in each or "max_score" in each for each in tests)
    return not told and {each["visibility"] for each in tests} == {"visible", "hidden"}


# --- what is in it --------------------------------------------------------------------------------


def test_the_scripts_are_at_the_top_and_can_be_run(packed):
    with zipfile.ZipFile(packed) as archive:
        entries = {each.filename: each.external_attr >> 16 for each in archive.infolist()}
    for name in ("setup.sh", "run_autograder"):
        assert entries.pop(name) == 0o100755
    assert set(entries.values()) == {0o100644}
    tops = {name.partition("/")[0] for name in entries}
    assert tops == {
        "LICENSE", "README.md", "autograder.json", "constraints.txt", "course.yaml", "exercises",
        "grader", "pyproject.toml", "reference",
    }  # fmt: skip
    assert [name for name in entries if name.startswith("reference/")] == ["reference/oracles.py"]
    assert [n for n in entries if n.startswith("exercises/")] == ["exercises/silu.yaml"]


def test_no_line_of_a_solution_is_in_it(packed):
    with zipfile.ZipFile(packed) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    public = release.make(ROOT, EXERCISES).files
    stubs = [data.decode() for name, data in public.items() if name.startswith("assignment/")]
    assert leaks(files, solution_lines(ROOT / "reference"), stubs) == []
    ours = {CONFIG, "course.yaml", "run_autograder", "setup.sh"}  # which names one exercise
    assert all(public[name] == data for name, data in files.items() if name not in ours)


def test_the_same_checkout_gives_the_same_bytes(tmp_path, packed):
    again = tmp_path / "again.zip"
    settings = Settings(only=["silu"], hidden=["silu/cuda"], seed=CLASS_SEED)
    made = upload.make(ROOT, dict(reversed(EXERCISES.items())), settings)
    upload.write(made, again)
    assert again.read_bytes() == packed.read_bytes()


@pytest.mark.parametrize(
    ("settings", "seed"),
    [
        ({"hidden": ["silu"]}, CLASS_SEED),
        ({"hidden": ["silu/cuda"], "visibility": "hidden"}, CLASS_SEED),
        ({"hidden": ["silu"], "visibility": "after_due_date"}, None),
        ({}, None),
    ],
)
def test_the_classs_seed_is_in_it_only_for_what_stays_hidden(settings, seed):
    made = upload.make(ROOT, EXERCISES, Settings(seed=CLASS_SEED, **settings))
    assert json.loads(made.files[CONFIG])["seed"] == seed
    others = {name: data for name, data in made.files.items() if name != CONFIG}
    assert not [name for name, data in others.items() if str(CLASS_SEED).encode() in data]


def test_the_scripts_are_valid_and_install_what_the_makefile_does(packed, tmp_path):
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path)
    setup = (tmp_path / "setup.sh").read_text()
    subprocess.run(["bash", "-n", tmp_path / "setup.sh"], check=True)
    compile((tmp_path / "run_autograder").read_text(), "run_autograder", "exec")
    lines = (ROOT / "Makefile").read_text().splitlines()
    versions = dict(each.split(" := ") for each in lines if each.startswith("TRITON"))
    for name, sign in {"TRITON": ">", "TRITON_310": "<="}.items():
        assert f"\"triton=={versions[name]}; python_version {sign} '3.10'\"" in setup
    assert "constraints.txt" in setup
    assert "bubblewrap" in setup


@pytest.mark.parametrize(
    ("there", "in_apt", "chosen"),
    [
        (("3.10", "3.12"), (), "3.12"),
        (("3.10",), ("3.11",), "3.11"),
        (("3.10",), (), "3.10"),
        (("3.9",), (), None),
    ],
)
def test_the_image_gets_the_newest_python_and_3_10_only_where_there_is_no_other(
    packed, tmp_path, there, in_apt, chosen
):
    with zipfile.ZipFile(packed) as archive:
        archive.extract("setup.sh", tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "basename", "cp", "chmod", "mkdir"):
        (programs / name).symlink_to(shutil.which(name))
    python = tmp_path / "python"  # it notes who makes the environment, and does nothing else
    python.write_text(
        '#!/usr/bin/env -S bash -e\n[ "$2" != venv ] && exit\n'
        f'mkdir -p "$3/bin"\ncp {tmp_path}/python "$3/bin/python"\n'
        f'basename "$0" > {tmp_path}/chosen\n'
    )
    python.chmod(0o755)
    for version in there:
        (programs / f"python{version}").symlink_to(python)
    apt = programs / "apt-get"  # installs what it has
    apt.write_text(
        "#!/usr/bin/env bash\nfor each; do case $each in "
        + "".join(f"python{v}) cp {python} {programs}/python{v};; " for v in in_apt)
        + "esac; done\n"
    )
    apt.chmod(0o755)
    ran = subprocess.run(
        [programs / "bash", tmp_path / "setup.sh"],
        env={"PATH": str(programs), "AUTOGRADER": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    if chosen is None:
        assert ran.returncode == 1 and "Python 3.10 or newer is needed" in ran.stderr
    else:
        assert ran.returncode == 0, ran.stderr
        assert (tmp_path / "chosen").read_text() == f"python{chosen}\n"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"visibility": "visible"}, "--visibility: expected one of hidden"),
        ({"timeout": 60}, "--timeout: expected at least 180 seconds, got 60"),
        ({"only": ["silu/cuda"]}, "silu/cuda: expected whole exercises"),
    ],
)
def test_settings_that_cannot_be_are_one_line(settings, told):
    with pytest.raises(Mistake, match=told):
        upload.make(ROOT, EXERCISES, Settings(**settings))


def test_the_command_packs_a_courses_seed_and_what_it_lifts(tmp_path):
    course = tmp_path / "course.yaml"
    course.write_text("seed: 4711\nlifted: [silu/triton, gemm]\n")
    out = tmp_path / "a.zip"
    words = ["gradescope-zip", "--out", out, "--course", course, "--only", "silu", "--hidden"]
    ran = CliRunner().invoke(app.app, [*map(str, words), "silu/cuda", "--thorough"])
    assert ran.exit_code == 0, ran.output
    assert "1.5 GB" in ran.output
    with zipfile.ZipFile(out) as archive:
        archive.extract(CONFIG, tmp_path)
    config = Config.read(tmp_path / CONFIG)
    assert config == Config(510.0, ("silu/cuda",), "after_published", 4711, ("silu/triton",), {})


def test_only_a_zip_is_written(tmp_path):
    made = upload.make(ROOT, EXERCISES, Settings(only=["silu"]))
    with pytest.raises(Mistake, match=r"expected a name ending in \.zip"):
        upload.write(made, tmp_path / "folder")


# --- in the container -----------------------------------------------------------------------------


def test_a_solved_file_and_a_wrong_one(root):
    inside = root / "submission" / "my work"  # a wrapping folder, as some upload
    inside.mkdir()
    (inside / "silu.py").write_text(RIGHT)
    (inside / "silu.cu").write_text(WRONG)
    results = run_autograder(root)
    tests = {each["name"]: each for each in results["tests"]}
    assert tests["silu/triton: ragged"]["status"] == "passed"
    assert tests["silu/triton: ragged"]["score"] == tests["silu/triton: ragged"]["max_score"] > 0
    assert tests["silu/cuda: ragged"]["status"] == "failed"
    assert tests["silu/cuda: ragged"]["score"] == 0
    shown = {name: each["visibility"] for name, each in tests.items()}
    assert {v for n, v in shown.items() if n.startswith("silu/triton")} == {"visible"}
    assert {v for n, v in shown.items() if n.startswith("silu/cuda")} == {"after_published"}
    assert results["score"] == sum(each["score"] for each in tests.values())
    assert results["stdout_visibility"] == "hidden"
    hidden = tests["silu/cuda: ragged"]["output"]
    assert f"seed={CLASS_SEED}'" in hidden  # the line ends there: it is for a student's folder
    open_to_all = json.dumps([each for each in tests.values() if each["visibility"] == "visible"])
    assert str(CLASS_SEED) not in open_to_all + results["output"]
    confined = confinement.choose().is_enough
    assert results["extra_data"]["warpgrade"]["confined"] is confined
    assert ("offers no sandbox" in results["output"]) is not confined


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("echo 'a traceback' >&2; exit 3", "The grader failed (exit status 3)."),
        ("kill -9 $$", "The grader failed (exit status -9)."),
        ("sleep 60", "Grading took too long."),
    ],
)
def test_a_grader_that_fails_gives_valid_results_without_a_score(root, program, told):
    if "sleep" in program:
        config = replace(Config.read(root / "source" / CONFIG), seconds=-39.5)
        (root / "source" / CONFIG).write_text(config.to_json())
    results = run_autograder(root, shell(root, program))
    assert is_no_score(results)
    assert results["output"].startswith(told)
    assert "not your mistake" in results["output"]
    staff = results["tests"][1]
    assert staff["visibility"] == "hidden"
    assert ("a traceback" in staff["output"]) == ("traceback" in program)
    assert "traceback" not in results["output"] + results["tests"][0]["output"]


@pytest.mark.parametrize("config", [None, "{", '{"seconds": "soon"}', "[]"])
def test_a_damaged_zip_gives_valid_results_without_a_score(root, config):
    path = root / "source" / CONFIG
    path.unlink() if config is None else path.write_text(config)
    results = run_autograder(root, "/nowhere/python")
    assert is_no_score(results)
    assert results["output"].startswith("The grader could not be started")


def test_an_exception_in_the_grader_reaches_the_staff_alone(root):
    (root / "source" / "grader" / "__init__.py").write_text("raise RuntimeError('broken here')\n")
    results = run_autograder(root)
    assert is_no_score(results)
    assert "RuntimeError: broken here" in results["tests"][1]["output"]
    assert "broken here" not in results["output"]


def test_results_are_there_before_the_grader_starts(root):
    seen = shell(root, f"cp {root}/results/results.json {root}/early.json; exit 1")
    run_autograder(root, seen)
    early = json.loads((root / "early.json").read_text())
    assert is_no_score(early)
    assert "did not finish" in early["output"]


@pytest.fixture
def graded(monkeypatch) -> list[dict]:
    """What grade() is called with; it passes whatever it is asked for."""
    calls: list[dict] = []

    def grade(submission, exercises, options, *, only, on_step):
        calls.append({"submission": submission, "only": only, **vars(options)})
        pairs = [name.split("/") for name in only]
        variants = [variant_evidence(exercises[e], exercises[e].graded[v]) for e, v in pairs]
        return Evidence("assignment", options.seed, tuple(variants), {"sandbox": "bubblewrap"})

    monkeypatch.setattr(autograder, "grade", grade)
    return calls


SILU_ONLY = {"silu": EXERCISES["silu"]}


def test_what_students_see_is_drawn_by_the_public_seed(graded, tmp_path):
    config = Config(100.0, hidden=("silu/cuda",), seed=CLASS_SEED, lifted=("silu",))
    results = json.loads(autograder.run(tmp_path, SILU_ONLY, config))
    assert [(call["only"], call["seed"]) for call in graded] == [
        (["silu/triton", "silu/predictions"], PUBLIC_SEED),
        (["silu/cuda"], CLASS_SEED),
    ]
    assert all(call["lifted"] == ("silu",) for call in graded)
    assert {each["name"].partition(":")[0] for each in results["tests"]} == {
        "silu/triton",
        "silu/cuda",
    }


def test_without_a_sandbox_the_seed_is_gone_before_anything_runs(graded, root, monkeypatch):
    loose = Confinement(Level.limits, "cpu", (), ())
    monkeypatch.setattr(confinement, "choose", lambda *_: loose)
    monkeypatch.setattr(autograder, "load_all", lambda: SILU_ONLY)
    monkeypatch.setenv("AUTOGRADER", str(root))
    (root / "results").mkdir()
    autograder.main()
    results = json.loads((root / "results" / "results.json").read_text())
    assert results["output"].startswith("This container offers no sandbox")
    assert {call["seed"] for call in graded} == {PUBLIC_SEED}
    assert Config.read(root / "source" / CONFIG).seed is None
    assert Path.cwd() != root


def test_when_time_is_over_before_anything_was_tried_there_is_no_score(tmp_path):
    (tmp_path / "silu.py").write_text(RIGHT)
    (tmp_path / "silu.cu").write_text(WRONG)
    results = json.loads(autograder.run(tmp_path, SILU_ONLY, Config(-1.0)))
    assert is_no_score(results)
    assert results["output"].startswith("Time was over")
    assert results["extra_data"]["warpgrade"]["complete"] is False


def test_when_time_is_over_what_was_tried_stands_and_no_total_is_shown(
    graded, tmp_path, monkeypatch
):
    whole = autograder.grade

    def cut_short(*given, only, on_step):
        seen = whole(*given, only=only, on_step=on_step)
        if only == ["silu/cuda"]:
            seen = replace(seen, variants=(replace(seen.variants[0], parts=()),), complete=False)
        return seen

    monkeypatch.setattr(autograder, "grade", cut_short)
    results = json.loads(autograder.run(tmp_path, SILU_ONLY, Config(100.0, ("silu/cuda",))))
    scored = [each for each in results["tests"] if "score" in each]
    assert {each["name"].partition(":")[0] for each in scored} == {"silu/triton"}
    assert [each["visibility"] for each in results["tests"][len(scored) :]] == ["visible", "hidden"]
    assert "silu/cuda" not in results["output"].partition("Not decided")[0]
