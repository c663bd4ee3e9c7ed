"""What a block, a warp and a loop's end have to do: each change undoes a mistake."""

import pytest

from grader.executors.source_text import SourceText
from grader.grading.edits.proposals import edits_of
from tests.support.changed_texts import changed, scopes, undone, without_blanks

CUDA = """
constexpr int TILE = 32;
constexpr int BLOCK_SIZE = 64;
__device__ float warp_total(float value) { return value + __shfl_down_sync(~0u, value, 16); }
__device__ void load(float (&tile)[TILE][TILE], const float* in, int rows, int cols) {
    for (int i = threadIdx.y; i < TILE; i += 8) {
        if (i < rows && threadIdx.x < cols) tile[i][threadIdx.x] = in[i * cols + threadIdx.x];
        else tile[i][threadIdx.x] = 0;
    }
}
__global__ void turn(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[TILE][TILE];
    const int across = (cols + TILE - 1) / TILE;
    const int tile_row = blockIdx.x / across;
    const int tile_col = blockIdx.x % across;
    load(tile, in + tile_row * TILE * cols + tile_col * TILE, rows, cols);
    __syncthreads();
    const int x = tile_row * TILE + threadIdx.x;
    for (int y = tile_col * TILE; y < cols; ++y) out[y * rows + x] = tile[threadIdx.x][y];
    if (x < rows && across < cols) {
        out[across * rows + x] = 0;
    }
    if (across < cols && x < rows) out[at(across, x, cols)] = 0;
}
__global__ void sums(const float* in, float* out, int queries, int keys, int cols) {
    __shared__ float partial[TILE];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int first = blockIdx.x * TILE;
    const int end = min(keys, first + TILE - 1 + keys - queries);
    const int length = cols / 4;
    float total = 0.0f;
    in += blockIdx.x * queries * TILE;
    out += blockIdx.x * keys * TILE;
    partial += blockIdx.x * keys * TILE;
    cols += blockIdx.x * queries * TILE;
    int at = threadIdx.x * length;
    for (int i = 0; i < length && at < cols; ++i, ++at) total += in[at];
    for (int k = first; k < end; ++k) total += in[k];
    for (int c = threadIdx.x; c < cols; c += BLOCK_SIZE) total += in[c];
    const float a = (at < keys && first < cols) ? in[at * cols + first] : 0.0f;
    const float b = (end < keys && lane < cols) ? in[at(end, lane, cols)] : 0.0f;
    total = total + warp_total(total);
    if (lane == 0) partial[warp] = total;
}
__global__ void walk(const float* in, float* out, int rows, int cols) {
    int element = blockIdx.x;
    while (element < rows) {
        out[element] = element % 2 < cols ? in[element] : 0;
        element += gridDim.x;
    }
    const int at_row = element % rows, at_col = element / rows;
    if (at_row < rows && at_col < cols) out[0] = in[at_row * cols + at_col];
}
extern "C" void f(const float* in, float* out, int rows, int cols) {
    std::vector<float> column;
    for (int row = 0; row < rows; ++row) column.push_back(in[row * cols]);
    walk<<<rows, 1>>>(in, out, rows, cols);
    turn<<<rows, TILE>>>(in, out, rows, cols);
    sums<<<rows, BLOCK_SIZE>>>(in, out, rows, rows, cols);
}
"""

