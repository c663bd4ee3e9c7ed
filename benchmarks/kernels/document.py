"""Writes the tables of docs/performance.md from the results of reference_kernels.py.

    python -m benchmarks.kernels.document results/reference/kernels.json [--document FILE]

A table is between `<!-- measured: KERNEL -->` and `<!-- end -->`; `about` is the machine. Their
contents are replaced; a kernel that wasn't timed keeps its table. From several runs, a kernel has
the figures of the last in which it was timed.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.kernels.goals import VERSIONS
from benchmarks.kernels.table import described

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
PART = re.compile(r"<!-- measured: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
MATH = frozenset({"gemm", "gemm_cuda", "flash_attention"})  # with a rate in operations

Measured = dict[str, Any]  # kernels.json


def written(text: str, *runs: Measured) -> str:
    """The document with updated tables."""
    last = {each["kernel"]: run for run in runs for each in run["cases"]}

    def part(found: re.Match[str]) -> str:
        name = found[1]
        if name == "about":
            return _between(name, about(*runs))
        if name not in last:
            return found[0]
        cases = [each for each in last[name]["cases"] if each["kernel"] == name]
        return _between(name, table(cases))

    return PART.sub(part, text)


def _between(name: str, text: str) -> str:
    return f"<!-- measured: {name} -->\n{text}\n<!-- end -->"


def about(*runs: Measured) -> str:
    """The machine, the packages and the state of the goals, in a few sentences."""
    last = {each["kernel"]: run for run in runs for each in run["cases"]}
    cases = [each for run in runs for each in run["cases"] if last[each["kernel"]] is run]
    verdicts = [goal["verdict"] for each in cases for goal in each["goals"]]
    checked = [c for each in cases for c in each["checked"].values()]
    right = sum(not each["wrong"] for each in checked)
    told = [described(runs[0])]
    for run in runs[1:]:
        kernels = ", ".join(dict.fromkeys(each["kernel"] for each in run["cases"]))
        told.append(f"In another run ({kernels}): {described(run)}")
    return (
        f"{' '.join(told)} Of {len(verdicts)} goals of single cases {verdicts.count('yes')} "
        f"are reached. {right} of {len(checked)} results are right against float64, and bitwise "
        "the same in five calls."
    )


def table(cases: list[Measured]) -> str:
    """A Markdown table with a row for each version of a case."""
    peers = list(dict.fromkeys(p for each in cases for r in each["ratios"].values() for p in r))
    unit = "TFLOP/s" if cases[0]["kernel"] in MATH else "GB/s"
    head = ["case", "version", "us", unit, "of the floor", *(f"/ {each}" for each in peers), "goal"]
    lines = [_row(head), _row(["---"] * 2 + ["---:"] * (len(head) - 3) + ["---"])]
    for case in cases:
        label = case["label"]
        for version in (each for each in VERSIONS if each in case["ratios"]):
            lines.append(_row(_cells(case, version, peers, label)))
            label = ""
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(case: Measured, version: str, peers: list[str], label: str) -> list[str]:
    took = case["microseconds"][version]["median"]
    work = case["flops"] / 1e6 if case["kernel"] in MATH else case["bytes"] / 1e3
    least = max(case["least_microseconds"].values(), default=None)
    ratios = case["ratios"][version]
    return [
        label,
        version,
        f"{took:.0f}" if took >= 1000 else f"{took:.1f}",
        f"{work / took:.0f}",
        f"{least / took:.2f}" if least else "",
        *(f"{ratios[each]['median']:.3f}" if each in ratios else "" for each in peers),
        _goal(case, version),
    ]


def _goal(case: Measured, version: str) -> str:
    """The goals that the version misses; "yes" where there is none."""
    found = []
    for aim in case["goals"]:
        if version not in aim["by"]:
            continue
        for goal in aim["goals"]:
            ratio = case["ratios"][version].get(goal["peer"])
            if ratio is not None and ratio["median"] < goal["at_least"]:
                found.append(f"{goal['at_least']:.2f} of {goal['peer']}")
    if found:
        return "not " + ", ".join(found)
    return "yes" if any(version in aim["by"] for aim in case["goals"]) else ""


def main() -> None:
    """Rewrite the document."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("measured", type=Path, nargs="+", metavar="KERNELS.JSON")
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    given = parser.parse_args()
    try:
        runs = [json.loads(each.read_text(encoding="utf-8")) for each in given.measured]
        text = written(given.document.read_text(encoding="utf-8"), *runs)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except (ValueError, KeyError) as error:
        files = ", ".join(map(str, given.measured))
        parser.error(f"{files}: expected what reference_kernels.py leaves, got {error!r}")
    given.document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
