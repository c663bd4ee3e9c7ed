"""CI of a kernel library: ends with status 1 where a kernel isn't correct.

    python docs/examples/kernel_ci.py kernels/ my_course/ [NAME ...]

The folder has the kernels, the course their specs and oracles. Names choose exercises or variants.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import warpgrade


def broken(
    kernels: Path, course: Path, only: Sequence[str] = ()
) -> list[tuple[str, warpgrade.CheckResult]]:
    """The variants that fail, by name. What the library doesn't have is no failure."""
    graded = warpgrade.grade(kernels, course=course, only=only, jobs=2)
    return [
        (f"{each.exercise}/{each.variant}", each)
        for each in graded.variants
        if each.status.is_failure and each.status is not warpgrade.Status.not_attempted
    ]


def main(kernels: str, course: str, *only: str) -> int:
    """Say what is wrong with each broken kernel."""
    failures = broken(Path(kernels), Path(course), only)
    for name, result in failures:
        print(f"{name}: {result.status.headline}: {result.message}")
        for failure in result.failures[:1]:
            print(f"  {failure.where} {failure.reproduce}".rstrip())
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} KERNELS COURSE [NAME ...]")
    sys.exit(main(*sys.argv[1:]))