TRITON = """
import triton
import triton.language as tl

@triton.jit
def k(x_ptr, out_ptr, stride_xm, stride_xn, stride_om, stride_on, stride, M, N,
      BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    pid = tl.program_id(0)
    across = (N + BLOCK_N - 1) // BLOCK_N
    offs_m = pid // across * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % across * BLOCK_N + tl.arange(0, BLOCK_N)
    stop = tl.minimum(N, (pid + 1) * BLOCK_M + N - M)
    height = tl.minimum(across - first * BLOCK_M, BLOCK_M)
    row = first * BLOCK_M + pid % height
    col = (pid % N) // height + (pid % N) % height
    tiles = tl.cdiv(N, BLOCK_N)
    o_ptrs = out_ptr + pid * stride_om + offs_n * stride_on
    first = pid * BLOCK_M
    last = tl.minimum(N, first + BLOCK_M - 1)
    for start in range(0, stop, BLOCK_N):
        m_i = tl.maximum(m_i, tl.max(x, axis=0))
        x = tl.load(x_ptr + offs_m[:, None] * stride + offs_n[None, :])
        p = tl.exp(x - m_i)
        o_ptrs += BLOCK_N * stride_on
        x_ptr += BLOCK_N
        out_ptr += BLOCK_N
    for start in range(0, last, BLOCK_N):
        tl.store(out_ptr + start * stride + pid, p)
    ok = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(out_ptr + offs_m[:, None] * stride + offs_n[None, :], x, mask=ok)


def f(x, out):
    BM, BN = 16, 32
    tiles = triton.cdiv(x.shape[0], BM)
    k[(tiles,)](x, out, x.stride(0), x.stride(1), out.stride(0), out.stride(1), 1, *x.shape,
                BLOCK_M=BM, BLOCK_N=BN)
"""


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        (
            "const int x = tile_row * TILE + threadIdx.x;\n    for (int y = tile_col",
            "const int x = tile_col * TILE + threadIdx.x;\n    for (int y = tile_row",
            "tile",
        ),
        ("sums<<<rows, BLOCK_SIZE>>>", "sums<<<rows, TILE>>>", "threads"),
        ("if (lane == 0) partial[warp]", "partial[warp]", "one_of_warp"),
        ("total + warp_total(total)", "total + total", "never_called"),
        ("TILE - 1 + keys - queries", "TILE - 1", ""),  # nothing else tells of a shift
        ("min(keys, first + TILE - 1 ", "min(keys, first ", "last_of_block"),
        ("i < length && at < cols", "i < length", "loop_lacks"),
        ("while (element < rows) {", "if (element < rows) {", "once"),
        ("std::vector<float> column;", "std::vector<float> column(rows);", "filled_before"),
        ("(at < keys && first < cols)", "(at < keys)", "guard_lacks"),
        ("(at < keys && first < cols)", "(at < cols && first < cols)", "crossed"),
        (
            "out += blockIdx.x * keys * TILE;\n    partial += blockIdx.x * keys",
            "out += blockIdx.x * queries * TILE;\n    partial += blockIdx.x * queries",
            "two_lines",
        ),
    ],
)
def test_a_mistake_in_cuda_is_undone(right, wrong, name):
    names = undone(CUDA, right, wrong, is_triton=False)
    assert name in names if name else "stop_lacks" not in names


