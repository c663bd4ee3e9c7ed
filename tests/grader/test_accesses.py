"""What interpreted kernels do to memory: counters against numbers worked out by hand.

The transposes of 256x256 float32 are those of CUDA kernels counted by ncu on an H100: rows of 256
threads that read along rows and write along columns make 2048 requests of 8192 and of 65536
sectors; tiles make 2048 of 8192 on both sides.
"""

from __future__ import annotations

import inspect

import pytest
from triton.runtime import interpreter as upstream_interpreter

from tests.grader.interpreted import Laboratory

KERNELS = """
@triton.jit
def output_row(x_ptr, out_ptr, R, C, stride_x, stride_out, BLOCK: tl.constexpr):
    col = tl.program_id(0)
    rows = tl.arange(0, BLOCK)
    values = tl.load(x_ptr + rows * stride_x + col, mask=rows < R)
    tl.store(out_ptr + col * stride_out + rows, values, mask=rows < R)

@triton.jit
def input_row(x_ptr, out_ptr, R, C, stride_x, stride_out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    values = tl.load(x_ptr + row * stride_x + cols, mask=cols < C)
    tl.store(out_ptr + cols * stride_out + row, values, mask=cols < C)

@triton.jit
def tile(x_ptr, out_ptr, R, C, stride_x, stride_out, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows[:, None] < R) & (cols[None, :] < C)
    values = tl.load(x_ptr + rows[:, None] * stride_x + cols[None, :], mask=mask)
    tl.store(out_ptr + cols[None, :] * stride_out + rows[:, None], values, mask=mask)

@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    across = tl.cdiv(N, BLOCK)
    first = pid // (GROUP * across) * GROUP
    height = min(tl.cdiv(M, BLOCK) - first, GROUP)
    rows = (first + pid % (GROUP * across) % height) * BLOCK + tl.arange(0, BLOCK)
    cols = pid % (GROUP * across) // height * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        ks = k + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * N + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc.to(tl.float16))

@triton.jit
def shift(x_ptr, out_ptr, n, by, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i + by, mask=i < n)
    tl.store(out_ptr + i, tl.where(i + by < n, x, 0.0), mask=i < n)

@triton.jit
def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x))

@triton.jit
def row_sum(x_ptr, out_ptr, stride, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride + i, mask=i < cols + 1, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.where(i < cols, x, 0.0)))

@triton.jit
def by_descriptor(x_ptr, out_ptr, R, C, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [R, C], [C, 1], [BLOCK, BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, [R, C], [C, 1], [BLOCK, BLOCK])
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    out.store(at, x.load(at))

def transposed(kernel, x, out, grid, block):
    (R, C) = x.shape
    kernel[grid](x, out, R, C, x.stride(0), out.stride(0), block)
"""

WATCH = """
from grader.worker.accesses import Accesses
def watch(entry, *arguments, wave=0):
    seen = Accesses(path, arguments, wave)
    with seen.watching():
        entry(*arguments)
    return seen.report()
"""


def line_of(fragment: str) -> int:
    """The line of the kernels' file that holds a piece of text, which may occur once."""
    from tests.grader.interpreted import HEADER

    lines = (HEADER + "\n" + KERNELS.lstrip("\n")).splitlines()
    [found] = [number for number, text in enumerate(lines, 1) if fragment in text]
    return found


@pytest.fixture(scope="module")
def watch(tmp_path_factory):
    """Runs an experiment in which `watch(entry, *arguments)` is the report on a call."""
    laboratory = Laboratory("mended", tmp_path_factory.mktemp("watched"))
    yield lambda experiment: laboratory(KERNELS, WATCH + experiment)
    laboratory.close()


def sites(report: dict) -> dict[str, tuple[int, int, int, int]]:
    """(requests, sectors, useful bytes, masked) of loads and of stores."""
    told = ("requests", "sectors", "useful_bytes", "masked")
    return {site["kind"]: tuple(site[name] for name in told) for site in report["sites"]}


