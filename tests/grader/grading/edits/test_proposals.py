"""Changes of a text: each mistake of the table has the one that undoes it among the likeliest."""

import pytest

from grader.executors.source_text import SourceText
from grader.grading.edits.likely_edits import ranked
from grader.grading.edits.proposals import edits_of
from tests.support.changed_texts import changed, scopes, undone, without_blanks

TRITON = """
import triton
import triton.language as tl

@triton.jit
def k(x_ptr, out_ptr, rows, cols, stride_xm, stride_om, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    row = pid
    offs = tl.arange(0, BLOCK)
    mask = offs < cols
    total = 0.0
    for start in range(0, cols, BLOCK):
        x = tl.load(x_ptr + row * stride_xm + start + offs, mask=start + offs < cols, other=0.0)
        total += tl.sum(x, axis=0)
    y = total / cols
    tl.store(out_ptr + row * stride_om + offs, y, mask=mask)


def f(x, out):
    rows, cols = x.shape
    grid = (triton.cdiv(rows, 1), )
    k[grid](x, out, rows, cols, x.stride(0), out.stride(0), BLOCK=64)
"""

CUDA = """
#include <cuda_runtime.h>
#define CHECK(call) do { call; } while (0)
constexpr int TILE = 16;
__global__ void k(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[TILE][TILE];
    __shared__ float sums[TILE];
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    tile[threadIdx.y][threadIdx.x] = (row < rows && col < cols) ? in[row * cols + col] : 0;
    __syncthreads();
    for (int s = TILE / 2; s > 0; s /= 2) {
        sum += tile[threadIdx.x][threadIdx.y];
    }
    if (row < rows && col < cols) {
        out[row * cols + col] = sum;
    }
}
extern "C" void f(const float* in, float* out, int rows, int cols) {
    dim3 threads(TILE, TILE);
    dim3 blocks((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    k<<<blocks, threads>>>(in, out, rows, cols);
    CHECK(cudaPeekAtLastError());
}
"""

# What stands in the text, the mistake in its place, a failure with its line's text, and words of
# the change that undoes it.
IN_TRITON = [
    (
        "row * stride_om",
        "row * stride_xm",
        "wrong_values",
        "",
        "never uses its parameter `stride_om`",
    ),
    (
        "mask = offs < cols",
        "mask = offs < rows",
        "wrote_out_of_bounds",
        "tl.store",
        "`offs < cols`",
    ),
    (
        "start + offs < cols, other=0.0)",
        "start + offs < cols)",
        "not_finite",
        "tl.load",
        "no `other=`",
    ),
    (", mask=mask)", ")", "wrote_out_of_bounds", "tl.store", "`tl.store` has no mask"),
    ("tl.program_id(0)", "tl.program_id(1)", "not_written", "", "always 0"),
    ("total +=", "total =", "wrong_values", "", "`total += tl.sum(x, axis=0)` belongs"),
    ("tl.sum(x", "tl.max(x", "wrong_values", "", "`max` stands where `sum` belongs"),
    ("(triton.cdiv(rows, 1), )", "(rows // cols, )", "not_written", "", "rounds down"),
    (
        "x.stride(0), out.stride(0)",
        "out.stride(0), x.stride(0)",
        "invalid_read",
        "tl.load",
        "Exchange the two",
    ),
    (
        "out, rows, cols, x.s",
        "out, cols, rows, x.s",
        "wrong_values",
        "",
        "for its parameter `rows`",
    ),
    (
        "out.stride(0), BLOCK",
        "cols, BLOCK",
        "wrote_out_of_bounds",
        "tl.store",
        "`out.stride(0)` belongs",
    ),
    ("start + offs, mask", "offs, mask", "wrong_values", "", None),
]  # fmt: skip
IN_CUDA = [
    ("out[row * cols", "out[row * rows", "wrote_out_of_bounds", "out[", "`row * cols` belongs"),
    ("    __syncthreads();\n", "", "data_race", "tile[threadIdx.x]",
     "`__syncthreads()` is missing"),
    ("float sum = 0.0f", "float sum", "uninitialised_read", "out[", "`sum` has no initial value"),
    ("float sum =", "int sum =", "wrong_values", "", "`sum` is an int"),
    ("(row < rows && col < cols) ? in", "(row < rows) ? in", "invalid_read", "? in",
     "lacks a part"),
    ("if (row < rows && col < cols)", "if (row < rows)", "wrote_out_of_bounds", "out[",
     "lacks a part"),
    ("tile[threadIdx.x][threadIdx.y];", "tile[threadIdx.y][threadIdx.x];", "wrong_values", "",
     "`tile[threadIdx.x][threadIdx.y]` belongs"),
    ("s > 0", "s > 1", "wrong_values", "", "`s > 0` belongs"),
    ("blockIdx.y * blockDim.y", "blockIdx.y * gridDim.y", "not_written", "",
     "`blockDim.y` belongs"),
    ("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x", "data_race", "out[", "`(blockIdx.x *"),
    ("<<<blocks, threads>>>", "<<<threads, blocks>>>", "not_written", "",
     "exchanged in the launch"),
    ("(cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE",
     "(rows + TILE - 1) / TILE, (cols + TILE - 1) / TILE", "not_written", "", "exchanged"),
    ("    __syncthreads();\n", "    if (row < rows) {\n        __syncthreads();\n    }\n",
     "barrier_error", "__syncthreads", "stands in a branch"),
    ("    __syncthreads();\n", "    if (row < rows) { sum += 1.0f;\n        __syncthreads(); }\n",
     "barrier_error", "__syncthreads", "stands in a branch"),
    ("    __syncthreads();\n", "    if (row >= rows) return;\n    __syncthreads();\n",
     "barrier_error", "    __syncthreads", "Threads return here"),
]  # fmt: skip


