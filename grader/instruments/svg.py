"""Drawings as SVG, by hand: the same bytes each time, readable in dark and light, with words for
those who don't see them."""

from __future__ import annotations

import hashlib
from xml.sax.saxutils import escape

# Okabe and Ito's colours, which colour-blind people tell apart: on light, and on dark.
COLOURS = {
    "blue": ("#9ecae8", "#1f5f8b"),
    "orange": ("#f5c07a", "#8a5a00"),
    "green": ("#8fd6bd", "#0b6b50"),
    "red": ("#f0a98c", "#a33c0c"),
    "pink": ("#e5bcd3", "#7d4766"),
    "grey": ("#e3e6ea", "#363c44"),
}
_STYLE = """\
text{font:13px system-ui,sans-serif;fill:#1b1f24}.small{font-size:11px}.bold{font-weight:600}
.code{font-family:ui-monospace,monospace;font-size:12px}.dim{fill:#57606a}
.page{fill:#fff}.line{stroke:#57606a;fill:none}.edge{stroke:#57606a;stroke-width:.75}
.dash{stroke:#57606a;stroke-dasharray:4 3;fill:none}.thick{stroke-width:2.5}
%s
@media(prefers-color-scheme:dark){text{fill:#e6e9ed}.dim{fill:#a5afba}.page{fill:#14171b}
.line,.edge,.dash{stroke:#a5afba}%s}"""
_FILLS = [
    "".join(f".{name}{{fill:{pair[dark]}}}" for name, pair in COLOURS.items()) for dark in (0, 1)
]
STYLE = _STYLE % tuple(_FILLS)


class Drawing:
    """Shapes from the top left, in pixels. A kind is one or more of the style's classes."""

    def __init__(self, width: float, height: float, title: str, description: str) -> None:
        self.width, self.height = width, height
        self._title, self._description = title, description
        self._parts: list[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, kind: str, tip: str = ""
    ) -> None:
        """A box; `tip` is shown where the pointer rests on it."""
        size = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
        inner = f"><title>{escape(tip)}</title></rect>" if tip else "/>"
        self._parts.append(f'<rect class="{kind}" {size}{inner}')

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """A line of text: `y` is its base."""
        anchored = f' text-anchor="{anchor}"' if anchor != "start" else ""
        classes = f' class="{kind}"' if kind else ""
        self._parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}"{anchored}{classes}>{escape(text)}</text>'
        )

    def label(self, x: float, y: float, width: float, height: float, text: str, kind: str) -> None:
        """A box with a text in its middle."""
        self.rect(x, y, width, height, kind)
        self.text(x + width / 2, y + height / 2 + 4.5, text, anchor="middle")

    def line(
        self, points: list[tuple[float, float]], kind: str = "line", arrow: bool = False
    ) -> None:
        """A line through points, with a head at its end where it is an arrow."""
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        head = ' marker-end="url(#head)"' if arrow else ""
        self._parts.append(f'<polyline class="{kind}" points="{path}"{head}/>')

    def render(self, is_file: bool = True) -> str:
        """The SVG: a file, or a part of a page, which has STYLE itself."""
        key = hashlib.sha256(self._title.encode()).hexdigest()[:8]
        style = f"<style>{STYLE}</style>" if is_file else ""
        head = (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path class="line" d="M0 0L7 4L0 8"/></marker></defs>'
        )
        size = f'viewBox="0 0 {_n(self.width)} {_n(self.height)}"'
        if is_file:
            size += f' width="{_n(self.width)}" height="{_n(self.height)}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"'
            f' aria-labelledby="t{key} d{key}">',
            f'<title id="t{key}">{escape(self._title)}</title>',
            f'<desc id="d{key}">{escape(self._description)}</desc>',
            style + head,
            f'<rect class="page" width="{_n(self.width)}" height="{_n(self.height)}"/>',
            *self._parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def _n(value: float) -> str:
    """A number with two decimals at most, the same on each machine."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
