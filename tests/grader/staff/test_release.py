"""What students get: complete, usable, the same every time, and without a solution in it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import pytest

from grader.gpu import machine
from grader.grading.grade import grade
from grader.mistakes import Mistake
from grader.scoring.score import score
from grader.spec import load, load_all
from grader.staff import release
from grader.staff.handout import difference
from grader.staff.release import Release
from grader.staff.stubs import make_stubs
from tests.support import attacks, warm_python
from tests.support.commandline import in_one_process
from tests.support.leaks import (
    OF_A_SOLUTION,
    OF_THE_CORPUS,
    corpus_lines,
    leaks,
    solution_lines,
    squeezed,
)
from tests.support.small_exercise import RIGHT, ROOT

EXERCISES = load_all()
STUBS = make_stubs(ROOT / "reference", EXERCISES)
FEW = ("copy_first_column", "silu")
FOLDERS = {
    "": {".gitignore", "LICENSE", "Makefile", "README.md", "AGENTS.md", "handout.md",
         "constraints.txt", "course.yaml", "pyproject.toml"},
    ".devcontainer": {"Dockerfile", "devcontainer.json"},
    "assignment": set(STUBS),
    "exercises": {f"{name}.yaml" for name in EXERCISES},
    "reference": {"oracles.py"},
    "tests": {"__init__.py", "conftest.py", "test_assignment.py", "test_performance.py"},
}  # fmt: skip


@pytest.fixture(scope="module")
def made() -> Release:
    """The release of this checkout."""
    return release.make(ROOT, EXERCISES)


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Path:
    """A release of two exercises, written to a new folder."""
    folder = tmp_path_factory.mktemp("few") / "course"
    release.write(release.make(ROOT, EXERCISES, FEW), folder)
    return folder


def run(folder: Path, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python WORDS` in a release, with the release's own grader."""
    added = {"PYTHONPATH": str(folder), "COLUMNS": "80", **environment}
    return warm_python.run(words, folder, {**os.environ, **added})


def written(folder: Path) -> dict[str, bytes]:
    """Path -> content of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def unzipped(path: Path) -> dict[str, bytes]:
    """Path below the one folder of a zip -> content."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert all(name.startswith(f"{release.FOLDER}/") for name in names)
        return {name.partition("/")[2]: archive.read(name) for name in names}


# --- what is in it --------------------------------------------------------------------------------


def test_outside_the_grader_there_is_what_students_need_and_nothing_else(made):
    for folder, names in FOLDERS.items():
        inside = {
            name.rpartition("/")[2] for name in made.files if name.rpartition("/")[0] == folder
        }
        assert inside == names
    rest = {name.partition("/")[0] for name in made.files if "/" in name}
    assert rest - set(FOLDERS) <= {"grader", "docs", "notebooks"}


