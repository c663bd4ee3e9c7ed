"""Autotuning without times: each configuration is noted as a trial, and the first one is chosen.

Triton's Autotuner is real; only its benchmark function is replaced. Configurations that don't
compile for a GPU are noted too, and not chosen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import triton.testing
from triton.runtime import autotuner
from triton.runtime.errors import OutOfResources

from ..compile import tuned
from . import fake_tensors
from .notes import note

_ticks = itertools.count(1)
_tuners: list[Any] = []  # currently choosing, the innermost last
_passed_over: set[str] = set()  # configurations that don't compile, by tuned.digest
_tuned: tuple[Any, set[int]] = (None, set())  # a plan's recorder, and the tuners that have chosen


def pass_over(keys: Iterable[str]) -> None:
    """Exclude configurations (by tuned.digest) that don't fit the GPU.

    The grader finds them with the compilers, which takes seconds; planners don't.
    """
    _passed_over.update(keys)


def check(described: dict[str, Any]) -> None:
    """Raise what Triton raises for a configuration that a tuner excludes."""
    is_trial = bool(_tuners) and fake_tensors.active_recorder().trial >= 0
    if is_trial and _passed_over and tuned.digest(described) in _passed_over:
        raise OutOfResources(0, 0, "what the compilers have found missing")


def benchmark(call: Callable[[], Any], *_: Any, quantiles: Any = None, **__: Any) -> Any:
    """Note the launches of one configuration as a trial; each takes longer than the one before."""
    recorder = fake_tensors.active_recorder()
    outer = recorder.trial
    if outer < 0:
        recorder.trial = recorder.trials
    try:
        call()
    finally:
        recorder.trial = outer
    time = float(next(_ticks))
    return [time] * len(quantiles) if quantiles else time


def benchmark_by_hand(call: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
    """triton.testing.do_bench: its calls are noted as a trial, without times."""
    recorder = fake_tensors.active_recorder()
    if recorder.trial < 0 and not _tuners:
        note("triton.testing.do_bench")
        recorder.trials += 1
    return benchmark(call, *args, **kwargs)


def install() -> None:
    """Replace Triton's functions by these, for the rest of the process."""
    triton.testing.do_bench = triton.testing.do_bench_cudagraph = benchmark_by_hand
    original = autotuner.Autotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        _forget_other_plans(self)
        fake_tensors.active_recorder().trials += 1
        _tuners.append(self)
        try:
            return original(self, *args, **kwargs)
        finally:
            _tuners.pop()

    autotuner.Autotuner.run = run
    # A cache on disk would outlive the process.
    if hasattr(autotuner.Autotuner, "check_disk_cache"):
        autotuner.Autotuner.check_disk_cache = lambda self, key, configs, tune: tune()


def _forget_other_plans(tuner: Any) -> None:
    """Make a tuner choose anew in each plan, so that its trials show its configurations."""
    global _tuned
    if _tuned[0] is not fake_tensors.recorder:
        _tuned = (fake_tensors.recorder, set())
    if id(tuner) not in _tuned[1]:
        _tuned[1].add(id(tuner))
        tuner.cache.clear()
