"""Which file of a submission's folder is read, and what is said of one that isn't there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.grading.grade import expect_files
from grader.grading.submitted import Files
from grader.mistakes import Mistake
from grader.spec import load_all


@pytest.mark.parametrize(
    "name", ["my_silu.py", "Silu.py", "silu (1).py", "silu.py.txt", "final-SILU-v2.py"]
)
def test_a_file_whose_name_is_nearly_right_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    (tmp_path / "a_longer_silu_name_than_the_others.py").write_text("")
    assert (
        Files(tmp_path).handed_in("silu.py")
        == f"there is no silu.py; rename {name} to silu.py if it is that"
    )


@pytest.mark.parametrize("name", ["silu.cu", "gelu.py", ".silu.py.swp", "solution.py", "silupy"])
def test_a_file_of_another_name_is_not(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    assert Files(tmp_path).handed_in("silu.py") == "there is no silu.py"


def test_a_name_that_is_no_text_is_shown_as_far_as_it_can_be(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\x1b[31m\xff_silu.py")).touch()
    said = Files(tmp_path).handed_in("silu.py")
    assert isinstance(said, str) and "_silu.py to silu.py if it is that" in said
    assert "\x1b" not in said and said.encode()


def test_a_folder_around_the_submission_is_told_which_one_to_give(tmp_path: Path) -> None:
    inner = tmp_path / "assignment"
    inner.mkdir()
    (tmp_path / "notes").mkdir()
    (inner / "rmsnorm.py").touch()
    with pytest.raises(Mistake, match=rf"found none; give {inner}, which has some$"):
        expect_files(tmp_path, load_all())
    (inner / "rmsnorm.py").unlink()
    with pytest.raises(Mistake, match=r"found none$"):
        expect_files(tmp_path, load_all())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import torch\nfrom helper import BLOCK\n", ["helper.py"]),
        ("import helper as h\nimport silu\n", ["helper.py"]),
        ('"""\nfrom other import x\n"""\n', []),
        ("import torch\n", []),
    ],
)
def test_imports_of_files_beside_a_variants_are_known(
    tmp_path: Path, text: str, named: list[str]
) -> None:
    (tmp_path / "silu.py").write_text(text)
    (tmp_path / "helper.py").write_text("BLOCK = 128")
    assert Files(tmp_path).imported(load_all()["silu"].variants["triton"]) == named
