"""How the grader's packages hang together: counts, and what must not be. Run by `make lint`.

    python tests/house.py

Prints how many modules and packages stand directly under grader/ (at most 30), how many arrows lie
between packages, and each circle of modules. Exit status 1 where there are too many, or a circle.
That no import goes up is import-linter's to say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "grader"
MOST_DIRECTLY = 30
Arrows = Mapping[str, set[str]]


def main() -> int:
    """Print; the exit status."""
    sys.path.insert(0, str(ROOT))
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)
    directly = sorted(graph.find_children(PACKAGE))
    arrows = {name: graph.find_modules_directly_imported_by(name) for name in sorted(graph.modules)}
    between = {
        (_under(name), _under(other))
        for name, others in arrows.items()
        for other in others
        if _under(name) != _under(other)
    }
    print(
        f"{len(directly)} modules and packages directly under {PACKAGE}/ (most: {MOST_DIRECTLY}), "
        f"{len(arrows)} modules in all, {len(between)} arrows between packages"
    )
    found = list(circles(arrows))
    for circle in found:
        print(f"a circle: {' -> '.join([*circle, circle[0]])}")
    return int(bool(found) or len(directly) > MOST_DIRECTLY)


def _under(name: str) -> str:
    """What a module is part of, directly under the package."""
    return ".".join(name.split(".")[:2])


def circles(arrows: Arrows) -> Iterator[list[str]]:
    """Modules that import each other, a list for each group (Tarjan's algorithm, 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_modules: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        open_modules.append(name)
        for other in sorted(arrows.get(name, ())):
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in open_modules:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            place = open_modules.index(name)
            if len(open_modules) - place > 1:
                found.append(open_modules[place:])
            del open_modules[place:]

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * len(arrows) + 1000))
    for name in arrows:
        if name not in number:
            visit(name)
    yield from found


if __name__ == "__main__":
    raise SystemExit(main())
