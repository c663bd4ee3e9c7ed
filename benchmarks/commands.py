"""Times the commands that students wait for, without a GPU, compared with an older commit.

    python benchmarks/commands.py [--before FOLDER] [--rounds N] [--only NAME]... [--json F]

A round runs every command once, directly followed by the older commit's (a working tree in FOLDER,
run with this Python), so that both meet the same machine. Each commit has a cache of its own, empty
at the start: "first" is a run with an empty cache, "again" the one after. Times are also given in
imports, the time of `import torch, triton` in the same round. Medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
IMPORT = "import"
COMMANDS: Mapping[str, tuple[str, ...]] = {
    IMPORT: ("-c", "import torch, triton"),
    "check": ("-m", "grader", "check", "silu", "--submission", "reference"),
    "pytest": ("-m", "pytest", "-q", "-k", "rmsnorm", "--submission", "reference"),
    "grade": ("-m", "grader", "grade", "reference"),
}
GOALS = {"check": 2.5, "pytest": 2.5}  # imports
Key = tuple[str, str]  # command, and "first" or "again"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=[*COMMANDS][1:], default=[])
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    chosen = [name for name in COMMANDS if not given.only or name in (IMPORT, *given.only)]
    seen: defaultdict[Key, list[float]] = defaultdict(list)
    for _ in range(given.rounds):
        for key, seconds in one_round(chosen, given.before):
            seen[key].append(seconds)
            print(f"{' '.join(key):16} {seconds:6.2f} s", flush=True)
    if given.json:
        given.json.write_text(json.dumps({" ".join(key): times for key, times in seen.items()}))
    Console(width=90).print(table(seen))


def one_round(chosen: list[str], before: Path | None) -> Iterator[tuple[Key, float]]:
    """Run every command twice, first with an empty cache; the older commit's only again."""
    caches = {folder: tempfile.mkdtemp(prefix="warpgrade-bench-") for folder in (ROOT, before)}
    try:
        for name in chosen:
            if name == IMPORT:
                yield (name, ""), timed(name, ROOT, caches[ROOT])
                continue
            if before is not None:
                timed("check", before, caches[before])  # its emulator is built, too
                yield (name, "before"), timed(name, before, caches[before])
            shutil.rmtree(Path(caches[ROOT]) / "warpgrade", ignore_errors=True)
            timed("check", ROOT, caches[ROOT])
            for kept in (Path(caches[ROOT]) / "warpgrade").glob("kernels.sqlite*"):
                kept.unlink()
            yield (name, "first"), timed(name, ROOT, caches[ROOT])
            yield (name, "again"), timed(name, ROOT, caches[ROOT])
    finally:
        for folder in caches.values():
            shutil.rmtree(folder, ignore_errors=True)


def timed(name: str, checkout: Path, cache: str) -> float:
    """Seconds of a command in a working tree."""
    environment = os.environ | {"PYTHONPATH": str(checkout.resolve()), "XDG_CACHE_HOME": cache}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *COMMANDS[name]], cwd=checkout, env=environment, capture_output=True
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{name} in {checkout}: exit status {done.returncode}\n{done.stderr!r}")
    return seconds


def table(seen: Mapping[Key, list[float]]) -> Table:
    """The medians, in seconds, in imports and relative to the older commit."""
    median = {key: statistics.median(times) for key, times in seen.items()}
    shown = Table("command", "s", "imports", "goal", "of before")
    for (name, run), seconds in median.items():
        before = median.get((name, "before"))
        imports = seconds / median[IMPORT, ""]
        goal = GOALS.get(name) if run != "before" else None
        shown.add_row(
            f"{name} {run}",
            f"{seconds:.2f}",
            f"{imports:.1f}",
            f"{goal:g}" if goal else "",
            f"{seconds / before:.2f}" if before else "",
            style="red" if goal and imports > goal else "",
        )
    return shown


if __name__ == "__main__":
    main()