def test_of_the_grader_there_is_all_that_is_under_version_control(made):
    listed = subprocess.run(
        ["git", "ls-files", "grader"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    if not listed:
        pytest.skip("this is no git checkout")
    missing = set(listed) - set(made.files)
    assert missing == {name for name in listed if name.startswith(release.STAFF_FILES)}


def test_nothing_of_the_calibration_is_in_it_and_its_commands_are_gone(made, tmp_path):
    folder = tmp_path / "course"
    release.write(made, folder)
    assert not [name for name in made.files if "calibrat" in name]
    for name, content in made.files.items():
        if name.startswith("exercises/") or name == "grader/cli/app.py":
            assert b"missed_by" not in content and b"calibrat" not in content, name
    for exercise in EXERCISES.values():
        shipped = load(folder / "exercises" / f"{exercise.name}.yaml")
        for name, variant in exercise.variants.items():
            if variant.performance is not None:
                kept = [
                    each.model_copy(update={"missed_by": ()})
                    for each in variant.performance.thresholds
                ]
                assert list(shipped.variants[name].performance.thresholds) == kept
    assert "calibrate" in STAFFS  # which have no command, as is seen below


def test_nothing_is_a_cache_a_link_or_a_hidden_file_but_the_two_that_are_named(made):
    hidden = {name for name in made.files if re.search(r"(^|/)[._]", name) and "__." not in name}
    assert {name.partition("/")[0] for name in hidden} == {".gitignore", ".devcontainer"}
    assert not [name for name in made.files if "__pycache__" in name or name.endswith(".pyc")]


def test_stubs_come_from_the_solutions_whatever_lies_in_the_assignment(tmp_path, made):
    copy = project(tmp_path, {**made.files, **sources()})
    (copy / "assignment" / "silu.py").write_text(RIGHT)
    (copy / "assignment" / "silu.py.orig").write_text(RIGHT)
    (copy / "grader" / "__pycache__").mkdir()
    (copy / "grader" / "__pycache__" / "x.py").write_text(RIGHT)
    (copy / "grader" / ".silu.py").write_text(RIGHT)
    (copy / ".venv").mkdir()
    (copy / ".venv" / "x.py").write_text(RIGHT)
    assert release.make(copy, EXERCISES).files == made.files


def test_no_line_of_a_solution_is_in_it(made):
    found = leaks(made.files, solution_lines(ROOT / "reference"), STUBS.values())
    assert not found, "\n".join(map(str, found))


def test_no_line_of_a_wrong_or_an_honest_submission_is_in_it(made):
    found = leaks(made.files, corpus_lines(), STUBS.values(), OF_THE_CORPUS)
    assert not found, "\n".join(map(str, found))


def test_no_attack_is_in_it(made):
    names = {path.name for path in attacks.FOLDER.iterdir()}
    assert not names & {Path(name).name for name in made.files}
    sentences = [(attack.name, attack.tries) for attack in attacks.load()]
    found = leaks(made.files, sentences, (), OF_THE_CORPUS)
    assert not found, "\n".join(map(str, found))


SECRET = "    y = x / (1.0 + tl.exp(-x))"


def zipped(text: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.py", text)
    return buffer.getvalue()


def tarred(text: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo("inner.zip")
        entry.size = len(zipped(text))
        archive.addfile(entry, io.BytesIO(zipped(text)))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "place"),
    [
        ("handout.md", b"# SiLU\n\n        y = x / (1.0 + tl.exp(-x))\n", "handout.md:3"),
        ("handout.md", b"so y=x/(1.0+\n  tl.exp(-x)) it is\n", "handout.md:1"),
        ("notes.zip", zipped(SECRET), "notes.zip/inner.py:1"),
        ("notes.tar.gz", tarred(SECRET), "notes.tar.gz/inner.zip/inner.py:1"),
    ],
)
def test_the_search_finds_a_solution_that_was_left_in_it(name, data, place):
    [found, *_] = leaks({name: data}, solution_lines(ROOT / "reference"), STUBS.values())
    assert found.place == place
    assert found.secret.startswith("silu.py:")


def test_the_search_looks_for_several_lines_of_every_solution():
    public = "\n".join(map(squeezed, STUBS.values()))
    lines: dict[str, list[str]] = {}
    for place, text in solution_lines(ROOT / "reference"):
        lines.setdefault(place.partition(":")[0], []).append(squeezed(text))
    to_write = {name for name, stub in STUBS.items() if "TODO" in stub}
    assert set(lines) == to_write
    for name, all_lines in lines.items():
        sought = {line for line in all_lines if len(line) >= OF_A_SOLUTION and line not in public}
        assert len(sought) >= 3, name


# --- using it -------------------------------------------------------------------------------------


def test_pytest_is_green_in_a_new_folder(tmp_path, made):
    release.write(made, tmp_path / "course")
    # What ships solved takes a while to grade: one part of it stands for the others.
    solved = "gelu-triton-float16 or not (gelu or torch_v0)"
    ran = run(tmp_path / "course", "-m", "pytest", "-q", "-k", solved)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    [passed, skipped] = re.search(r"(\d+) passed, (\d+) skipped", ran.stdout).groups()
    assert int(passed) == 3
    assert int(skipped) > 100
    assert "is still the stub" in ran.stdout


STAFFS = ("batch", "rescore", "regrade", "adjust", "export", "similarity", "gradescope-zip",
          "calibrate", "stubs", "handout", "release")  # fmt: skip
STUDENTS = (
    ("check", "silu/cuda", "--case", "n=4 dtype=float32 seed=1"),
    ("plan", "silu/cuda"),
    ("bench", "silu"),
    ("doctor",),
    ("run-plan", "nothing.plan"),
    ("--version",),
)
STUBS_GRADED = ("grade", "assignment", "--json", "../stubs.json")
SOLVED_GRADED = ("grade", "../solved", "--only", "silu/cuda", "--json", "../solved.json")
SOLUTIONS_GRADED = ("grade", "reference")
Said = dict[tuple[str, ...], tuple[int, str, str]]


@pytest.fixture(scope="module")
def said(few) -> Said:
    """What the release of two exercises answers to commands: exit status, output, error output."""
    solved = few.parent / "solved"
    solved.mkdir()
    (solved / "silu.cu").write_bytes((ROOT / "reference" / "silu.cu").read_bytes())
    words = [STUBS_GRADED, SOLVED_GRADED, SOLUTIONS_GRADED, ("--help",)]
    words += [*((name, "--help") for name in STAFFS), *STUDENTS]
    return dict(zip(words, in_one_process(few, *words), strict=True))


def test_stubs_score_nothing_and_a_solved_exercise_what_it_scores_here(few, said):
    stubs_report, solved_report = few.parent / "stubs.json", few.parent / "solved.json"
    assert (said[STUBS_GRADED][0], said[SOLVED_GRADED][0]) == (0, 0), said
    assert points(json.loads(stubs_report.read_text())) == {"triton": 0, "cuda": 0}
    exercises = {"silu": EXERCISES["silu"]}
    observed = grade(few.parent / "solved", exercises, only=["silu/cuda"])
    here = points(asdict(score(observed, exercises)))
    assert points(json.loads(solved_report.read_text())) == here
    assert here == {"cuda": 3 if machine.gpu_name() else 2}  # one point is for speed


def points(grade: dict) -> dict[str, float]:
    """Variant of SiLU -> points."""
    [exercise] = [each for each in grade["exercises"] if each["name"] == "silu"]
    return {variant["name"]: variant["score"] for variant in exercise["variants"]}


def test_what_needs_the_solutions_says_that_there_are_none(said):
    status, out, err = said[SOLUTIONS_GRADED]
    assert (status, out.strip()) == (2, "")
    assert err.strip().count("\n") == 0
    assert "the students' release has no" in err


def test_neither_class_grading_nor_what_the_staff_run_is_in_it(few, said):
    folders = {name.split("/")[1] for name in written(few) if name.startswith("grader/")}
    assert not folders & {"batch", "staff"} and "grading" in folders
    assert "gradescope.py" in {path.name for path in (few / "grader" / "grading").iterdir()}
    status, shown, _ = said["--help",]
    assert status == 0 and not [name for name in STAFFS if re.search(rf"^\W+{name} ", shown, re.M)]
    for name in STAFFS:
        status, _, err = said[name, "--help"]
        assert status == 2 and f"No such command '{name}'" in err


def test_each_students_command_runs_without_them(said):
    assert [said[words][0] for words in STUDENTS] == [0, 0, 0, 0, 2, 0], said
    assert not [err for _, _, err in said.values() if "Traceback" in err]


def test_every_target_of_its_makefile_works_without_staffs_files(made):
    makefile = made.files["Makefile"].decode()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.M))
    assert targets == {"setup", "grade", "check", "clean"}
    assert set(re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split()) == targets
    assert "STAFF" not in makefile
    assert "[dev]" not in makefile