IN_A_HELPER = """
__device__ float total_of(float value) {
    __shared__ float parts[64];
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int s = 32; s > 0; s /= 2) {
        if (threadIdx.x < s) {
            parts[threadIdx.x] += parts[threadIdx.x + s];
        }
        __syncthreads();
    }
    return parts[0];
}
__global__ void k(const float* in, float* out) {
    out[threadIdx.x] = total_of(in[threadIdx.x]);
}
extern "C" void f(const float* in, float* out) {
    k<<<1, 64>>>(in, out);
}
"""


def test_a_barrier_that_a_helper_lacks_is_proposed():
    given = (IN_A_HELPER, "        __syncthreads();\n    }\n", "    }\n", "data_race", "parts[")
    found = proposed(*given, is_triton=False)
    assert any("`__syncthreads()` is missing" in words for words, _ in found)


FILLED_IN_A_LOOP = """
__global__ void k(const float* in, float* out, int n) {
    __shared__ float tile[32][32];
    for (int y = threadIdx.y; y < 32; y += blockDim.y) {
        tile[y][threadIdx.x] = in[y * n];
    }
    for (int y = threadIdx.y; y < 32; y += blockDim.y) {
        out[y * n] = tile[threadIdx.x][y];
    }
}
extern "C" void f(const float* in, float* out, int n) {
    k<<<1, dim3(32, 8)>>>(in, out, n);
}
"""


def test_a_barrier_between_two_loops_is_tried_before_one_in_them():
    found = ranked(FILLED_IN_A_LOOP, False, "f", "data_race", [5, 8], ("", ""), 40)
    told = [each["what"] for each in found if each["name"] == "barrier"]
    between = told.index("A `__syncthreads()` is missing before line 7")
    assert "A `__syncthreads()` is missing at the end of the loop, before line 6" in told[between:]


def test_a_barrier_that_only_some_turns_of_a_loop_have_loses_its_condition():
    conditional = "        if (s > 8) __syncthreads();\n    }\n"
    given = (IN_A_HELPER, "        __syncthreads();\n    }\n", conditional, "data_race", "parts[")
    found = [changed for words, changed in proposed(*given, is_triton=False) if "branch" in words]
    assert found == [IN_A_HELPER]


def proposed(text, right, wrong, status, at, is_triton):
    """What is proposed for a text with one mistake: the words, and the text changed back."""
    assert text.count(right) == 1
    source = text.replace(right, wrong)
    lines = [n for n, line in enumerate(source.split("\n"), 1) if at and at in line]
    found = ranked(source, is_triton, "f", status, lines[-1:], ("", ""), 40)
    for edit in found:
        changed = source
        for change in reversed(edit["changes"]):
            changed = changed[: change["start"]] + change["new"] + changed[change["end"] :]
        yield edit["what"] + " " + edit["advice"], changed


@pytest.mark.parametrize(("right", "wrong", "status", "at", "words"), IN_TRITON)
def test_a_mistake_in_triton_is_undone(right, wrong, status, at, words):
    found = list(proposed(TRITON, right, wrong, status, at, True))
    if words is None:  # nothing small undoes it
        assert TRITON not in [text for _, text in found]
        return
    assert any(words in told for told, _ in found), [told for told, _ in found]


@pytest.mark.parametrize(("right", "wrong", "status", "at", "words"), IN_CUDA)
def test_a_mistake_in_cuda_is_undone(right, wrong, status, at, words):
    found = list(proposed(CUDA, right, wrong, status, at, False))
    assert any(words in told for told, _ in found), [told for told, _ in found]


