"""Plots show every kernel and its roof, and come out the same bytes each time."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from grader.evidence import PerformanceEvidence
from grader.gpu.roofline import RooflineError, peaks
from grader.instruments import plots
from grader.instruments.plots import Point, Series, below_roofline, over_sizes, point_of, series_of
from grader.status import Status

ROOFS = peaks("NVIDIA H100 80GB HBM3").roofs()
SIZES = (1 << 20, 1 << 24, 1 << 26)
ROWS = Series(
    "yours",
    "bfloat16",
    tuple(Point(n, n / 700e3, 4 * n, None, n / 710e3, n / 690e3) for n in SIZES),
)
PRODUCT = Series(
    "torch", "bfloat16", tuple(Point(n, n**3 / 380e6, 6 * n * n, 2 * n**3) for n in (1024, 4096))
)


@pytest.fixture(autouse=True)
def needs_matplotlib(request):
    if "missing" not in request.node.name:
        pytest.importorskip("matplotlib")


class Drawn:
    """The figure instead of its files."""

    def __init__(self, monkeypatch) -> None:
        def keep(figure, stem):
            self.axes = figure.axes[0]
            self.figure = figure
            figure.draw_without_rendering()
            return Path("a.png"), Path("a.svg")

        monkeypatch.setattr(plots, "_save", keep)

    @property
    def texts(self) -> set[str]:
        return {text.get_text() for text in self.axes.texts}


@pytest.fixture
def drawn(monkeypatch):
    return Drawn(monkeypatch)


def test_both_files_are_written_and_the_same_each_time(tmp_path):
    for draw in (
        lambda stem: over_sizes([ROWS], ROOFS, "silu", "elements", stem),
        lambda stem: below_roofline([ROWS, PRODUCT], ROOFS, "silu", stem),
    ):
        first, again = draw(tmp_path / "new" / "a.b"), draw(tmp_path / "c")
        assert [path.name for path in first] == ["a.b.png", "a.b.svg"]
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
        assert first[0].read_bytes().startswith(b"\x89PNG")
        ElementTree.parse(first[1])


def test_figures_are_drawn_in_other_processes_and_come_in_order(tmp_path):
    here = [*over_sizes([ROWS], ROOFS, "silu", "n", tmp_path / "a")]
    here += below_roofline([ROWS], ROOFS, "silu", tmp_path / "b")
    there = plots.draw_all(
        [
            partial(over_sizes, [ROWS], ROOFS, "silu", "n", tmp_path / "there" / "a"),
            partial(below_roofline, [ROWS], ROOFS, "silu", tmp_path / "there" / "b"),
        ]
    )
    assert [path.name for path in there] == ["a.png", "a.svg", "b.png", "b.svg"]
    assert [path.read_bytes() for path in there] == [path.read_bytes() for path in here]
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        plots.draw_all([partial(over_sizes, [ROWS], ROOFS, "silu", "n", tmp_path / "file" / "a")])
    assert plots.draw_all([]) == []


def test_speeds_are_in_gb_per_second_below_the_memory_roof(drawn):
    over_sizes([ROWS], ROOFS, "silu", "elements", Path("x"))
    (line, *_) = drawn.axes.get_lines()
    assert list(line.get_xdata()) == list(SIZES)
    assert list(line.get_ydata()) == pytest.approx([2800] * 3)
    assert drawn.axes.get_ylabel() == "GB/s"
    assert drawn.texts == {"memory: 3350 GB/s (data sheet)"}
    assert [tick.get_text() for tick in drawn.axes.get_xticklabels()] == ["1 Mi", "16 Mi", "64 Mi"]


def test_speeds_are_in_tflop_per_second_where_flop_are_counted(drawn):
    over_sizes([PRODUCT], ROOFS, "gemm", "M = N = K", Path("x"))
    (line, *_) = drawn.axes.get_lines()
    assert list(line.get_ydata()) == pytest.approx([760] * 2)
    assert drawn.axes.get_ylabel() == "TFLOP/s"
    assert drawn.texts == {"bfloat16: 989 TFLOP/s (data sheet)"}


def test_mixed_kernels_are_compared_by_bytes(drawn):
    over_sizes([ROWS, PRODUCT], None, "both", "n", Path("x"))
    assert drawn.axes.get_ylabel() == "GB/s"
    assert drawn.texts == set()


def test_a_point_stands_below_its_roof_by_its_share(drawn):
    below_roofline([PRODUCT], ROOFS, "gemm", Path("x"))
    point = drawn.axes.get_lines()[-1]
    assert point.get_xdata()[0] == pytest.approx(4096 / 3)
    assert point.get_ydata()[0] == pytest.approx(760)
    (legend,) = drawn.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["torch: 77 % of the compute roof"]
    assert drawn.texts == {"3350 GB/s (data sheet)", "bfloat16: 989 TFLOP/s (data sheet)"}


def test_where_flop_are_not_counted_the_distance_to_the_roof_is_still_right(drawn):
    below_roofline([ROWS], ROOFS, "silu", Path("x"))
    point = drawn.axes.get_lines()[-1]
    (x,), (y,) = point.get_xdata(), point.get_ydata()
    assert y * 1e12 / (x * ROOFS.bandwidth) == pytest.approx(2800 / 3350)
    assert "0.25 where FLOP are not counted" in drawn.axes.get_xlabel()


@pytest.mark.parametrize("series", [[], [Series("yours", "float16", ())]])
def test_with_nothing_timed_the_plots_are_empty_and_not_an_error(tmp_path, series):
    over_sizes(series, ROOFS, "silu", "elements", tmp_path / "a")
    below_roofline(series, ROOFS, "silu", tmp_path / "b")
    assert len(list(tmp_path.iterdir())) == 4


def test_everything_drawn_lies_inside_the_picture(drawn):
    many = [Series(f"kernel number {i}", "bfloat16", ROWS.points) for i in range(5)]
    below_roofline([*many, PRODUCT], ROOFS, "a title", Path("x"))
    outside = drawn.figure.bbox
    for legend in drawn.figure.legends:
        box = legend.get_window_extent()
        assert outside.x0 <= box.x0
        assert box.x1 <= outside.x1
        assert outside.y0 <= box.y0


def test_a_time_that_is_none_is_refused(tmp_path):
    wrong = Series("yours", "float16", (Point(1, -1.0, 100),))
    with pytest.raises(RooflineError, match="expected a time above 0"):
        below_roofline([wrong], ROOFS, "silu", tmp_path / "a")


def test_missing_matplotlib_is_said_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(plots.PlotsMissing, match=r"pip install matplotlib"):
        over_sizes([ROWS], ROOFS, "silu", "elements", tmp_path / "a")
    with pytest.raises(plots.PlotsMissing, match=r"pip install matplotlib"):
        plots.draw_all([partial(over_sizes, [ROWS], ROOFS, "silu", "n", tmp_path / "a")])
    plots.prepare()
    assert list(tmp_path.iterdir()) == []


def test_a_users_own_style_changes_nothing(tmp_path):
    import matplotlib

    plain = over_sizes([ROWS], ROOFS, "silu", "elements", tmp_path / "a")[0].read_bytes()
    with matplotlib.rc_context({"lines.linewidth": 9, "axes.facecolor": "red"}):
        styled = over_sizes([ROWS], ROOFS, "silu", "elements", tmp_path / "b")[0].read_bytes()
        assert matplotlib.rcParams["lines.linewidth"] == 9
    assert plain == styled


def test_evidence_becomes_points_by_growing_size():
    def timed(microseconds, moved):
        return PerformanceEvidence(
            Status.passed, case="n=1 dtype=float16", microseconds=microseconds, bytes=moved
        )

    series = series_of("yours", [(8, timed(2.0, 80)), (4, timed(1.0, 40)), (2, timed(None, 20))])
    assert series == Series("yours", "float16", (Point(4, 1.0, 40), Point(8, 2.0, 80)))
    assert series_of("none", []) == Series("none", "", ())
    assert point_of(timed(1.0, None), 1) is None
