"""Simulated sequential tests: how often a kernel gets the same points, by its speed.

    python benchmarks/sequential_tests.py [--tests 1000]

A row per true ratio (as a share of the threshold) and noise of a pair's ratio; `run to run` is the
largest error of a whole test, uniformly distributed to both sides. Needs no clock and no GPU.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from rich.console import Console
from rich.table import Table

from grader.timing import sequential

DISTANCES = (-0.02, -0.01, -0.008, -0.006, -0.005, -0.004, -0.003, -0.002, 0.0, 0.004, 0.01)
AT = 0.9


class Series:
    """A contender with times from a list."""

    def __init__(self, name: str, times: list[float]) -> None:
        self.name = name
        self._times = iter(times)

    def seconds(self) -> float:
        return next(self._times)


def simulate(ratio: float, noise: float, offset: float, tests: int, draws) -> tuple[float, float]:
    """The share of tests that hold the threshold, and pairs per test."""
    held = pairs = 0
    for _ in range(tests):
        own, other = np.exp(draws.normal(0, noise / math.sqrt(2), (2, sequential.MAX_PAIRS)))
        other *= ratio * (1 + draws.uniform(-offset, offset))
        contenders = Series("candidate", own.tolist()), [Series("copy", other.tolist())]
        outcome = sequential.run(*contenders, {"copy": [AT]}, lambda: 0.0)
        held += outcome.baselines[0].ratio.high >= AT
        pairs += outcome.pairs
    return held / tests, pairs / tests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tests", type=int, default=1000)
    tests = parser.parse_args().tests
    draws = np.random.default_rng(2026)
    table = Table("true ratio", "noise", "run to run", "holds", "pairs", box=None)
    for noise, offset in ((0.003, 0.0), (0.003, 0.002), (0.01, 0.002), (0.03, 0.002)):
        for distance in DISTANCES:
            held, pairs = simulate(AT * (1 + distance), noise, offset, tests, draws)
            row = (f"{distance:+.2%}", f"{noise:.1%}", f"{offset:.1%}", f"{held:.1%}")
            table.add_row(*row, f"{pairs:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
