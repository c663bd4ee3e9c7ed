"""The expert's SiLU is right for any length, and writes nothing beyond it."""

from __future__ import annotations

import pytest
import torch

from tests.support.modules import module_of
from tests.support.planned import case, results
from tests.support.small_exercise import ROOT

FILE = ROOT / "reference" / "expert" / "silu.py"
LENGTHS = [1, 2048, 5001]


def test_any_length(shared_sandbox):
    cases = [case(dtype, n=n) for n in LENGTHS for dtype in ("float32", "bfloat16")]
    for result in results(shared_sandbox, "silu", FILE.read_text(), cases):
        assert result.verdict.passed, result


@pytest.mark.gpu
def test_on_a_gpu_each_launch_waits_for_the_one_ahead():
    module = module_of(FILE)
    x = torch.randn(1 << 24, device="cuda")
    held = [torch.empty_like(x) for _ in range(20)]
    for source, out in zip([x, *held], held, strict=False):  # each reads what the last one wrote
        module.silu(source, out)
    truth = x.double()
    for _ in held:
        truth = truth * torch.sigmoid(truth)
    error = (held[-1].double() - truth).norm() / truth.norm()
    assert error < 64 * torch.finfo(x.dtype).eps