TRANSPOSE = """
x = torch.randn({rows}, {cols}, dtype=torch.{dtype})
out = torch.empty({cols}, {rows}, dtype=torch.{dtype})
result = watch(lambda x, out: k.transposed(k.{kernel}, x, out, {grid}, {block}), x, out)
assert torch.equal(out, x.t())
"""


def transpose(kernel: str, grid, block: int, rows=256, cols=256, dtype="float32") -> str:
    return TRANSPOSE.format(
        kernel=kernel, grid=grid, block=block, rows=rows, cols=cols, dtype=dtype
    )


# --- sectors --------------------------------------------------------------------------------------


def test_a_transpose_by_output_rows_loads_a_sector_for_every_element(watch):
    report = watch(transpose("output_row", (256,), 256))
    assert sites(report) == {"load": (2048, 65536, 262144, 0), "store": (2048, 8192, 262144, 0)}


def test_a_transpose_by_input_rows_stores_a_sector_for_every_element(watch):
    """As ncu counts launch 1 of the table: 8192 sectors loaded, 65536 stored."""
    report = watch(transpose("input_row", (256,), 256))
    assert sites(report) == {"load": (2048, 8192, 262144, 0), "store": (2048, 65536, 262144, 0)}


def test_a_tiled_transpose_uses_whole_sectors_on_both_sides(watch):
    """As ncu counts launches 2 and 3 of the table: 2048 requests of 8192 sectors either way."""
    report = watch(transpose("tile", (8, 8), 32))
    assert sites(report) == {"load": (2048, 8192, 262144, 0), "store": (2048, 8192, 262144, 0)}


def test_halves_fill_a_sector_with_sixteen_elements(watch):
    report = watch(transpose("tile", (8, 8), 32, dtype="float16"))
    assert sites(report)["load"] == sites(report)["store"] == (2048, 4096, 131072, 0)


def test_masked_elements_move_nothing_and_are_counted(watch):
    """One block of 16x16 on 5x3: 256 - 15 masked. The tile lies in warps of two rows of 16.

    Loaded: rows of 3 elements, 12 bytes, 0, 12, 24, 36, 48 bytes behind x, which is aligned to 64
    bytes; rows 0 and 1 lie in sector 0, rows 2 and 3 in sectors 0 and 1, row 4 in sector 1.
    """
    experiment = transpose("tile", (1, 1), 16, rows=5, cols=3).replace(
        "torch.randn(5, 3, dtype=torch.float32)", "torch.randn(64)[:15].view(5, 3)"
    )
    report = watch(experiment)
    requests, sectors, useful, masked = sites(report)["load"]
    assert (requests, sectors, useful, masked) == (3, 4, 60, 241)


def test_sites_name_kernel_and_line(watch):
    report = watch(transpose("tile", (8, 8), 32))
    assert [(site["kernel"], site["line"]) for site in report["sites"]] == [
        ("tile", line_of("values = tl.load(x_ptr + rows[:, None] * stride_x + cols")),
        ("tile", line_of("tl.store(out_ptr + cols[None, :] * stride_out + rows[:, None]")),
    ]


def test_an_unaligned_row_moves_one_more_sector_in_each_request(watch):
    report = watch("""
x, out = torch.randn(1 + 1024)[1:], torch.empty(1024)
result = watch(lambda x, out: k.shift[(1,)](x, out, 1024, 0, 1024), x, out)
""")
    assert sites(report)["load"][:3] == (32, 32 * 5, 4096)


def test_a_scalar_is_one_request_of_one_sector(watch):
    report = watch("""
x, out = torch.randn(64), torch.zeros(1)
result = watch(lambda x, out: k.total[(2,)](x, out, 64, 32), x, out)
assert torch.allclose(out[0], x.sum())
""")
    assert sites(report)["atomic"] == (2, 2, 8, 0)
    [_, out] = report["buffers"]
    assert (out["load_bytes"], out["store_bytes"]) == (8, 8)
    assert (out["distinct_load_bytes"], out["distinct_store_bytes"]) == (4, 4)