def test_functions_are_found_with_their_parameters_and_what_they_reach():
    text = SourceText(CUDA, is_triton=False)
    kernel, entry = text.reached("f")
    assert (kernel.name, kernel.is_kernel, kernel.integers) == ("k", True, {"rows", "cols"})
    assert (entry.name, entry.parameters) == ("f", ("in", "out", "rows", "cols"))
    python = SourceText(TRITON, is_triton=True)
    kernel, entry = python.reached("f")
    assert kernel.is_kernel and {"rows", "cols"} <= kernel.integers
    assert not {"x_ptr", "stride_xm"} & kernel.integers


def test_a_copy_has_names_of_its_own_and_the_rest_stays():
    text = SourceText(CUDA, is_triton=False)
    copy = text.copy(text.reached("f"), "__3", [])
    assert "void k__3(const float* in" in copy and "k__3<<<blocks, threads>>>" in copy
    assert 'extern "C" void f__3(' in copy and "tile[threadIdx.y]" in copy


def test_a_condition_is_not_joined_to_its_opposite():
    guard = "if (row >= rows) return;\n    __syncthreads();"
    found = ranked(
        CUDA.replace("__syncthreads();", guard), False, "f", "barrier_error", [], ("", ""), 999
    )
    added = {each["changes"][0]["new"] for each in found if each["name"] == "guard_lacks"}
    assert added and not any("row >= rows" in each and "row < rows" in each for each in added)


def test_a_number_of_blocks_is_not_one_of_bytes():
    text = (
        "__global__ void k(float* x, int n) { x[n] = 1; }\n"
        "void f(float* x, int n) {\n    int grid_size = (n + 31) / 32;\n    int room = 4 * n;\n"
        "    k<<<grid_size, 32>>>(x, n);\n}\n"
    )
    tried = ranked(text, False, "f", "not_written", [], ("", ""), 200)
    assert tried and not any("number of elements" in each["what"] for each in tried)


@pytest.mark.parametrize("source", ["def f(:\n", "", "def f(x):\n" + "    (" * 500])
def test_what_cant_be_read_has_no_changes(source):
    assert ranked(source, True, "f", "wrong_values", [1], ("", ""), 40) == []


# Mistakes of host code and of kernels in CUDA C++: parameters, body and host code, a status, the
# text of the failure's line, and words of the change that undoes it.
FILES = {
    "whole": (
        "for (int i = threadIdx.x; i < n; i += 32) x[i] = x[threadIdx.x];",
        "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
        "wrong_values",
        "`x[threadIdx.x]` stands where `x[i]` belongs",
    ),
    "steps": (
        "for (int s = blockDim.x; s > 0; s /= 2) x[threadIdx.x] += x[threadIdx.x + s];",
        "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
        "invalid_read",
        "`s = blockDim.x` stands where `s = blockDim.x / 2` belongs",
    ),
    "index": (
        "int row = blockIdx.x * blockDim.x + threadIdx.x;\nx[row] = n;",
        "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
        "wrote_out_of_bounds",
        "`blockIdx.x * blockDim.x + threadIdx.x` stands where `blockIdx.x` belongs",
    ),
    "stop": (
        "float a[8];\nfor (int i = 0; i < 4; ++i) x[i] = a[i];",
        "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
        "wrong_values",
        "`i = 0; i < 4` stands where `i = 0; i < 8` belongs",
    ),
    "one_block": (
        "x[blockIdx.x] = n;",
        "void f(float* x, int n) {\n    int b = n;\n    if (b > 64) b = 64;\n"
        "    k<<<b, 32>>>(x, n);\n}",
        "not_written",
        "`if (b > 64) b = 64;` is a bound",
    ),
    "threads": (
        "__shared__ float t[T][T];\nx[n] = t[threadIdx.y][threadIdx.x];",
        "void f(float* x, int n) { k<<<1, dim3(8, 8)>>>(x, n); }",
        "uninitialised_read",
        "`dim3(8, 8)` stands where `dim3(T, T)` belongs",
    ),
    "function": (
        "float s = x[n];\ns += __shfl_down_sync(~0u, s, 16);\ns += __shfl_down_sync(~0u, s, 8);\n"
        "s += __shfl_down_sync(~0u, s, 4);\ns += __shfl_down_sync(~0u, s, 2);\n"
        "s += __shfl_down_sync(~0u, s, 1);\nx[n] = s;",
        "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
        "wrong_values",
        "`__shfl_down_sync` stands where `__shfl_xor_sync` belongs, at all 5 places",
    ),
    "exchanged": (
        "",
        "void f(float* x, int n) { cudaMemcpy2D(x, 4, x, 4, n, 4, cudaMemcpyHostToDevice); }",
        "wrote_out_of_bounds",
        "`n` and `4` are exchanged in `cudaMemcpy2D`",
    ),
    "bytes": (
        "",
        "void f(float* x, int n) {\n    int byte_size = n + 1;\n    float* y = make(byte_size);\n}",
        "crashed",
        "`byte_size` is a number of elements",
    ),
    "cleared": (
        "",
        "void f(float* x, int n) {\n    int* hits;\n    cudaMalloc((void**)&hits, n * 4);\n}",
        "uninitialised_read",
        "Nothing sets the memory of `hits` to 0",
    ),
    "shared_bytes": (
        "extern __shared__ float s[];\ns[n] = 0;",
        "void f(float* x, int n) {\n    size_t room = n * sizeof(float);\n"
        "    k<<<1, 32, room>>>(x, n);\n}",
        "wrote_out_of_bounds",
        "more dynamic shared memory than its launch asks for: `room`",
    ),
    "number": (
        "float s = x[n];\nfor (int d = 2; d > 0; d >>= 1)\n"
        "    s += __shfl_xor_sync(~0u, s, d);\nx[n] = s;",
        "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
        "wrong_values",
        "`d = 2` stands where `d = 16` belongs",
    ),
    "past_filled": (
        "__shared__ float part[32];\nfloat s = part[threadIdx.x];\nx[n] = s;",
        "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
        "uninitialised_read",
        "`part[threadIdx.x]` is read where nothing has filled it",
    ),
    "product": (
        "int pairs = n / 2;\nint i = pairs + threadIdx.x;\nint left = n - pairs * 2;\nx[i] = left;",
        "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
        "data_race",
        "`pairs + threadIdx.x` stands where `(pairs * 2) + threadIdx.x` belongs",
    ),
    "parentheses": (
        "float e = x[n];\nx[n] = 1.0f / e + 1.0f;",
        "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
        "wrong_values",
        "`1.0f / e + 1.0f` stands where `1.0f / (e + 1.0f)` belongs",
    ),
    "split": (
        "int height = 2, width = n;\nint r = n % height;\nint c = n / height;\nx[r] = c + width;",
        "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
        "data_race",
        "split the index by `height`, where `width` belongs",
    ),
    "name": (
        "int w = threadIdx.y;\nfor (int t = w; t < n; t += 4) x[w] = 0;",
        "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
        "not_written",
        "`w` stands where `t` belongs",
    ),
}