def test_its_texts_name_only_files_and_targets_that_are_in_it(made):
    targets = re.findall(r"^([a-z]+):", made.files["Makefile"].decode(), re.M)
    folders = {name.rpartition("/")[0] for name in made.files}
    for page in ("README.md", "AGENTS.md", "handout.md"):
        text = made.files[page].decode()
        assert set(re.findall(r"(?:`|    )make ([a-z]+)", text)) <= set(targets), page
        linked = {name for _, name in re.findall(r"\[([^\]]*)\]\(([\w./-]+\.md)", text)}
        quoted = set(re.findall(r"`([\w.-]+/[\w./-]*\.(?:py|cu|md|json))`", text))
        assert linked | quoted <= set(made.files), page
        assert set(re.findall(r"`([\w.-]+)/`", text)) <= folders, page


def test_the_container_is_described_in_json_with_its_dockerfile(made):
    described = json.loads(made.files[".devcontainer/devcontainer.json"])
    dockerfile = made.files[f".devcontainer/{described['build']['dockerfile']}"].decode()
    assert "--platform=linux/amd64" in dockerfile
    assert "--platform=linux/amd64" in described["runArgs"]
    assert re.match(r"make setup\b", described["postCreateCommand"])


# --- a part of the course -------------------------------------------------------------------------