BY_WARPS = """
constexpr int TILE = 32;
constexpr int ROWS = 8;
constexpr int WARPS = 4;
__global__ void turn(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[TILE][TILE + 1];
    const int across = (cols + TILE - 1) / TILE;
    const int tile_row = (blockIdx.x / across) * TILE;
    const int tile_col = (blockIdx.x % across) * TILE;
    for (int j = 0; j < TILE; j += ROWS) tile[threadIdx.y + j][threadIdx.x] = in[j];
    __syncthreads();
    const int out_row = tile_col + threadIdx.y;
    const int out_col = tile_row + threadIdx.x;
    out[out_row * rows + out_col] = tile[threadIdx.x][threadIdx.y];
}
__global__ void sums(const float* in, float* out, int n) {
    __shared__ float of_warp[WARPS];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float total = in[i];
    if (threadIdx.x < 32) {
        total = threadIdx.x < WARPS ? of_warp[threadIdx.x] : 0;
        total += __shfl_down_sync(~0u, total, 2);
    }
    const int lane = threadIdx.x % 32;
    if (lane == 0) of_warp[threadIdx.x / 32] = total;
    if (threadIdx.x == 0) out[blockIdx.x] = total;
    for (int begin = 0; begin < n; begin += TILE) out[begin] = total;
}
extern "C" void f(const float* in, float* out, int rows, int cols) {
    const dim3 threads(TILE, ROWS);
    turn<<<rows, threads>>>(in, out, rows, cols);
    sums<<<rows, 128>>>(in, out, rows);
}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        (
            "out_row = tile_col + threadIdx.y;\n    const int out_col = tile_row",
            "out_row = tile_row + threadIdx.y;\n    const int out_col = tile_col",
            "tile",
        ),
        ("dim3 threads(TILE, ROWS)", "dim3 threads(TILE, TILE)", "threads"),
        ("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x * blockDim.x + blockIdx.x",
         "exchanged"),
        ("if (threadIdx.x < 32) {", "if (threadIdx.x < WARPS) {", "whole_warp"),
        ("if (lane == 0)", "if (threadIdx.x == 0)", "name"),
        ("if (threadIdx.x == 0)", "if (lane == 0)", "name"),
        ("begin < n; begin += TILE", "begin < n - TILE; begin += TILE", "whole_blocks"),
        ("begin < n; begin += TILE", "begin < n - TILE + 1; begin += TILE", "whole_blocks"),
    ],
)  # fmt: skip
def test_a_mistake_among_warps_and_tiles_is_undone(right, wrong, name):
    assert name in undone(BY_WARPS, right, wrong, is_triton=False)


def test_a_pointer_moves_as_another_one_does_and_is_each_threads_own():
    right = "    in += size_t(blockIdx.x) * n;\n    out += size_t(blockIdx.x) * n;\n"
    text = BY_WARPS.replace("    float total = in[i];\n", f"{right}    float total = in[i];\n")
    wrong = right.replace("size_t(blockIdx.x) * n", "blockIdx.x", 1)
    assert "as_elsewhere" in undone(text, right, wrong, is_triton=False)
    edits = [each for scope in scopes(text, is_triton=False) for each in edits_of(scope)]
    assert not [each.what for each in edits if "add to `in`" in each.what]


def test_a_loop_over_whole_blocks_in_triton_goes_on_to_the_rest():
    right, wrong = "range(0, stop, BLOCK_N)", "range(0, stop - BLOCK_N + 1, BLOCK_N)"
    assert "whole_blocks" in undone(TRITON, right, wrong, is_triton=True)


def test_bounds_are_held_against_the_length_of_a_row():
    text = "if (x < cols && y < rows) {\n        out[x * rows + y]"
    right = CUDA.replace("if (x < rows && across < cols) {\n        out[across * rows + x]", text)
    right = right.replace(
        "y = tile_col * TILE; y < cols; ++y) out[y * rows + x]", "y = 0; y < x; ++y) out[y]"
    )
    wrong = text.replace("x < cols && y < rows", "x < rows && y < cols")
    assert "crossed" in undone(right, text, wrong, is_triton=False)


def test_loads_of_two_tiles_may_lack_a_bound_each():
    wrong = CUDA.replace("(at < keys && first < cols)", "(at < keys)")
    wrong = wrong.replace("(end < keys && lane < cols)", "(end < keys)")
    made = [edit.what for scope in scopes(wrong, False) for edit in edits_of(scope)]
    assert any("a part each: `first < cols`, and `lane < cols`" in each for each in made)


def test_a_turned_tile_has_a_turned_mask():
    text = TRITON.replace("+ offs_n[None, :])", "+ offs_n[None, :], mask=(offs_m < M)[:, None])")
    text = text.replace("x, mask=ok", "tl.trans(x), mask=(offs_m < M)[:, None]")
    made = [edit.what for scope in scopes(text, True) for edit in edits_of(scope)]
    turned = "`(offs_m < M)[:, None]` stands where `tl.trans((offs_m < M)[:, None])` belongs"
    assert turned in made


def test_a_launcher_s_limit_is_not_taken_away():
    text = CUDA.replace("turn<<<rows, TILE>>>", "turn<<<min(rows, TILE), cols>>>")
    launcher = next(each for each in scopes(text, False) if each.function.name == "f")
    told = [edit.what for edit in edits_of(launcher) if edit.name == "missing_term"]
    assert told and not any("`TILE` lacks `*" in each for each in told)


def test_an_element_of_an_array_that_is_passed_is_filled():
    mistaken = CUDA.replace("        else tile[i][threadIdx.x] = 0;\n", "")
    made = [edit.what for scope in scopes(mistaken, False) for edit in edits_of(scope)]
    assert any("nothing fills `tile[i][threadIdx.x]`" in each for each in made)


def test_arrays_are_parameters_by_their_names():
    head = (
        "__device__ void f(float (&tile)[R][C], const float rows[4][N], int n, size_t* at) {\n}\n"
    )
    [function] = SourceText(head, False).functions.values()
    assert function.parameters == ("tile", "rows", "n", "at")
    assert function.integers == {"n"}


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("(N + BLOCK_N - 1) // BLOCK_N", "(N + BLOCK_M - 1) // BLOCK_M", "divisor"),
        ("(pid + 1) * BLOCK_M + N - M", "(pid + 1) * BLOCK_M", ""),
        ("BLOCK_M=BM", "BLOCK_M=64", "launch_number"),
        ("        out_ptr += BLOCK_N\n", "", "not_moved"),
        ("(pid % N) // height + ", "(pid % N) // across + ", "divisor"),
        ("tiles = tl.cdiv(N, BLOCK_N)", "tiles = tl.cdiv(M, BLOCK_M)", "other_axis"),
        ("out.stride(0), out.stride(1), 1", "out.stride(1), out.stride(0), 1", "odd_strides"),
        (
            "pid * stride_om + offs_n * stride_on",
            "pid * stride_xm + offs_n * stride_xn",
            "odd_tensor",
        ),
        ("o_ptrs += BLOCK_N * stride_on", "o_ptrs += BLOCK_N * stride_om", "advance"),
        ("o_ptrs += BLOCK_N * stride_on", "o_ptrs += BLOCK_N", "advance"),
        ("first * BLOCK_M + pid % height", "pid % height", "group_start"),
        ("tl.minimum(N, first + BLOCK_M - 1)", "tl.minimum(N, first)", "last_of_block"),
        ("tl.exp(x - m_i)", "tl.exp(x - tl.max(x, axis=0))", "running"),
        ("out_ptr + start * stride + pid,", "out_ptr + pid * stride + start,", "subscripts"),
        (
            "out_ptr + offs_m[:, None] * stride + offs_n[None, :]",
            "out_ptr + offs_n[None, :] * stride + offs_m[:, None]",
            "subscripts",
        ),
        (
            "ok = (offs_m[:, None] < M) & (offs_n[None, :] < N)",
            "ok = (offs_m[:, None] < N) & (offs_n[None, :] < M)",
            "crossed",
        ),
    ],
)
def test_a_mistake_in_triton_is_undone(right, wrong, name):
    names = undone(TRITON, right, wrong, is_triton=True)
    assert name in names if name else "stop_lacks" not in names


@pytest.mark.parametrize("made", ["const int n = 4, first = blockIdx.x % n * TILE", None])
def test_a_block_ends_at_its_last_row_by_whatever_name(made):
    text = CUDA.replace("const int first = blockIdx.x * TILE", made) if made else CUDA
    right = "const int end = min(keys, first + TILE - 1 + keys - queries)"
    wrong = right.replace("first + TILE - 1", "first")
    if made is None:  # the name of the first row's copy is in the loop's end
        alias = "const int last = first + TILE - 1;\n    "
        text = text.replace(right, alias + right.replace("first + TILE - 1", "last"))
        right, wrong = "last = first + TILE - 1;", "last = first;"
    assert "last_of_block" in undone(text, right, wrong, is_triton=False)


@pytest.mark.parametrize("shift", ["shown = start <= pid + N - M", "shift = N - M"])
def test_the_end_of_a_loop_gets_the_shift_that_stands_elsewhere(shift):
    text = TRITON.replace("    ok = (", f"    {shift}\n    ok = (")
    added = " + N - M" if "shown" in shift else " + shift"
    text = text.replace("(pid + 1) * BLOCK_M + N - M", f"(pid + 1) * BLOCK_M{added}")
    wrong = "(pid + 1) * BLOCK_M)"
    names = undone(text, f"(pid + 1) * BLOCK_M{added})", wrong, is_triton=True)
    assert "stop_lacks" in names


def test_a_warp_s_element_that_all_its_threads_store_gets_one_of_them_by_any_index() -> None:
    source = """