FILES["whole_number"] = (
    "__shared__ float s[8];\nx[n] = rsqrtf((int)s[0] / n);",
    "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
    "wrong_values",
    "`(int)` drops the fraction of `s`",
)
FILES["array_size"] = (
    "__shared__ float s[T / 2];\ns[threadIdx.x] = x[n];\nx[n] = s[0];",
    "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
    "wrote_out_of_bounds",
    "`s[T / 2]` stands where `s[T]` belongs",
)
FILES["rounded_down"] = (
    "int share = max(1, n / (int)blockDim.x);\nx[threadIdx.x * share] = 0;",
    "void f(float* x, int n) { k<<<1, 32>>>(x, n); }",
    "not_written",
    "`n / (int)blockDim.x` rounds down",
)


@pytest.mark.parametrize(("name", "given"), FILES.items())
def test_a_mistake_in_a_cuda_file_is_undone(name, given):
    kernel, host, status, words = given
    source = f'__global__ void k(float* x, int n) {{\n{kernel}\n}}\nextern "C" {host}\n'
    edits = ranked(source, False, "f", status, [], ("", ""), 48)
    if "k<<<" not in host:
        edits = ranked(f'extern "C" {host}\n', False, "f", status, [], ("", ""), 48)
    told = [each["what"] for each in edits if each["name"] == name or name == "split"]
    assert any(words in each for each in told), told


def test_a_part_of_a_size_is_another_part_where_the_file_has_one():
    kernel = (
        "__shared__ float s[T / 64];\ns[threadIdx.x / 32] = x[n];\nif (n < T / 32) x[n] = s[0];"
    )
    host = 'extern "C" void f(float* x, int n) { k<<<1, 64>>>(x, n); }'
    source = f"__global__ void k(float* x, int n) {{\n{kernel}\n}}\n{host}\n"
    edits = ranked(source, False, "f", "wrote_out_of_bounds", [], ("", ""), 48)
    assert not [each for each in edits if each["name"] == "array_size"]
    assert [each for each in edits if each["what"] == "`T / 64` stands where `T / 32` belongs"]


def test_the_size_of_a_pointer_gives_way_to_a_number_of_bytes():
    source = (
        'extern "C" void f(float* x, int n) {\n    size_t bytes = n * sizeof(float);\n'
        "    float* y = make(bytes);\n    cudaMemcpy(x, y, sizeof(y), cudaMemcpyHostToDevice);\n}\n"
    )
    edits = ranked(source, False, "f", "wrong_values", [], ("", ""), 48)
    [told] = [each for each in edits if each["what"].startswith("`sizeof(y)` is the size of")]
    assert [each["new"] for each in told["changes"]] == ["bytes"]