def test_loads_and_stores_of_tensor_descriptors_are_seen_too(watch):
    report = watch("""
x, out = torch.randn(40, 40), torch.empty(40, 40)
result = watch(lambda x, out: k.by_descriptor[(2, 2)](x, out, 40, 40, 32), x, out)
assert torch.equal(out, x)
""")
    assert report["findings"] == []
    assert sites(report)["load"][2:] == (6400, 4 * 1024 - 1600)


# --- what is read how often -----------------------------------------------------------------------

MATMUL = """
a, b = torch.randn({M}, {K}).half(), torch.randn({K}, {N}).half()
c = torch.empty({M}, {N}).half()
grid = ({M} * {N} // 1024,)
launch = lambda a, b, c: k.matmul[grid](a, b, c, {M}, {N}, {K}, 32, {group})
result = watch(launch, a, b, c, wave={wave})
assert torch.allclose(c.float(), a.float() @ b.float(), atol=0.1)
"""


def test_a_tiled_matmul_reads_a_once_for_each_column_of_tiles(watch):
    report = watch(MATMUL.format(M=64, N=96, K=128, group=1, wave=0))
    a, b, c = report["buffers"]
    assert a["load_bytes"] == 3 * a["distinct_load_bytes"] == 3 * 64 * 128 * 2
    assert b["load_bytes"] == 2 * b["distinct_load_bytes"] == 2 * 128 * 96 * 2
    assert c["store_bytes"] == c["distinct_store_bytes"] == 64 * 96 * 2
    assert c["load_bytes"] == 0
    assert report["largest_tile"] == 1024


def test_a_wave_of_grouped_tiles_loads_less_than_one_in_row_major_order(watch):
    """4x4 tiles, waves of 4: in rows 1x4 of them (5 strips), in groups of two 2x2 (4 strips)."""
    strip = 32 * 64 * 2
    plain = watch(MATMUL.format(M=128, N=128, K=64, group=1, wave=4))
    grouped = watch(MATMUL.format(M=128, N=128, K=64, group=2, wave=4))
    in_rows = {"programs": 16, "waves": 4, "bytes": 4 * 5 * strip, "row_major_bytes": 20 * strip}
    assert plain["waves"] == [in_rows]
    assert grouped["waves"] == [{**in_rows, "bytes": 4 * 4 * strip}]


def test_a_wave_follows_the_first_axis_of_the_grid(watch):
    """Programs (0..7, 0) run at once on a GPU: they load one column of tiles of x."""
    report = watch("""
x, out = torch.randn(256, 256), torch.empty(256, 256)
result = watch(lambda x, out: k.transposed(k.tile, x, out, (8, 8), 32), x, out, wave=8)
""")
    [wave] = report["waves"]
    assert (wave["programs"], wave["waves"]) == (64, 8)


def test_fewer_programs_than_a_wave_are_one_wave(watch):
    report = watch(MATMUL.format(M=32, N=64, K=64, group=1, wave=100))
    strip = 32 * 64 * 2
    assert report["waves"] == [
        {"programs": 2, "waves": 1, "bytes": 3 * strip, "row_major_bytes": 3 * strip}
    ]


# --- outside every tensor -------------------------------------------------------------------------


def test_a_read_past_the_end_that_is_never_used_is_found(watch):
    report = watch("""
whole = torch.zeros(2000)
x, out = whole[:1000], torch.empty(1000)
result = watch(lambda x, out: k.shift[(4,)](x, out, 1000, 3, 256), x, out)
""")
    [finding] = report["findings"]
    assert finding == {
        "kind": "out_of_bounds_read",
        "line": line_of("x = tl.load(x_ptr + i + by"),
        "kernel": "shift",
        "count": 3,
        "program": [3, 0, 0],
        "argument": 0,
        "offset": 4000,
        "bytes": 4,
    }