__global__ void k(const float* in, float* out) {
    __shared__ float sums[8];
    float v = in[threadIdx.x];
    if (threadIdx.x % 32 == 0) sums[threadIdx.x >> 5] = v;
    out[threadIdx.x] = sums[0];
}
extern "C" void f(const float* in, float* out) { k<<<1, 256>>>(in, out); }
"""
    guard = "if (threadIdx.x % 32 == 0) "
    assert "one_of_warp" in undone(source, guard, "", is_triton=False)


IN_GROUPS = """
@triton.jit
def k(out_ptr, M, N, H: tl.constexpr):
    p = tl.program_id(0)
    tall = tl.cdiv(M, 8)
    wide = tl.cdiv(N, 8)
    g = p // (H * wide)
    row = g * H + p % (H * wide) % min(tall - g * H, H)
    column = p % (H * wide) // min(tall - g * H, H)
    tl.store(out_ptr + row * N + column, 0)


def f(out):
    k[(9,)](out, *out.shape, H=8)
"""


def test_a_last_group_has_fewer_rows_in_a_tile_s_row_and_in_its_column() -> None:
    fewer = "min(tall - g * H, H)"
    mistaken = IN_GROUPS.replace(fewer, "H")
    made = {
        (edit.name, changed(mistaken, edit))
        for scope in scopes(mistaken, is_triton=True)
        for edit in edits_of(scope)
    }
    assert ("last_group", without_blanks(IN_GROUPS)) in made


NORMALISED = """
@triton.jit
def k(x_ptr, out_ptr, R: tl.constexpr, C: tl.constexpr):
    offs = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    e = tl.load(x_ptr + offs)
    top = tl.max(e, axis=1)
    e = tl.exp(e - top[:, None])
    s = tl.sum(e, axis=1)
    tl.store(out_ptr + offs, e / s[:, None])


def f(x, out):
    k[(1,)](x, out, 8, 16)
"""


@pytest.mark.parametrize(("function", "name"), [("max", "top"), ("sum", "s")])
def test_a_reduction_along_the_other_axis_is_put_beside_the_other_way_too(function, name) -> None:
    mistaken = NORMALISED.replace(f"tl.{function}(e, axis=1)", f"tl.{function}(e, axis=0)")
    mistaken = mistaken.replace(f" {name}[:, None]", f" {name}[None, :]")
    made = [
        changed(mistaken, edit)
        for scope in scopes(mistaken, is_triton=True)
        for edit in edits_of(scope)
    ]
    assert without_blanks(NORMALISED) in made