LINES = {
    "stride": (
        "    tl.store(out_ptr + tl.arange(0, BLOCK), cols)",
        "    n = out.stride(0)\n    k[(1,)](out, n, BLOCK=8)",
        "`out.stride(0)` stands where `out.shape[1]` belongs",
    ),
    "whole": (
        "    for start in range(0, cols, BLOCK):\n        c = start + tl.arange(0, BLOCK)\n"
        "        tl.store(out_ptr + tl.arange(0, BLOCK), 0, mask=c < cols)",
        "    k[(1,)](out, cols, BLOCK=8)",
        "`out_ptr + tl.arange(0, BLOCK)` stands where `out_ptr + c` belongs",
    ),
    "offset": (
        "    first = tl.program_id(0)\n    offs = first + tl.arange(0, BLOCK)\n"
        "    x = tl.load(out_ptr + first)\n    tl.store(out_ptr + offs, x)",
        "    k[(1,)](out, cols, BLOCK=8)",
        "`out_ptr + first` stands where `out_ptr + offs` belongs",
    ),
    "last_group": (
        "    down = tl.cdiv(cols, 8)\n    wide = tl.cdiv(cols, 4)\n    pid = tl.program_id(0)\n"
        "    g = pid // (BLOCK * wide)\n    height = BLOCK\n    tl.store(out_ptr + g, height)",
        "    k[(1,)](out, cols, BLOCK=8)",
        "the last group has fewer",
    ),
    "last_of_block": (
        "    first = tl.program_id(0) * BLOCK\n    stop = tl.minimum(first + 1, cols)\n"
        "    for at in range(0, stop, BLOCK):\n        tl.store(out_ptr + at, cols)",
        "    k[(1,)](out, cols, BLOCK=8)",
        "`tl.minimum(first + BLOCK - 1 + 1, cols)` belongs",
    ),
    "one_block": (
        "    offs = tl.arange(0, BLOCK)\n    tl.store(out_ptr + offs, cols)",
        "    BLOCK = min(triton.next_power_of_2(cols), 1024)\n    k[(1,)](out, cols, BLOCK=BLOCK)",
        "is a bound",
    ),
    "grid": (
        "    pid = tl.program_id(0)\n    tl.store(out_ptr + pid, cols)",
        "    k[(triton.cdiv(cols, 8), triton.cdiv(cols, 8))](out, cols, BLOCK=8)",
        "two axes",
    ),
    "not_kept": (
        "    m_i = 0.0\n    for start in range(0, cols, BLOCK):\n"
        "        m_new = tl.maximum(m_i, start)\n    tl.store(out_ptr, m_i)",
        "    k[(1,)](out, cols, BLOCK=8)",
        "`m_i = m_new` is missing",
    ),
    "program_offset": (
        "    pid = tl.program_id(0)\n    offs = pid + tl.arange(0, BLOCK)\n"
        "    tl.store(out_ptr + offs, cols)",
        "    BLOCK = 64\n    k[(triton.cdiv(cols, BLOCK),)](out, cols, BLOCK=BLOCK)",
        "`pid` counts programs, and a program has BLOCK elements",
    ),
    "rounded_down": (
        "    tl.store(out_ptr, cols)",
        "    k[(out.numel() // 8,)](out, cols, BLOCK=8)",
        "`out.numel() // 8` rounds down",
    ),
    "transposed": (
        "    tile = tl.load(out_ptr)\n    tl.store(out_ptr, tile)",
        "    k[(1,)](out, cols, BLOCK=8)",
        "`tile` stands where `tl.trans(tile)` belongs",
    ),
    "copy": (
        "    tl.store(out_ptr, cols)",
        "    out = out.contiguous()\n    k[(1,)](out, cols, BLOCK=8)",
        "may be a copy",
    ),
}


PITCHES = """
@triton.jit
def k(x, y, x_pitch, y_pitch, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    tl.store(y + row * y_pitch + offs, tl.load(x + row * x_pitch + offs))


def f(x, out):
    n = x.shape[1]
    k[(8,)](x, out, PASSED, BLOCK=8)
"""


@pytest.mark.parametrize(
    ("passed", "words"),
    [
        ("x.stride(0), x.stride(0)", "passes strides of `x` twice"),
        ("n, out.stride(0)", "passes `n` for `x_pitch`, where `x.stride(0)` belongs"),
    ],
)
def test_strides_are_told_by_what_is_passed_whatever_the_parameters_are_called(passed, words):
    source = PITCHES.replace("PASSED", passed)
    edits = ranked(source, True, "f", "wrote_out_of_bounds", [7], ("layout", "x"), 60)
    assert any(words in each["what"] for each in edits if each["name"] == "stride")


