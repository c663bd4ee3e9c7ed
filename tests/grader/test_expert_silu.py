"""The expert's SiLU is right for any length, and writes nothing beyond it."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from tests.grader.interpreted import Laboratory
from tests.grader.small_exercise import ROOT

FILE = ROOT / "reference" / "expert" / "silu.py"
LENGTHS = [1, 2048, 5001]


def test_any_length(tmp_path):
    laboratory = Laboratory("mended", tmp_path)
    found = laboratory(
        FILE.read_text(),
        f"""
        result = []
        for n in {LENGTHS!r}:
            for dtype in (torch.float32, torch.bfloat16):
                torch.manual_seed(5)
                x = (40 * torch.randn(n)).to(dtype)
                around = torch.full((n + 5,), 7.0, dtype=dtype)
                k.silu(x, around[:n])
                truth = x.double() * torch.sigmoid(x.double())
                error = (around[:n].double() - truth).norm() / truth.norm()
                result.append([
                    error.item() / torch.finfo(dtype).eps, bool((around[n:] == 7).all())
                ])
        """,
        header="",
    )
    laboratory.close()
    for error, kept in found:
        assert error < 2
        assert kept, "wrote beyond the end"


@pytest.mark.gpu
def test_on_a_gpu_each_launch_waits_for_the_one_ahead():
    spec = importlib.util.spec_from_file_location("expert_silu", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = torch.randn(1 << 24, device="cuda")
    held = [torch.empty_like(x) for _ in range(20)]
    for source, out in zip([x, *held], held, strict=False):  # each reads what the last one wrote
        module.silu(source, out)
    truth = x.double()
    for _ in held:
        truth = truth * torch.sigmoid(truth)
    error = (held[-1].double() - truth).norm() / truth.norm()
    assert error < 64 * torch.finfo(x.dtype).eps
