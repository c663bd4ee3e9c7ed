"""A case from its inputs to its times: made, checked, timed."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path

import torch

from benchmarks.kernels import rounds
from benchmarks.kernels.checking import Truth, check
from benchmarks.kernels.goals import VERSIONS, Case
from benchmarks.kernels.judging import Checked, Outcome
from benchmarks.kernels.kernels import KERNELS
from benchmarks.kernels.peers import Call, Given, Make, Outputs, peers_of
from benchmarks.kernels.rounds import Contender, Effort
from benchmarks.kernels.versions import DEVICE, is_there, load, reason
from lecture.kernels import Missing


@torch.no_grad()
def outcome(
    case: Case,
    built: Path,
    unfit: Mapping[tuple[Case, str], str],
    slow: bool = False,
    effort: Effort | None = None,
    seed: int = 1,
) -> Outcome:
    """The outcome of a case. `unfit` has the versions that failed when they were tried, and why.

    A version that isn't available, or computes something else, is `missing`; the rest is timed.
    """
    torch.manual_seed(seed)
    kernel = KERNELS[case.kernel]
    moved, flops = kernel.moved(case), kernel.flops(case)
    sets = rounds.sets_for(moved, torch.cuda.get_device_properties(0).L2_cache_size)
    buffers = [(kernel.given(case, DEVICE), kernel.outputs(case, DEVICE)) for _ in range(sets)]
    missing: dict[str, str] = {}
    truth = Truth(kernel.stem, buffers[0][0])
    checked, calls = _versions(case, built, unfit, buffers[0], truth, missing)
    calls |= _peers(case, slow, buffers[0], truth, missing)
    del truth
    torch.cuda.empty_cache()
    contenders = {name: _contender(call, buffers) for name, call in calls.items()}
    for each in contenders.values():
        each.warm_up()
    times, stretch = rounds.time_in_rounds(contenders, effort or Effort(), seed)
    found = Outcome(case, moved, flops, times, checked, missing, stretch, sets)
    del contenders, buffers, calls
    gc.collect()
    torch.cuda.empty_cache()
    return found


def _contender(call: Call, buffers: list[tuple[Given, Outputs]]) -> Contender:
    return Contender(lambda at: call(*buffers[at]), len(buffers))


def _versions(
    case: Case,
    built: Path,
    unfit: Mapping[tuple[Case, str], str],
    buffers: tuple[Given, Outputs],
    truth: Truth,
    missing: dict[str, str],
) -> tuple[dict[str, Checked], dict[str, Call]]:
    """The right versions."""
    checked: dict[str, Checked] = {}
    calls: dict[str, Call] = {}
    for version in VERSIONS:
        if not is_there(case, version):
            continue
        if failed := unfit.get((case, version)):
            missing[version] = failed
            continue
        try:
            call = load(case, version, built)
            checked[version] = check(call, *buffers, truth)
        except Missing as error:
            missing[version] = str(error)
        except Exception as error:  # a kernel's own: it is reported, and the others are timed
            missing[version] = reason(error)
        else:
            if wrong := checked[version].wrong:
                missing[version] = f"wrong: {wrong}"
            else:
                calls[version] = call
    return checked, calls


def _peers(
    case: Case,
    slow: bool,
    buffers: tuple[Given, Outputs],
    truth: Truth,
    missing: dict[str, str],
) -> dict[str, Call]:
    calls: dict[str, Call] = {}
    torch.compiler.reset()  # else compilations for other cases count towards its limit
    for name, make in peers_of(case, slow).items():
        try:
            calls[name] = _peer(name, make, case, buffers, truth)
        except ImportError:
            missing[name] = "not installed"
        except Exception as error:  # of torch's compilers, which fail in many ways
            missing[name] = reason(error)
    return calls


def _peer(name: str, make: Make, case: Case, buffers: tuple[Given, Outputs], truth: Truth) -> Call:
    """Raises ValueError where it computes something else, and its own exceptions."""
    call = make(case)
    given, outputs = buffers
    returned = call(given, outputs)
    result = returned if isinstance(returned, torch.Tensor) else outputs[0]
    if name != "copy" and not truth.agrees(result):
        raise ValueError("it computes something else")
    return call
