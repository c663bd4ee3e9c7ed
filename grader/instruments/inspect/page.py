"""Kernels as one self-contained page: no script, nothing fetched, for wide and narrow windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.instruments.inspect import listing, terminal
from grader.instruments.inspect.findings import Finding
from grader.instruments.inspect.kernels import Inspected, Kernel
from grader.report.html import template

HERE = Path(__file__).parent
STAGES = {
    "sass": "SASS, the machine code",
    "ptx": "PTX",
    "ttgir": "TTGIR: with layouts",
    "ttir": "TTIR",
}
MOST_STATEMENTS = 20_000  # of one stage on a page


@dataclass(frozen=True)
class Part:
    """One kernel of a page."""

    inspected: Inspected
    kernel: Kernel
    findings: Sequence[Finding]


def render(parts: Sequence[Part]) -> str:
    """The page. All that comes from a submission or its compilers is cleaned and escaped."""
    names = dict.fromkeys(str(each.inspected.task) for each in parts)
    return template("page.html", HERE).render(
        title=", ".join(names), parts=[_part(n, each) for n, each in enumerate(parts, 1)]
    )


def _part(number: int, part: Part) -> dict[str, Any]:
    kernel, made = part.kernel, part.inspected
    return {
        "number": number,
        "task": str(made.task),
        "case": str(made.case),
        "title": listing.title(kernel, max(each.number for each in made.kernels)),
        "configuration": terminal.configuration(made),
        "arguments": kernel.arguments,
        "options": ", ".join(f"{name}={value}" for name, value in kernel.options.items()),
        "resources": listing.resources(kernel),
        "findings": part.findings,
        "no_sass": kernel.code.no_sass,
        "stages": list(_stages(number, part)),
    }


def _stages(number: int, part: Part) -> Iterator[dict[str, Any]]:
    for stage, title in STAGES.items():
        if stage not in part.kernel.stages:
            continue
        rows = listing.rows(part.kernel, stage, part.inspected.sources, part.findings)
        left = MOST_STATEMENTS
        shown = []
        file = part.inspected.task.variant.file
        for row in rows:
            # Of a lab of several files, each is named where it begins.
            begins = row.place.file if row.place and row.place.file != file else ""
            file = begins or file
            code = row.code[: max(0, left)]
            left -= len(row.code)
            shown.append(
                {
                    "begins": begins,
                    "place": str(row.place) if row.place else "",
                    "line": row.place.line if row.place else "",
                    "source": row.source,
                    "findings": row.findings,
                    "code": [(listing.kind_of(each), each.text.strip()) for each in code],
                }
            )
        yield {
            "id": f"{number}-{stage}",
            "name": stage.upper(),
            "title": title,
            "rows": shown,
            "left_out": max(0, -left),
        }