def test_only_some_exercises_are_released_with_their_sections(few):
    files = written(few)
    specs = {Path(name).stem for name in files if name.startswith("exercises/")}
    assert specs == set(FEW)
    assert set(re.findall(r"- (\w+)", files["course.yaml"].decode())) == set(FEW)
    handout = files["handout.md"].decode()
    sections = set(re.findall(r"^## (\w+)$", handout, re.M))
    assert set(FEW) <= sections
    assert not sections & (set(EXERCISES) - set(FEW))
    titles = re.findall(r"^##+ (.+)$", handout, re.M)
    anchors = {re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles}
    assert set(re.findall(r"\]\(#([\w-]+)\)", handout)) <= anchors
    of_few = {name: each for name, each in EXERCISES.items() if name in FEW}
    assert not difference(handout, of_few)  # its tables speak of them alone
    assert files["reference/oracles.py"] == (ROOT / "reference" / "oracles.py").read_bytes()


def test_a_name_that_is_no_exercises_is_refused():
    with pytest.raises(Mistake, match=r"silu/triton: expected whole exercises, of .*silu"):
        release.make(ROOT, EXERCISES, ["silu/triton"])


# --- the same bytes -------------------------------------------------------------------------------


def sources() -> dict[str, bytes]:
    """The staff's files that a release is made from."""
    names = [*release.SHARED, *(f"students/{name}" for name in release.THEIRS), release.HANDOUT]
    names += [f"reference/{name}" for name in STUBS]
    names += [f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.py")]
    return {name: (ROOT / name).read_bytes() for name in names}


def project(folder: Path, files: dict[str, bytes], names: Iterable[str] = ()) -> Path:
    """Write files below a new folder, in the order of `names` first."""
    for name in [*names, *files]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name])
    return folder


def test_the_same_tree_gives_the_same_zip_wherever_and_whenever(tmp_path, made, monkeypatch):
    release.write(made, tmp_path / "one.zip")
    files = {**made.files, **sources()}
    copy = project(tmp_path / "elsewhere", files, sorted(files, reverse=True))
    for path in copy.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        path.chmod(0o700)
    monkeypatch.chdir(copy)
    before = os.umask(0o077)
    try:
        release.write(release.make(Path(), EXERCISES), Path("two.zip"))
        release.write(made, Path("folder"))
    finally:
        os.umask(before)
    assert (copy / "two.zip").read_bytes() == (tmp_path / "one.zip").read_bytes()
    assert unzipped(copy / "two.zip") == written(copy / "folder") == made.files
    for path in (copy / "folder", *(copy / "folder").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)
        assert path.stat().st_mtime == release._FIRST_TIME


def small() -> Release:
    return Release({"a/b.txt": b"b", "c.txt": b"c"})


