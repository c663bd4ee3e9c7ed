"""An empty figure in the plots' style, and its two files, a PNG and an SVG.

Needs matplotlib (extra [plots]), which is imported when something is drawn. Figures are made
without pyplot, so that no display and no global state is involved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_STYLE: Any = {  # matplotlib's own type names every key there is
    "svg.hashsalt": "warpgrade",  # or ids in the SVG would be random
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 10,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
SIZE = (7.2, 4.4)  # inches
_DPI = 150

MISSING = "plots need matplotlib: .venv/bin/pip install matplotlib"


class PlotsMissing(RuntimeError):
    """matplotlib isn't installed; the message says how to get it."""


def prepare() -> None:
    """Import matplotlib before the first figure does; nothing where it isn't installed."""
    with suppress(ImportError):
        import matplotlib.backends.backend_agg  # noqa: F401


@contextmanager
def figure(size: tuple[float, float] = SIZE) -> Iterator[Any]:
    """An empty figure of so many inches, in our style. Raises PlotsMissing."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlotsMissing(MISSING) from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # not what a user's matplotlibrc says
        matplotlib.rcParams.update(_STYLE)
        made = Figure(figsize=size, dpi=_DPI, layout="constrained")
        FigureCanvasAgg(made)
        yield made


def save(figure: Any, stem: Path) -> tuple[Path, Path]:
    """Both files, without the date and the version that would differ."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    figure.savefig(png, format="png", metadata={"Software": None})
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return png, svg
