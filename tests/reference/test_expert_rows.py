"""The expert's RMSNorm and softmax are right for rows of any width, also beyond the specs'."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.cases.oracle import load
from tests.support.modules import module_of
from tests.support.planned import case, results
from tests.support.small_exercise import ROOT

FOLDER = ROOT / "reference" / "expert"
EPS = 1e-6
# rows, columns, dtype: several rows in a program, the widest row that is held whole, one column
# more, whole blocks, and a last block that isn't.
SHAPES = [
    (37, 100, "bfloat16"),
    (3, 32768, "float32"),
    (2, 32769, "float16"),
    (1, 65536, "bfloat16"),
    (2, 50001, "float32"),
]
PADDED = (("x", "row_padded"), ("out", "row_padded"))


@pytest.mark.parametrize("name", ["rmsnorm", "softmax"])
def test_rows_of_any_width_and_any_distance(shared_sandbox, name):
    cases = [case(dtype, PADDED, rows=rows, cols=cols) for rows, cols, dtype in SHAPES]
    for result in results(shared_sandbox, name, (FOLDER / f"{name}.py").read_text(), cases):
        assert result.verdict.passed, result


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["rmsnorm", "softmax"])
def test_a_wide_row_is_held_where_it_fits_and_begins_at_16_bytes(name):
    module = module_of(FOLDER / f"{name}.py")

    def blocks(cols: int, dtype: torch.dtype, stride: int | None = None) -> int:
        x = torch.empty(2 * (stride or cols), dtype=dtype, device="cuda")
        return module.blocks_held(x.as_strided((2, cols), (stride or cols, 1)))

    room = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
    for dtype in (torch.float32, torch.bfloat16):
        most = (room - 1024) // (module.HELD * dtype.itemsize)
        widest = (most + 1) * module.HELD
        held = [blocks(cols, dtype) for cols in (16384, 16400, widest, widest + 16)]
        assert held == [0, 2, most, 0]
        assert [blocks(16400, dtype, stride) for stride in (16401, 16408, 16416)] == [0, 0, 2]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["rmsnorm", "softmax"])
def test_on_a_gpu_any_shape_is_right_and_the_same_each_time(name):
    entry, oracle = getattr(module_of(FOLDER / f"{name}.py"), name), load(name).definition
    widths = st.one_of(
        st.integers(1, 3000),
        st.sampled_from([8192, 16384, 16400, 16401, 32768, 32769, 65536, 73728, 122880]),
        st.integers(1, 70000),
        st.integers(16385, 125000),
    )

    @settings(max_examples=150, deadline=None)
    @given(
        rows=st.integers(1, 300),
        cols=widths,
        dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
        apart=st.tuples(st.integers(0, 9), st.integers(0, 9)),
        is_aligned=st.booleans(),
        scale=st.sampled_from([0.01, 1.0, 30.0]),
        seed=st.integers(0, 9),
    )
    def holds(rows, cols, dtype, apart, is_aligned, scale, seed):
        torch.manual_seed(seed)
        rows = min(rows, 4_000_000 // cols + 1)
        stride = -(-cols // 16) * 16 if is_aligned else cols + apart[0]
        x = (scale * torch.randn(rows, stride, device="cuda")).to(dtype)[:, :cols]
        weight = torch.randn(cols, device="cuda").to(dtype)
        inputs = {"x": x, "weight": weight, "eps": EPS} if name == "rmsnorm" else {"x": x}
        around = [
            torch.full((rows, cols + apart[1]), 7.0, dtype=dtype, device="cuda") for _ in "ab"
        ]
        for each in around:
            out = each[:, :cols]
            entry(x, weight, out, EPS) if name == "rmsnorm" else entry(x, out)
            assert (each[:, cols:] == 7).all(), "wrote beyond a row"
        assert torch.equal(*around), "not the same each time"
        wide = {n: v.double() if isinstance(v, torch.Tensor) else v for n, v in inputs.items()}
        truth = oracle(**wide)
        error = (out.double() - truth).norm()
        kind = torch.finfo(dtype)
        relative = (32 if dtype is torch.float32 else 2) * kind.eps
        # Each element may be off by the distance of the smallest numbers, too: a wide row of
        # softmax is made of such in float16.
        absolute = kind.smallest_normal * kind.eps * truth.numel() ** 0.5
        assert error < relative * truth.norm() + absolute

    holds()
