"""The lecture's notebooks: every cell runs without a GPU, and students get them as .ipynb."""

from __future__ import annotations

import json
import re
import runpy
import shutil

import pytest

from grader.mistakes import Mistake
from grader.spec import load_all
from grader.staff import notebooks, release
from tests.support.small_exercise import ROOT

SHOWN = {  # what a cell prints, for a prediction that has one answer
    "benchmarking": r"at least 139\.0 us",
    "fusion": r"by_hand  kernels: 9, 88 bytes(.|\n)*fused    kernels: 1, 8 bytes",
    "gemm_ladder": r"least         1,    1      1365\.3 .*30 .*139\n(.|\n)*"
    r"tiles of v2: a, b predicted 4, 3, counted 4, 3\n(.|\n)*"
    r"triton_v4  not attempted(.|\n)*v4:   491 µs if all loads came from memory, measured 186",
    "memory_access": r" 33       32   12%           1\n(.|\n)*"
    + ("load   32 requests, 256 sectors, 8 a request" if shutil.which("g++") else "g\\+\\+ isn't"),
    "online_softmax": r"rising corrected 3 times(.|\n)*falling corrected 0 times",
    "triton_to_ptx": r"x, out and n  2 loads(.|\n)*nothing       8 loads",
}


def test_each_notebook_is_tried():
    assert {source.stem for source in (ROOT / notebooks.FOLDER).glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_every_cell_runs_shows_the_answer_and_draws(name, monkeypatch, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    drawn = []
    pyplot.switch_backend("Agg")
    monkeypatch.setattr(pyplot, "show", lambda: drawn.append(pyplot.gcf()))
    try:
        ran = runpy.run_path(str(ROOT / notebooks.FOLDER / f"{name}.py"))
    finally:
        pyplot.close("all")
    assert re.search(SHOWN[name], capsys.readouterr().out)
    assert drawn and all(figure.axes for figure in drawn)
    if name == "gemm_ladder":  # of an assignment that is solved it counts every rung
        ran["ladder"](ROOT / "reference")
        loads = re.findall(r"triton_v\d +(\d+) +(\d+) ", capsys.readouterr().out)
        assert loads == [("8", "8"), ("4", "4"), ("1", "2"), ("1", "2")]


def test_a_kernel_of_jupyter_runs_what_students_get():
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    made = notebooks.made(ROOT, load_all())
    every = {name: nbformat.reads(data.decode(), as_version=4) for name, data in made.items()}
    for each in every.values():
        nbformat.validate(each)
    chosen = every["notebooks/online_softmax.ipynb"]
    nbclient.NotebookClient(chosen, timeout=120).execute()
    outputs = [output for cell in chosen.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_the_release_has_them_without_outputs_and_its_page_links_to_them():
    files = release.make(ROOT, load_all()).files
    assert [name for name in files if name.startswith("notebooks/")] == [
        f"notebooks/{name}.ipynb" for name in sorted(SHOWN)
    ]
    page = files["docs/notebooks.md"].decode()
    for name in SHOWN:
        cells = json.loads(files[f"notebooks/{name}.ipynb"])["cells"]
        assert cells[0]["source"].startswith("# ")
        assert any("**Predict" in "".join(cell["source"]) for cell in cells)
        assert not [cell for cell in cells if cell.get("outputs")]
        assert f"(../notebooks/{name}.ipynb)" in page


def test_a_release_has_no_notebook_that_runs_the_kernels_of_an_exercise_it_lacks():
    files = release.make(ROOT, load_all(), ["silu"]).files
    assert "notebooks/memory_access.ipynb" in files  # it runs silu
    assert "notebooks/gemm_ladder.ipynb" not in files
    assert "gemm_ladder.ipynb" not in files["docs/notebooks.md"].decode()
    assert "notebooks/memory_access.ipynb" not in release.make(ROOT, load_all(), ["gelu"]).files


def test_a_source_is_cut_into_its_cells():
    made = json.loads(notebooks.notebook("# %% [markdown]\n# # A\n#\n# b\n\n# %%\nx = 1\n", "a.py"))
    assert [(cell["cell_type"], cell["source"]) for cell in made["cells"]] == [
        ("markdown", "# A\n\nb"),
        ("code", "x = 1"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", r"a\.py:1: expected '# %%' or '# %% \[markdown\]', got 'x = 1'"),
        ("# %% [markdown]\nx = 1\n", r"a\.py: expected a comment in a cell of prose, got 'x = 1'"),
    ],
)
def test_what_is_no_notebook_is_named(text, message):
    with pytest.raises(Mistake, match=message):
        notebooks.notebook(text, "a.py")
