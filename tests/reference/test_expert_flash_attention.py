"""The expert's flash attention is right for any shape and stride, by each of its ways."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.modules import module_of
from tests.support.planned import case, results
from tests.support.small_exercise import ROOT

FILE = ROOT / "reference" / "expert" / "flash_attention.py"
PROGRAMS = 132  # an H100's multiprocessors
TRUTH = """
def truth(q, k, v, sm_scale, causal):
    scores = q.double() @ k.double().transpose(-1, -2) * sm_scale
    n_ctx, n_kv = scores.shape[-2:]
    if causal:
        keys = torch.arange(n_kv, device=q.device)
        rows = torch.arange(n_ctx, device=q.device)[:, None]
        scores = scores.masked_fill(keys > rows + n_kv - n_ctx, -float("inf"))
    lse = torch.logsumexp(scores, -1)
    p = torch.exp(scores - torch.where(lse == -float("inf"), 0.0, lse)[..., None])
    return p @ v.double(), lse
"""


@pytest.fixture(scope="module")
def expert():
    return module_of(FILE)


BY_TENSOR_MAPS = """
LEAST_WORK = 0
flash_attention = flash_attention_plain
"""


@pytest.mark.parametrize(
    ("more", "head_dim", "shapes"),
    [
        ("", 32, [(70, 70, True), (65, 130, True), (130, 65, True), (33, 140, False)]),
        (BY_TENSOR_MAPS, 64, [(70, 70, True), (65, 300, True), (300, 65, True), (64, 256, False)]),
    ],
    ids=["by pointers", "by TMA"],
)
def test_without_a_gpu_any_number_of_queries_and_keys_is_right(
    shared_sandbox, more, head_dim, shapes
):
    cases = [
        replace(
            case("float16", Z=1, H=2, N_CTX=n_ctx, N_KV=n_kv, HEAD_DIM=head_dim),
            scalars=(("causal", causal),),
        )
        for n_ctx, n_kv, causal in shapes
    ]
    for result in results(shared_sandbox, "flash_attention", FILE.read_text() + more, cases):
        assert result.verdict.passed, result


@pytest.mark.parametrize(
    ("n_heads", "n", "block_m", "most"),
    [(64, 4096, 192, 24), (128, 2048, 192, 48), (32, 16384, 192, 6), (64, 4096, 128, 12)],
)
def test_causal_tiles_are_dealt_out_evenly(expert, n_heads, n, block_m, most):
    blocks_m = -(-n // block_m)
    group = expert._heads_in_a_group(n_heads, blocks_m, block_m, n, n, most, PROGRAMS)
    assert 1 <= group <= most
    # As _nth_item deals them out: forth and back, in each group the longest first.
    loads = [0] * PROGRAMS
    tile = 0
    for first in range(0, n_heads, group):
        for m in reversed(range(blocks_m)):
            for _ in range(min(group, n_heads - first)):
                turn, place = divmod(tile, PROGRAMS)
                length = 1 + -(-min((m + 1) * block_m, n) // expert.BLOCK_N)
                loads[PROGRAMS - 1 - place if turn % 2 else place] += length
                tile += 1
    assert max(loads) < 1.06 * sum(loads) / PROGRAMS


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("entry", "programs"),
    [
        ("flash_attention", PROGRAMS),
        ("flash_attention", 5),  # whole rounds leave tiles over, which are then taken in parts
        ("flash_attention_plain", PROGRAMS),
    ],
)
def test_on_a_gpu_any_shape_is_right_and_the_same_each_time(expert, monkeypatch, entry, programs):
    monkeypatch.setattr(expert, "LEAST_WORK", 0)  # so that small shapes go by TMA too
    monkeypatch.setattr(expert, "_multiprocessors", lambda device: programs)
    monkeypatch.setattr(expert, "PART_COST", {64: 0, 128: 0})
    worth, in_parts = expert._is_worth_splitting, []
    monkeypatch.setattr(
        expert, "_is_worth_splitting", lambda *of: in_parts.append(worth(*of)) or in_parts[-1]
    )
    names: dict = {"torch": torch}
    exec(TRUTH, names)
    numbers = st.one_of(st.integers(1, 700), st.sampled_from([64, 128, 192, 256, 384, 512]))

    def case(n_ctx: int, n_kv: int, head_dim: int, causal: bool, heads: tuple = (2, 2)):
        """An example of shapes that drawn ones may miss."""
        others = {"alike": False, "dtype": torch.bfloat16, "apart": 0, "scale": 1.0, "seed": 0}
        return example(
            heads=heads, n_ctx=n_ctx, n_kv=n_kv, head_dim=head_dim, causal=causal, **others
        )

    @settings(max_examples=80, deadline=None)
    # Five programs leave one tile of the 16 over, or four of the 24.
    @case(384, 700, 64, False, heads=(2, 4))
    @case(384, 700, 128, False, heads=(2, 4))
    # The last key in the left half of its block, in the right one, and at its end.
    @case(200, 300, 64, False)
    @case(200, 360, 64, False)
    @case(200, 384, 64, False)
    # The diagonal in the left half for the first consumer, in the right one, and above all keys.
    @case(330, 330, 64, True)
    @case(330, 330, 128, True)
    @case(330, 394, 64, True)
    @case(330, 394, 128, True)
    @case(330, 266, 64, True)
    @case(330, 202, 128, True)
    # Three consumers.
    @case(1100, 1100, 64, True, heads=(1, 2))
    @case(1100, 1164, 64, True, heads=(1, 2))
    @given(
        heads=st.tuples(st.integers(1, 3), st.integers(1, 5)),
        n_ctx=numbers,
        n_kv=numbers,
        alike=st.booleans(),
        head_dim=st.sampled_from([32, 64, 64, 128, 128]),
        dtype=st.sampled_from([torch.float16, torch.bfloat16]),
        causal=st.booleans(),
        apart=st.sampled_from([0, 0, 8, 3]),  # a row's distance; after 3, TMA can't go
        scale=st.sampled_from([0.01, 1.0, 10.0]),
        seed=st.integers(0, 9),
    )
    def holds(heads, n_ctx, n_kv, alike, head_dim, dtype, causal, apart, scale, seed):
        torch.manual_seed(seed)
        n_kv = n_ctx if alike else n_kv

        def behind(n: int, filler: float) -> torch.Tensor:
            """A whole tensor whose first n rows of each head are the argument."""
            shape = (*heads, n + 20, head_dim + apart)
            return torch.full(shape, filler, device="cuda", dtype=dtype)

        # What lies behind the end of a head is nan: whoever reads it and uses it shows.
        q, k, v = (
            behind(n, float("nan"))[:, :, :n, :head_dim].copy_(
                scale * torch.randn(*heads, n, head_dim)
            )
            for n in (n_ctx, n_kv, n_kv)
        )
        found = []
        for _ in range(2):
            whole = behind(n_ctx, 7.0)
            out = whole[:, :, :n_ctx, :head_dim]
            lse = torch.full((*heads, n_ctx), 7.0, device="cuda")
            getattr(expert, entry)(q, k, v, out, lse, 0.125, causal)
            found.append((out.clone(), lse))
            out.fill_(7.0)
            assert (whole == 7).all(), "wrote beyond a row or a head"
        assert all(torch.equal(*each) for each in zip(*found, strict=True)), "not the same"
        true_out, true_lse = names["truth"](q, k, v, 0.125, causal)
        error = (found[0][0] - true_out).norm()
        assert error <= 2 * torch.finfo(dtype).eps * true_out.norm()
        torch.testing.assert_close(found[0][1].double(), true_lse, rtol=1e-5, atol=1e-3)

    holds()
    assert any(in_parts) == (programs == 5)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("consumers", [2, 3])
def test_the_half_that_has_no_mask_is_one_that_all_rows_see(expert, late, consumers):
    for n_kv in (128, 129, 191, 192, 193, 255, 256, 320):
        for shift in (None, 0, 64, 128):
            _holds_for_all_rows(expert, n_kv, shift, late, consumers)


def _holds_for_all_rows(expert, n_kv, shift, late, consumers):
    n_ctx = 500 if shift is None else n_kv - shift
    edges = expert._edges(shift, n_kv, False, late and shift is None, consumers)
    assert set(edges) <= {"left", "right", "anywhere", "none"}
    for first in range(0, n_ctx, 64):  # the rows of one consumer
        edge = edges[first // 64 % consumers % 2]
        last_keys = {
            n_kv - 1 if shift is None else row + shift
            for row in range(first, min(first + 64, n_ctx))
        }
        start = max(last_keys) // expert.BLOCK_N * expert.BLOCK_N
        seen = [key - start for key in last_keys]
        if edge == "left":  # none of the right half, and by each row a key of the left
            assert min(seen) >= 0 and max(seen) < 64
        elif edge == "right":
            assert min(seen) >= 63
        elif edge == "none":
            assert min(seen) == 127


def test_tiles_are_taken_in_parts_where_that_ends_sooner(expert):
    worth = expert._is_worth_splitting
    assert worth(1408, 32, PROGRAMS, 64)  # 88 tiles left for 132 programs: 21.3 blocks, not 32
    assert not worth(1536, 8, PROGRAMS, 64)  # 5.1 of 8: beginning and ending takes longer
    assert not worth(PROGRAMS * 7, 128, PROGRAMS, 64)  # none is left over
    assert not worth(PROGRAMS + 1, PROGRAMS - 1, PROGRAMS, 64)  # a block short of one for each
    assert worth(2048, 32, PROGRAMS, 128)  # 16.5 of 32
    assert not worth(2048, 16, PROGRAMS, 128)  # 8.2 of 16: it takes another launch