@pytest.mark.parametrize(
    ("given", "year"), [("", 1980), ("0", 1980), ("1700000001", 2023), ("9" * 12, 2107)]
)
def test_source_date_epoch_is_the_time_of_every_entry(tmp_path, monkeypatch, given, year):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", given)
    release.write(small(), tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {year}


def test_a_date_that_is_none_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(Mistake, match=r"SOURCE_DATE_EPOCH: .* got 'yesterday'"):
        release.write(small(), tmp_path / "x.zip")


# --- what is there already ------------------------------------------------------------------------


def test_a_folder_with_files_is_left_alone(tmp_path):
    (tmp_path / "course").mkdir()
    release.write(small(), tmp_path / "course")  # an empty one is filled
    (tmp_path / "course" / "c.txt").write_text("my work")
    with pytest.raises(Mistake, match="nothing was written"):
        release.write(small(), tmp_path / "course")
    assert (tmp_path / "course" / "c.txt").read_text() == "my work"


@pytest.mark.parametrize("out", ["course", "course.zip"])
def test_a_file_that_is_no_release_is_left_alone(tmp_path, out):
    (tmp_path / out).write_bytes(zipped("slides"))
    with pytest.raises(Mistake, match=f"{out}: expected a new"):
        release.write(small(), tmp_path / out)
    assert (tmp_path / out).read_bytes() == zipped("slides")


def test_a_zip_is_replaced_as_long_as_nobody_changed_it(tmp_path):
    out = tmp_path / "course.zip"
    release.write(small(), out)
    release.write(Release({"new.txt": b"new"}), out)
    assert unzipped(out) == {"new.txt": b"new"}
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("slides.txt", "mine")
    with pytest.raises(Mistake, match="nobody has changed"):
        release.write(small(), out)


@pytest.mark.parametrize("out", ["course", "course.zip"])
def test_a_release_that_was_interrupted_leaves_nothing(tmp_path, monkeypatch, out):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "utime", interrupted)
    monkeypatch.setattr(release, "_digest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        release.write(small(), tmp_path / out)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there_is_named(tmp_path):
    with pytest.raises(Mistake, match=r"there is no .*/nowhere"):
        release.write(small(), tmp_path / "nowhere" / "x.zip")


# --- a tree that isn't as it should be ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("LICENSE", None, r"LICENSE: expected a file .*: No such file"),
        ("students/AGENTS.md", None, r"students/AGENTS\.md: expected a file"),
        ("handout.md", b"\xff", r"handout\.md: expected UTF-8, byte 0"),
        ("Makefile", b"a:\n# BEGIN STAFF\n", r"Makefile:2: # BEGIN STAFF without"),
        ("Makefile", b"# END STAFF\n", r"Makefile:1: expected # BEGIN STAFF first"),
        ("Makefile", b"# BEGIN STAFF\n" * 2, r"Makefile:2: expected # END STAFF for line 1"),
        (
            "exercises/silu.yaml",
            b"a: 1\nmissed_by:\n- x\n",
            r"silu\.yaml:2: expected missed_by: \[names\] last",
        ),
        *(
            ("exercises/silu.yaml", f"q:\n  ask: a\n{secret}\n".encode(), "on a line each, from")
            for secret in (
                "  answer: >\n    42",
                "  answer:\n    42",
                "  'answer': 42",
                "  ? answer\n  : 42",
                "p: {ask: b, answer: 42}",
                "  more: {accept: 0.1}",
                "  answer: [1,\n    2]",
            )
        ),
    ],
)
def test_a_file_that_is_missing_or_wrong_is_named(tmp_path, made, name, data, said):
    files = {**made.files, **sources()}
    if data is None:
        del files[name]
    else:
        files[name] = data
    with pytest.raises(Mistake, match=said):
        release.make(project(tmp_path, files), EXERCISES)


def test_a_link_is_not_followed(tmp_path, made):
    copy = project(tmp_path, {**made.files, **sources()})
    (copy / "grader" / "spec" / "formula.py").unlink()
    (copy / "grader" / "spec" / "formula.py").symlink_to(ROOT / "reference" / "silu.py")
    with pytest.raises(Mistake, match=r"formula\.py: .* got a symbolic link"):
        release.make(copy, EXERCISES)


def test_students_can_look_into_their_kernels(made):
    wanted = {
        "grader/cli/inspect_command.py",
        "grader/instruments/inspect/page.html",
        "docs/inspect.md",
    }
    assert wanted <= set(made.files)
    assert b"nvidia-cuda-nvcc" in made.files["pyproject.toml"]
    assert b"grader.cli.inspect_command:command" in made.files["grader/cli/app.py"]


def test_pages_come_with_their_drawings_and_links_to_the_rest_become_text(tmp_path, made):
    own = (
        '![a warp](docs/img/warp.svg)\n<img src="docs/img/sector.svg">\n'
        "[the emulator](docs/emulator.md#counts), [the solution](reference/silu.py), [it](#silu)\n"
        "    silu_kernel[grid](x, out, n)\n"
    )
    handout = made.files["handout.md"].decode() + own
    files = {
        **made.files,
        **sources(),
        "handout.md": handout.encode(),
        "docs/emulator.md": b"![tile](img/tile.svg), [security](security.md)\n",
        "docs/security.md": b"how it can be attacked",
        **{f"docs/img/{name}.svg": b"<svg/>" for name in ("warp", "sector", "tile", "other")},
    }
    made = release.make(project(tmp_path, files), EXERCISES)
    docs = {name for name in made.files if name.startswith("docs/")}
    assert docs == {
        "docs/emulator.md",
        "docs/inspect.md",
        "docs/notebooks.md",
        "docs/predictions.md",
        "docs/profile.md",
        "docs/visualize.md",
        *re.findall(r"docs/figures/[\w-]+\.svg", handout),
        *(f"docs/img/{name}.svg" for name in ("warp", "sector", "tile")),
    }
    assert made.files["docs/emulator.md"] == b"![tile](img/tile.svg), security\n"
    expected = handout.replace("[the solution](reference/silu.py)", "the solution")
    assert made.files["handout.md"].decode() == expected
