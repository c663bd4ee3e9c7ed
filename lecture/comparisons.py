"""What the lecture compares: four questions, each a few lines over some sizes.

gelu, softmax   what does one kernel for a formula gain over one for each operation?
matmul          how does the time grow with the size, and what do tensor cores change?
mlp             how does a step's time grow with layers and steps?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from grader.timing.bootstrap import Interval
from lecture import operators
from lecture.clock import Clock
from lecture.operators import Ways


@dataclass(frozen=True)
class Timing:
    """One point: a line's name, where it lies, and the time of a call in microseconds."""

    line: str
    x: int
    microseconds: Interval
    bytes: float = 0.0  # that must be moved, where that is counted
    flops: float | None = None


@dataclass(frozen=True)
class Comparison:
    """What one table and one plot show. `missing`: lines that couldn't be had, and why."""

    stem: str
    title: str
    x_name: str
    timings: tuple[Timing, ...]
    missing: dict[str, str] = field(default_factory=dict)
    drawn: tuple[str, ...] = ("rate",)  # what plots show: "rate" (GB/s, TFLOP/s), "time"


@dataclass(frozen=True)
class Sizes:
    """How large everything is."""

    gelu: Sequence[int] = (2**18, 2**20, 2**22, 2**24, 2**26, 2**27)  # elements
    softmax_rows: int = 4096
    softmax: Sequence[int] = (512, 1024, 2048, 4096, 8192, 16384)  # columns
    matmul: Sequence[int] = (256, 512, 1024, 2048, 4096, 8192)  # rows, columns and terms
    mlp_dim: int = 1024
    mlp_batch: int = 1024
    layers: Sequence[int] = (2, 4, 8, 16)
    steps: Sequence[int] = (1, 2, 4, 8)


Asked = Callable[[Clock, Sizes, Path], Comparison]


def gelu(clock: Clock, sizes: Sizes, folder: Path) -> Comparison:
    """Over elements, in float32."""
    ways = operators.gelu_ways()
    inputs = ((n, (n,)) for n in sizes.gelu)
    found = tuple(_of_ways(ways, clock, inputs, folder))
    return Comparison("gelu", "GELU", "elements (float32)", found, ways.missing)


def softmax(clock: Clock, sizes: Sizes, folder: Path) -> Comparison:
    """Over columns, in float32."""
    ways = operators.softmax_ways()
    inputs = ((cols, (sizes.softmax_rows, cols)) for cols in sizes.softmax)
    found = tuple(_of_ways(ways, clock, inputs, folder))
    x_name = f"columns of {sizes.softmax_rows} rows (float32)"
    return Comparison("softmax", "Softmax", x_name, found, ways.missing)


def matmul(clock: Clock, sizes: Sizes, folder: Path) -> Comparison:
    """The library's product of square matrices, on the CUDA cores and on tensor cores."""
    timings = []
    kinds = {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16}
    before = torch.get_float32_matmul_precision()
    try:
        for line, dtype in kinds.items():
            torch.set_float32_matmul_precision("high" if line == "tf32" else "highest")
            for n in sizes.matmul:
                a, b = (torch.randn(n, n, device=clock.device).to(dtype) for _ in range(2))
                time = clock.microseconds(partial(torch.matmul, a, b))
                moved = 3 * n * n * dtype.itemsize
                timings.append(Timing(line, n, time, moved, 2.0 * n**3))
    finally:
        torch.set_float32_matmul_precision(before)
    found = tuple(timings)
    return Comparison(
        "matmul", "Matrix product", "rows = columns = terms", found, drawn=("time", "rate")
    )


def mlp(clock: Clock, sizes: Sizes, folder: Path) -> Comparison:
    """Forward and backward through layers, so many steps in one go."""
    timings = []
    batch, dim = sizes.mlp_batch, sizes.mlp_dim
    for steps in sizes.steps:
        for layers in sizes.layers:
            work = training(layers, steps, dim, batch, clock.device)
            time = clock.microseconds(work)
            # A product forward, two backward, but for the first layer's gradient of the input.
            products = steps * (3 * layers - 1)
            line = f"{steps} step{'' if steps == 1 else 's'}"
            flops = 2.0 * products * batch * dim**2
            timings.append(Timing(line, layers, time, flops=flops))
    x_name = f"layers ({batch} rows of {dim}, float32)"
    return Comparison("mlp", "MLP, forward and backward", x_name, tuple(timings), drawn=("time",))


def training(layers: int, steps: int, dim: int, batch: int, device: str) -> Callable[[], None]:
    """What an MLP does in so many steps, without an optimiser."""
    made = [torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.GELU()) for _ in range(layers)]
    model = torch.nn.Sequential(*made).to(device)
    x = torch.randn(batch, dim, device=device)

    def work() -> None:
        for _ in range(steps):
            model.zero_grad(set_to_none=True)
            model(x).mean().backward()

    return work


EVERY: dict[str, Asked] = {"gelu": gelu, "softmax": softmax, "matmul": matmul, "mlp": mlp}


def _of_ways(
    ways: Ways, clock: Clock, inputs: Iterator[tuple[int, tuple[int, ...]]], folder: Path
) -> Iterator[Timing]:
    found = ways.of(clock.device, folder)
    for x, shape in inputs:
        given = torch.randn(shape, device=clock.device)
        for line, function in found.items():
            # Wrong and fast would be no comparison.
            torch.testing.assert_close(function(given), ways.own(given), rtol=1e-3, atol=1e-5)
            time = clock.microseconds(partial(function, given))
            yield Timing(line, x, time, 2 * given.nbytes)