def test_a_read_before_the_start_is_found(watch):
    report = watch("""
x, out = torch.zeros(2000)[1000:], torch.empty(1000)
result = watch(lambda x, out: k.shift[(4,)](x, out, 1000, -1, 256), x, out)
""")
    [finding] = report["findings"]
    assert (finding["offset"], finding["count"], finding["program"]) == (-4, 1, [0, 0, 0])


def test_what_lies_between_padded_rows_is_outside(watch):
    report = watch("""
x, out = torch.zeros(8, 24)[:, :20], torch.empty(8)
result = watch(lambda x, out: k.row_sum[(8,)](x, out, 24, 20, 32), x, out)
""")
    [finding] = report["findings"]
    # The last row's is outside as well: it is the first byte behind the tensor.
    assert (finding["kind"], finding["count"], finding["offset"]) == ("out_of_bounds_read", 8, 80)


def test_a_write_outside_is_found(watch):
    report = watch("""
x, whole = torch.zeros(1000), torch.zeros(2000)
result = watch(lambda x, out: k.shift[(4,)](x, out, 1002, -2, 256), x, whole[:1000])
""")
    kinds = {finding["kind"]: finding["offset"] for finding in report["findings"]}
    assert kinds == {"out_of_bounds_read": -8, "out_of_bounds_write": 4000}


def test_a_transposed_view_has_no_outside_within(watch):
    report = watch("""
x, out = torch.randn(48, 40).t(), torch.empty(48, 40)
def entry(x, out):
    k.transposed(k.tile, x.t(), out.t(), (2, 2), 32)
    k.shift[(8,)](x, out, 1920, 0, 256)
result = watch(entry, x, out)
""")
    assert report["findings"] == []


# --- what the entry brings ------------------------------------------------------------------------


def test_scratch_is_counted_and_may_be_accessed(watch):
    report = watch("""
x, out = torch.randn(1000), torch.empty(1000)
def entry(x, out):
    for _ in range(3):
        half = torch.empty(1000)
        k.shift[(4,)](x, half, 1000, 0, 256)
    k.shift[(4,)](half, out, 1000, 0, 256)
result = watch(entry, x, out)
assert torch.equal(out, x)
""")
    assert report["findings"] == []
    assert report["scratch_bytes"] == 3 * 4000
    assert report["copied_bytes"] == 0


def test_scratch_kept_from_an_earlier_call_is_counted(watch):
    report = watch("""
x, out, kept = torch.randn(1000), torch.empty(1000), torch.empty(1000)
def entry(x, out):
    k.shift[(4,)](x, kept[10:], 990, 0, 256)
    k.shift[(4,)](x, out, 1000, 0, 256)
result = watch(entry, x, out)
""")
    assert (report["scratch_bytes"], report["findings"]) == (4000, [])


def test_copies_that_pytorch_makes_are_counted(watch):
    report = watch("""
x, out = torch.randn(8, 24)[:, :20], torch.empty(160)
def entry(x, out):
    k.shift[(1,)](x.contiguous(), out, 160, 0, 256)
    torch.empty_like(x)
result = watch(entry, x, out)
""")
    assert report["copied_bytes"] == 640
    assert report["scratch_bytes"] == 2 * 640


def test_views_of_arguments_are_no_scratch(watch):
    report = watch("""
x, out = torch.randn(1000), torch.empty(1000)
entry = lambda x, out: k.shift[(4,)](x.view(10, 100).flatten(), out[:990], 990, 0, 256)
result = watch(entry, x, out)
""")
    assert report["scratch_bytes"] == 0


# --- off when nobody asks, and true to upstream ---------------------------------------------------


