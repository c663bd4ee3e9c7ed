"""`python -m lecture`: time the lecture's comparisons on this GPU, for the handout."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.gpu import machine, nvml
from grader.gpu.roofline import Roofs, peaks
from grader.gpu.state import GpuState, Observed, troubles
from grader.instruments.plots import PlotsMissing
from lecture import results
from lecture.clock import REPETITIONS, Clock
from lecture.comparisons import EVERY, Comparison, Sizes

NO_GPU = (
    "No NVIDIA GPU that torch can use: the lecture's comparisons are timed on one. Nothing ran."
)


def main(words: Sequence[str] | None = None) -> None:
    """Time what is asked for; without a GPU, say so and end well."""
    parser = argparse.ArgumentParser(prog="python -m lecture", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/lecture"), metavar="DIR")
    parser.add_argument("--only", action="append", choices=EVERY, help="may be repeated")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, metavar="N")
    given = parser.parse_args(words)
    console = Console()
    gpu = machine.gpu_properties()
    if gpu is None:
        console.print(NO_GPU)
        return
    before = nvml.observe(gpu.uuid or None, None)
    known = peaks(gpu.name)
    clock = Clock("cuda", given.repetitions)
    compare(
        clock,
        Sizes(),
        given.only or list(EVERY),
        gpu.name,
        None if known is None else known.roofs(),
        given.out,
        console,
    )
    for sentence in noise(before, nvml.observe(gpu.uuid or None, before)):
        console.print(Text(sentence, "yellow"))


def compare(
    clock: Clock,
    sizes: Sizes,
    names: list[str],
    device: str,
    roofs: Roofs | None,
    out: Path,
    console: Console,
) -> list[Comparison]:
    """Time comparisons and leave each as soon as it is done: NAME.md, NAME.png, NAME.svg (and
    matmul-rate); then all of them as lecture.json. Raises OSError."""
    out.mkdir(parents=True, exist_ok=True)
    every: list[Comparison] = []
    with tempfile.TemporaryDirectory(prefix="warpgrade-") as folder:
        for name in names:
            every.append(found := EVERY[name](clock, sizes, Path(folder)))
            console.print(results.table(found))
            for line, reason in found.missing.items():
                console.print(Text(f"{line} is left out: {reason}", "yellow"))
            text = results.markdown(found, device, clock.note)
            (out / f"{found.stem}.md").write_text(text, encoding="utf-8")
            try:
                results.draw(found, device, roofs, out)
            except PlotsMissing as error:
                console.print(Text(str(error), "yellow"))
    file = out / "lecture.json"
    file.write_text(results.to_json(every, device, clock.note), encoding="utf-8")
    console.print(Text(clock.note, "dim"))
    console.print(Text(f"Tables and plots are in {out}."))
    return every


def noise(before: Observed, after: Observed) -> list[str]:
    """What was in the way meanwhile."""
    if not isinstance(before, GpuState) or not isinstance(after, GpuState):
        return []
    return list(troubles(before, after, {os.getpid()}))


if __name__ == "__main__":
    main()