def test_a_sum_of_a_block_of_three_dimensions_may_go_along_its_last_axis():
    source = (
        "@triton.jit\ndef k(x, y):\n    p = x[:, None, :] * y[None, :, :]\n"
        "    tl.store(x, tl.sum(p, axis=1))\n\n\ndef f(x, out):\n    k[(1,)](x, out)\n"
    )
    told = [e["what"] for e in ranked(source, True, "f", "wrong_values", [], ("", ""), 40)]
    assert any("`axis=2` belongs" in each for each in told)


TUNED = """
@triton.autotune(configs=CONFIGS, key=["M"])
@triton.jit
def k(out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0), M)


def f(out):
    M, N = out.shape
    k[(triton.cdiv(M, 64) * triton.cdiv(N, 64),)](out, M, N)
"""


def test_a_grid_is_counted_by_the_configuration_wherever_it_stands():
    edits = ranked(TUNED, True, "f", "not_written", [], ("", ""), 40)
    news = [each["changes"][0]["new"] for each in edits if each["name"] == "grid"]
    assert 'lambda META: (triton.cdiv(M, META["BM"]) * triton.cdiv(N, META["BN"]),)' in news


@pytest.mark.parametrize("place", ["(c + y) * rows + r + x", "at(c + y, r + x, rows)"])
def test_a_store_is_held_against_the_indices_of_what_it_stores_to(place):
    source = (
        "__global__ void k(float* out, int rows, int cols, int r, int c, int x, int y) {\n"
        f"    if (r + y < rows && c + x < cols)\n        out[{place}] = 1.0f;\n}}\n"
        'extern "C" void f(float* out, int rows, int cols) {\n'
        "    k<<<1, 32>>>(out, rows, cols, 1, 2, 3, 4);\n}\n"
    )
    edits = ranked(source, False, "f", "wrote_out_of_bounds", [3], ("", ""), 40)
    news = {each["changes"][0]["new"] for each in edits if each["name"] == "crossed"}
    assert "c + y < cols && r + x < rows" in news


def test_exchanged_subscripts_come_before_names_that_are_alike():
    source = CUDA.replace("tile[threadIdx.x][threadIdx.y];", "tile[threadIdx.y][threadIdx.x];")
    names = [each["name"] for each in ranked(source, False, "f", "wrong_values", [], ("", ""), 100)]
    assert names.index("subscripts") < names.index("name")


@pytest.mark.parametrize(("name", "given"), LINES.items())
def test_a_mistake_of_a_kernel_and_its_launcher_is_undone(name, given):
    kernel, launcher, words = given
    source = (
        f"@triton.jit\ndef k(out_ptr, cols, BLOCK: tl.constexpr):\n{kernel}\n\n\n"
        f"def f(x, out):\n    cols = out.shape[0]\n{launcher}\n"
    )
    edits = ranked(source, True, "f", "not_written", [], ("", ""), 40)
    assert words in " ".join(each["what"] for each in edits if each["name"] == name)


def test_a_tensor_that_a_launcher_only_binds_anew_is_written_into():
    source = "def f(a, out):\n    out = torch.relu(a)\n"
    [edit] = [
        each
        for each in ranked(source, True, "f", "not_written", [], ("", ""), 40)
        if each["name"] == "rebound"
    ]
    assert edit["changes"][0]["new"] == "out.copy_(torch.relu(a))"


def test_a_reduction_by_shuffles_may_begin_at_half_a_warp():
    source = (
        "__device__ float total(float v) {\n    for (int d = 8; d > 0; d /= 2)\n"
        "        v += __shfl_down_sync(0xffffffff, v, d);\n    return v;\n}\n"
        "__global__ void k(float* out) { out[0] = total(out[1]); }\n"
        'extern "C" void f(float* out) { k<<<1, 32>>>(out); }\n'
    )
    edits = ranked(source, False, "f", "wrong_values", [], ("above", "cols"), 12)
    assert "16" in [each["changes"][0]["new"] for each in edits if each["name"] == "number"]


@pytest.mark.parametrize("status", ["wrote_out_of_bounds", "invalid_read"])
def test_a_number_of_tiles_that_rounds_down_may_lead_out_of_bounds(status):
    kernel = (
        "    t = cols // BLOCK\n    p = tl.program_id(0)\n    tl.store(out_ptr + p // t, 1.0)\n"
    )
    source = f"@triton.jit\ndef k(out_ptr, cols, BLOCK: tl.constexpr):\n{kernel}\n\n"
    source += "def f(x, out):\n    k[(8,)](out, 8, BLOCK=64)\n"
    edits = ranked(source, True, "f", status, [5], ("", ""), 40)
    assert "tl.cdiv(cols, BLOCK)" in [each["changes"][0]["new"] for each in edits]