def test_nothing_stays_patched(watch):
    result = watch("""
from triton.runtime import interpreter as upstream
before = upstream.TensorHandle.__post_init__, dict(vars(upstream.interpreter_builder))
x, out = torch.randn(8), torch.empty(8)
def broken(x, out):
    k.shift[(1,)](x, out, 8, 0, 8)
    raise ValueError
try:
    watch(broken, x, out)
except ValueError:
    k.shift[(1,)](x, out, 8, 0, 8)
after = upstream.TensorHandle.__post_init__, dict(vars(upstream.interpreter_builder))
names = "create_masked_load create_masked_store set_grid_idx".split()
result = before[0] is after[0] and not any(name in after[1] for name in names)
""")
    assert result is True


def test_upstreams_builder_is_the_one_that_is_watched():
    """Every way to memory goes through what is watched, with the parameters that are looked at."""
    builder = upstream_interpreter.InterpreterBuilder
    parameters = {
        name: list(inspect.signature(getattr(builder, name)).parameters)
        for name in vars(builder)
        if name.startswith("create_") and callable(getattr(builder, name))
    }
    assert parameters["create_masked_load"][1:3] == ["ptrs", "mask"]
    assert parameters["create_masked_store"][1:4] == ["ptrs", "value", "mask"]
    assert parameters["create_atomic_rmw"][1:5] == ["rmwOp", "ptr", "val", "mask"]
    assert parameters["create_atomic_cas"][1:4] == ["ptr", "cmp", "val"]
    source = inspect.getsource(builder)
    assert source.count("_interpreter.load(") == source.count("_interpreter.store(") == 1
    assert source.count("_interpreter.atomic_cas(") == 1
    assert source.count("_interpreter.atomic_rmw(") == 1


# --- every run ------------------------------------------------------------------------------------

GUARD = """
from grader.worker.bounds import Bounds
def guard(entry, *arguments):
    seen = Bounds(path, arguments)
    with seen.watching():
        entry(*arguments)
    return list(seen.findings.values())
"""


def test_bounds_alone_are_watched_without_counting(watch):
    found = watch(
        GUARD
        + """
x, out = torch.zeros(2000)[:1000], torch.empty(1000)
right = guard(lambda x, out: k.shift[(4,)](x, out, 1000, 0, 256), x, out)
wrong = guard(lambda x, out: k.shift[(4,)](x, out, 1000, 3, 256), x, out)
far = guard(lambda x, out: k.total[(1,)](x, torch.zeros(1), 64, 32), x, out)
padded, sums = torch.zeros(8, 24)[:, :20], torch.empty(8)
gaps = guard(lambda x, out: k.row_sum[(8,)](x, out, 24, 20, 32), padded, sums)
fits = guard(lambda x, out: k.row_sum[(8,)](x, out, 24, 19, 32), padded, sums)
result = [right, [(f["kind"], f["count"], f["offset"]) for f in wrong], far,
          [(f["kind"], f["count"], f["offset"]) for f in gaps], fits]
"""
    )
    read = "out_of_bounds_read"
    assert found == [[], [[read, 3, 4000]], [], [[read, 8, 80]], []]


def test_a_pointer_to_nowhere_is_told_beside_the_nearest_argument(watch):
    """Only looked at, not loaded: that would end the process."""
    found = watch(
        GUARD
        + """
x = torch.zeros(1000)
from triton.runtime.interpreter import TensorHandle, interpreter_builder
import numpy as np
seen = Bounds(path, [x])
interpreter_builder.grid_idx = (0, 0, 0)
where = np.array([x.data_ptr() - (1 << 50)], dtype=np.int64).astype(np.uint64)
seen._access("load", TensorHandle(where, tl.pointer_type(tl.float32)), None)
seen._access("store", TensorHandle(np.array([2**64 - 8], dtype=np.uint64),
             tl.pointer_type(tl.float32)), None)
result = [(f["kind"], f["offset"]) for f in seen.findings.values()]
"""
    )
    assert found[0] == ["out_of_bounds_read", -(1 << 50)]
    assert found[1][0] == "out_of_bounds_write"
