"""Profiles as one self-contained page: no script, nothing fetched, for wide and narrow windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from grader.instruments import svg
from grader.instruments.profile import drawings, sentences, tables
from grader.instruments.profile.read import Profile
from grader.instruments.profile.tools import METRICS, ToolReport
from grader.report.html import template

HERE = Path(__file__).parent
_ROWS = 30  # of a table


@dataclass(frozen=True)
class Part:
    """One program, and what NVIDIA's tools say of it."""

    profile: Profile
    reports: Sequence[ToolReport] = ()


def render(parts: Sequence[Part], above: Sequence[str]) -> str:
    """The page, with lines above everything."""
    return template("page.html", HERE).render(
        style=Markup(svg.STYLE),
        above=above,
        parts=[_part(each) for each in parts],
        columns=tables.COLUMNS | sentences.TERMS,
        metrics=METRICS,
    )


def _part(part: Part) -> dict[str, Any]:
    profile = part.profile
    return {
        "title": sentences.headline(profile),
        "facts": sentences.facts(profile),
        "findings": sentences.findings(profile),
        "timeline": Markup(drawings.timeline(profile).render(is_file=False)),
        "flames": Markup(drawings.flame_graph(profile).render(is_file=False)),
        "kernels": tables.kernels(profile)[:_ROWS],
        "operators": tables.operators(profile)[:_ROWS],
        "short": tables.short_name,
        "reports": [
            {
                "report": report,
                "rows": [
                    (metric, meaning, tables.by_kernel(report.counted, metric))
                    for metric, meaning in METRICS.items()
                    if report.counted
                ],
            }
            for report in part.reports
        ],
    }
