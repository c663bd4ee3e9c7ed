"""Times the reference kernels and their peers on this GPU, and compares them with goals: a table.

    python benchmarks/reference_kernels.py [--only KERNEL]... [--out FOLDER] [--seconds S]
                                                 [--slow-peers]

Each kernel is timed as it is graded (reference/) and, if there is one, the expert's version
(reference/expert/). The peers are a copy of the same bytes, torch, torch.compile, cuBLAS
(torch.mm), torch's attention by cuDNN and by its flash kernel, flex attention, and Liger's kernels
where liger_kernel is installed. --slow-peers adds torch.compile's max-autotune ("tuned"), and flex
attention for all sequences, which takes minutes. Contenders take turns in rounds, with a cold L2
cache (kernels/rounds.py); results are compared with float64 (kernels/checking.py). Exit status 1
where a result is wrong; a missed goal is no error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.text import Text  # noqa: E402

from benchmarks.kernels import table, versions  # noqa: E402
from benchmarks.kernels.course import outcome  # noqa: E402
from benchmarks.kernels.goals import Case, every_case  # noqa: E402
from benchmarks.kernels.judging import Outcome  # noqa: E402
from benchmarks.kernels.rounds import Effort  # noqa: E402
from grader.gpu import machine, nvml, state  # noqa: E402
from grader.gpu.roofline import peaks  # noqa: E402

PACKAGES = ("torch", "triton", "liger_kernel", "nvidia-cublas", "nvidia-cudnn-cu13")
NO_GPU = "No NVIDIA GPU that torch can use: the kernels are timed on one. Nothing ran."


def main(words: Sequence[str] | None = None) -> None:
    """Time the selected kernels, print the table, and write it to a folder."""
    given = _arguments(words)
    cases = [case for case in every_case() if not given.only or case.kernel in given.only]
    if given.list:
        for case in cases:
            print(f"{case.kernel:16} {case.label:22} {_asked(case)}")
        return
    properties = machine.gpu_properties()
    if properties is None:
        raise SystemExit(NO_GPU)
    said = Console(stderr=True, width=table.WIDTH)
    started = time.monotonic()
    before = nvml.observe(properties.uuid or None)
    with tempfile.TemporaryDirectory(prefix="warpgrade-") as folder:
        found = timed(cases, Path(folder), given, said)
    after = nvml.observe(properties.uuid or None, before)
    seconds = time.monotonic() - started
    about = {
        **environment(),
        "seconds": round(seconds, 1),
        "seed": given.seed,
        "gpu_before": before.as_dict(),
        "gpu_after": after.as_dict(),
        "troubles": state.troubles(before, after, {os.getpid()}),
    }
    text = report(found, about, Console(width=table.WIDTH))
    if given.out:
        leave(given.out, found, about, text)
    if any(each.wrong for result in found for each in result.checked.values()):
        raise SystemExit(1)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="reference_kernels.py", description=__doc__.splitlines()[0]
    )
    names = list(dict.fromkeys(case.kernel for case in every_case()))
    parser.add_argument("--only", action="append", choices=names, help="may be repeated")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="kernels.json and kernels.txt")
    parser.add_argument("--slow-peers", action="store_true", help="also max-autotune: minutes")
    parser.add_argument("--rounds", type=int, default=Effort.rounds, metavar="N", help="at most")
    parser.add_argument("--seconds", type=float, metavar="S", help="begin no case after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print cases and goals; needs no GPU")
    given = parser.parse_args(words)
    if given.rounds < 2:
        parser.error(f"--rounds: expected 2 or more, got {given.rounds}")
    if given.seconds is not None and given.seconds <= 0:
        parser.error(f"--seconds: expected above 0, got {given.seconds:g}")
    return given


def _asked(case: Case) -> str:
    """A case's goals, in words."""
    aims = []
    for aim in case.aims:
        goals = ", ".join(f"{goal.peer} {goal.at_least:.2f}" for goal in aim.goals)
        aims.append(f"{' or '.join(aim.by)}: {goals}")
    return "; ".join(aims)


def timed(
    cases: list[Case], folder: Path, given: argparse.Namespace, said: Console
) -> list[Outcome]:
    """Time all cases, and report progress."""
    began = time.monotonic()
    said.print(
        "compiling; every version is called once, in processes of their own ...", style="dim"
    )
    versions.build(cases, folder)
    unfit = versions.tried(cases, folder)
    effort = Effort(given.rounds, fewest=min(Effort.fewest, given.rounds))
    found: list[Outcome] = []
    try:
        for case in cases:
            so_far = time.monotonic() - began
            if given.seconds and so_far > given.seconds:
                break
            # No progress bar: its thread would run during a timing.
            if not found or found[-1].case.kernel != case.kernel:
                said.print(f"{so_far:3.0f} s  {case.kernel} ...", style="dim")
            found.append(outcome(case, folder, unfit, given.slow_peers, effort, given.seed))
    except KeyboardInterrupt:
        said.print("interrupted", style="yellow")
    if len(found) < len(cases):
        first = cases[len(found)]
        said.print(f"not timed: {first.kernel} {first.label} and what follows it", style="yellow")
    said.print(f"{time.monotonic() - began:3.0f} s  done", style="dim")
    return found


def report(found: list[Outcome], about: dict[str, Any], console: Console) -> str:
    """Print it all, and return it as text."""
    with console.capture() as captured:
        console.print(Text(table.ABOUT, "dim"))
        for each in table.tables(found):
            console.print(each)
            console.print()
        for mean in table.means(found):
            console.print(Text(str(mean)))
        for line in table.missed(found):
            console.print(Text(f"missed: {line}", "yellow"))
        for line in table.notes(found):
            console.print(Text(f"left out: {line}", "dim"))
        for line in about["troubles"]:
            console.print(Text(line, "yellow"))
        console.print(Text(table.errors(found)))
        console.print(Text(f"{table.tally(found)}. {table.described(about)}"))
    text = captured.get()
    print(text, end="")
    return text


def environment() -> dict[str, Any]:
    """Versions and machine that times may depend on."""
    found = {name: machine.version_of(name) for name in PACKAGES}
    properties = machine.gpu_properties()
    assert properties is not None, "main() has looked for a GPU"
    return {
        "gpu": properties.name,
        "properties": asdict(properties),
        "l2_bytes": torch.cuda.get_device_properties(0).L2_cache_size,
        "packages": {name: version for name, version in found.items() if version},
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "python": platform.python_version(),
    }


def leave(folder: Path, found: list[Outcome], about: dict[str, Any], text: str) -> None:
    """Write kernels.json and kernels.txt. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    known = peaks(about["gpu"])
    roofs = None if known is None else known.roofs()
    document = {**about, "cases": [table.as_dict(each, roofs) for each in found]}
    (folder / "kernels.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    (folder / "kernels.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