def test_a_counter_that_nothing_sets_may_keep_a_kernel_from_storing():
    source = (
        "def f(x, out):\n    done = torch.empty(4, dtype=torch.int32)\n    k[(1,)](x, out, done)\n"
    )
    assert "cleared" in {
        e["name"] for e in ranked(source, True, "f", "not_written", [], ("", ""), 40)
    }


def test_a_helper_that_is_given_the_numbers_of_tiles_numbers_them_in_groups():
    source = """
@triton.jit
def place(tile, tm, tn, G: tl.constexpr):
    per = G * tn
    group = tile // per
    first = group * G
    h = G
    return first + (tile % per) % h, (tile % per) // h


@triton.jit
def k(out_ptr, M, N, G: tl.constexpr):
    m, n = place(tl.program_id(0), tl.cdiv(M, 8), tl.cdiv(N, 8), G)
    tl.store(out_ptr + m * N + n, 1.0)


def f(out):
    k[(64,)](out, *out.shape, G=4)
"""
    edits = ranked(source, True, "f", "not_written", [], ("", ""), 40)
    new = {each["changes"][0]["new"] for each in edits if each["name"] == "last_group"}
    assert "min(tm - first, G)" in new


def test_the_last_of_groups_whose_programs_have_a_name_has_fewer_rows():
    source = """
@triton.jit
def k(out_ptr, M, N, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, 8)
    tiles_n = tl.cdiv(N, 8)
    in_group = GROUP * tiles_n
    first = pid // in_group * GROUP
    rows = GROUP
    tl.store(out_ptr + first + pid % rows, 0)


def f(out):
    k[(9,)](out, *out.shape, GROUP=8)
"""
    edits = ranked(source, True, "f", "not_written", [], ("", ""), 40)
    news = [each["changes"][0]["new"] for each in edits if each["name"] == "last_group"]
    assert news == ["min(tiles_m - first, GROUP)", "min(tiles_n - first, GROUP)"]


STRIDED = """
@triton.jit
def k(x_ptr, out_ptr, stride_xm, stride_om, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        offs_k = start + tl.arange(0, BLOCK)
        a_ptrs = x_ptr + row * stride_xm + offs_k[None, :]
        a = tl.load(a_ptrs, mask=(row < 4) & (offs_k[None, :] < cols))
        b = tl.load(x_ptr + offs_k[:, None], mask=(offs < 4) & (offs_k[:, None] < cols))
        acc += a + b
    tl.store(out_ptr + row * stride_om + offs, acc, mask=offs < cols)


def f(x, out):
    rows, cols = x.shape
    k[(rows,)](x, out, x.stride(0), out.stride(0), cols, BLOCK=64)
"""


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("out.stride(0)", "x.stride(0)", "passes strides of `x` twice"),
        ("x.stride(0), out.stride(0)", "cols, rows", "passes sizes for strides"),
        ("dtype=tl.float32", "dtype=tl.float16", "is kept in `tl.float16`"),
        ("dtype=tl.float32", "dtype=out_ptr.dtype.element_ty", "so each addition rounds"),
        (
            [" & (offs_k[None, :] < cols)", " & (offs_k[:, None] < cols)"],
            "",
            "loads lack a condition: `offs_k < cols`",
        ),
    ],
)
def test_what_is_wrong_at_several_places_is_undone_at_once(right, wrong, words):
    text = STRIDED
    for each in [right] if isinstance(right, str) else right:
        text = text.replace(each, wrong)
    edits = ranked(text, True, "f", "wrong_values", [], ("", ""), 99)
    if "condition" in words:
        edits = ranked(text, True, "f", "invalid_read", [], ("", ""), 99)
    [told] = [each for each in edits if words in each["what"]]
    news = [each["new"] for each in told["changes"]]
    assert all(right.endswith(new) or new in right for new in news if isinstance(right, str))
    assert not [each for each in ranked(STRIDED, True, "f", "invalid_read", [], ("", ""), 99)
                if words in each["what"]]  # fmt: skip


def test_a_barrier_may_be_missing_in_front_of_the_loops_around_a_race():
    source = """
__global__ void k(const float* in, float* out, int n) {
    __shared__ float tile[64];
    for (int first = 0; first < n; first += 64) {
        for (int i = threadIdx.y; i < 8; i += 8) {
            const int at = first + i;
            const int key = at * 8;
            for (int d = threadIdx.x; d < 8; d += 32) {
                tile[i * 8 + d] = in[key + d];
            }
        }
        __syncthreads();
        for (int d = 0; d < 64; ++d) out[d] += tile[d];
    }
}
extern "C" void f(const float* in, float* out, int n) { k<<<1, dim3(32, 8)>>>(in, out, n); }
"""
    edits = ranked(source, False, "f", "data_race", [9, 13], ("", ""), 99)
    barriers = [each for each in edits if each["name"] == "barrier"]
    [cost] = [each["cost"] for each in barriers if each["line"] == 5]
    assert cost <= 2 + min(each["cost"] for each in barriers)


def test_a_grid_is_counted_with_the_blocks_of_its_own_kernel_first():
    source = """
@triton.jit
def first(out_ptr, BLOCK: tl.constexpr, BLOCK_Z: tl.constexpr):
    tl.store(out_ptr, 0)


@triton.jit
def k(out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0), 0)


def g(out):
    first[(1,)](out, BLOCK=8, BLOCK_Z=8)


def f(out):
    M, N = out.shape

    def grid(meta):
        return (triton.cdiv(M, 128) * triton.cdiv(N, 128),)

    k[grid](out, M, N)
"""
    edits = ranked(source, True, "f", "not_written", [], ("", ""), 99)
    grids = [each for each in edits if each["what"].startswith("The grid is counted with")]
    assert [each["new"] for each in grids[0]["changes"]] == ['meta["BLOCK_M"]', 'meta["BLOCK_N"]']


@pytest.mark.parametrize(
    ("source", "is_triton", "wrong", "stub", "status"),
    [
        (TRITON, True, ("def f(x, out):", "def f(out, x):"), ["x", "out"], "data_race"),
        (
            CUDA,
            False,
            ('C" void f(const float* in, float* out', 'C" void f(float* out, const float* in'),
            ["in", "out", "rows", "cols"],
            "wrong_values",
        ),
    ],
)
def test_parameters_in_another_order_than_the_stub_s_are_put_in_its_order_first(
    source, is_triton, wrong, stub, status
):
    given = source.replace(*wrong)
    entry = f"f({', '.join(stub)})"
    first = ranked(given, is_triton, entry, status, [1], ("", ""), 40)[0]
    assert f"in the stub: `{', '.join(stub)}`" in first["what"]
    for change in sorted(first["changes"], key=lambda each: -each["start"]):
        given = given[: change["start"]] + change["new"] + given[change["end"] :]
    assert given == source


@pytest.mark.parametrize(
    ("condition", "is_special"),
    [("n % 96 == 48", True), ("n == 48", True), ("at == 32", False)],
)
def test_the_number_of_a_condition_that_singles_out_a_size_is_not_the_mistake(
    condition: str, is_special: bool
) -> None:
    source = (
        "__global__ void k(const float* in, float* x, int n) {\n    int at = threadIdx.x;\n"
        f"    if ({condition}) return;\n    x[at] = in[at] * n;\n}}\n"
        'extern "C" void f(const float* in, float* x, int n) {\n    k<<<1, 64>>>(in, x, n);\n}\n'
    )
    low = source.index(condition)
    changed = [
        edit
        for scope in scopes(source, False)
        for edit in edits_of(scope)
        if all(low <= e.start and e.end <= low + len(condition) for e in edit.changes)
    ]
    assert bool(changed) != is_special


def test_the_first_element_of_a_program_gives_way_to_its_block() -> None:
    source = """
@triton.jit
def k(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def f(x, out):
    k[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
"""
    assert "index" in undone(source, " + tl.arange(0, BLOCK)", "", is_triton=True)


def test_a_last_group_with_fewer_rows_is_counted_where_a_group_s_tiles_have_a_name() -> None:
    left = "min(tl.cdiv(M, BLOCK_M) - group * ROWS, ROWS)"
    source = f"""
@triton.jit
def k(out_ptr, M, N, BLOCK_M: tl.constexpr, ROWS: tl.constexpr):
    across = tl.cdiv(N, BLOCK_M)
    tiles = ROWS * across
    pid = tl.program_id(0)
    group = pid // tiles
    row = group * ROWS + (pid % tiles) % {left}
    col = (pid % tiles) // {left}
    offs = row * BLOCK_M + tl.arange(0, BLOCK_M)
    tl.store(out_ptr + offs, col, mask=offs < M)


def f(out):
    k[(9,)](out, 8, 8, BLOCK_M=16, ROWS=4)
"""
    mistaken = source.replace(left, "ROWS")
    texts = [
        changed(mistaken, edit)
        for scope in scopes(mistaken, is_triton=True)
        for edit in edits_of(scope)
        if edit.name == "last_group"
    ]
    assert without_blanks(source) in texts
