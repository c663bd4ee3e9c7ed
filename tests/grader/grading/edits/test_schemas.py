"""General changes: each undoes a mistake in a small text; values give way to like ones."""

import pytest

from grader.executors.source_text import Change, SourceText
from grader.grading.edits import schemas
from grader.grading.edits.edit_scope import Scope
from grader.grading.edits.proposals import edits_of
from tests.support.changed_texts import changed, changed_texts, scopes

TRITON = """
import triton
import triton.language as tl

SCALE = 1.5

@triton.jit
def k(x_ptr, w_ptr, out_ptr, stride_xm, stride_om, M, N, eps, BM: tl.constexpr, BN: tl.constexpr):
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    pid_m = pid // tiles_n
    pid_n = pid % tiles_n
    offs_m = pid_m * BM + tl.arange(0, BM)
    offs_n = pid_n * BN + tl.arange(0, BN)
    ok = (offs_n[None, :] < N) & (offs_m[:, None] < M)
    w = tl.load(w_ptr + offs_n, mask=offs_n < N, other=0.0)
    x = tl.load(x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :], mask=ok, other=0.0)
    total = tl.sum(x * x, axis=1)
    old = total + 1
    y = x * tl.exp2(total * SCALE)[:, None] * w[None, :] * tl.exp(old - eps)
    for start in range(0, N, BN):
        x_ptr += BN * stride_xm
        w_ptr += BN
    out = out_ptr + offs_n[:, None] * stride_om + offs_m[None, :]
    tl.store(out, tl.trans(y), mask=tl.trans(ok))


def f(x, w, out):
    M, N = x.shape
    partial = torch.zeros(M)
    grid = (triton.cdiv(M, 16) * triton.cdiv(N, 16), 1)
    k[(M, N)](x, w, out, x.stride(0), out.stride(0), M, N, 1e-6, BM=16, BN=16)
"""
CUDA = """
namespace {
int ceil_div(int a, int b) { return (a + b - 1) / b; }
#define WIDTH 32
#define PITCH (WIDTH + 1)
__device__ float helper(float value) { return value * value; }
__global__ void k(const float* in, float* out, int rows, int cols, float eps) {
    const int row = blockIdx.x, lane = threadIdx.x;
    const int turn = row + lane;
    tile[lane * PITCH + turn] = 1.0f;
    float sums[4] = {};
    int at = lane;
    while (at < cols) { sums[0] += helper(in[row * cols + at]); at += 32; }
    at = lane;
    while (at < cols) { out[row * cols + at] = sums[0] + eps; at += 32; }
}
template <int TURNS>
__global__ void g(float* out, int cols) {
    const int share = ceil_div(cols, 64);
    const int begin = threadIdx.x * share + gridDim.x;
    const int i = threadIdx.x + blockIdx.x * blockDim.x;
    const int first = blockIdx.x * blockDim.x * TURNS;
    for (int j = 0; j < TURNS; ++j) out[first + i] = begin;
}
}
extern "C" void f(const float* in, float* out, int rows, int cols, float eps) {
    g<4><<<rows * ceil_div(cols, 64), 64>>>(out, cols);
    cudaMemcpy(out, in, rows * cols, cudaMemcpyDeviceToDevice);
    k<<<rows, 32>>>(in, out, rows, cols, eps);
}
"""


def without_blanks(text):
    """A text without blanks and parentheses: a change may put more of them than are needed."""
    return "".join(text.replace("(", "").replace(")", "").split())


def undone(text, is_triton):
    """The texts that a general change makes of a text, by the change's name."""
    for name, made in changed_texts(schemas.RULES, text, is_triton):
        yield name, without_blanks(made)


def test_a_parameter_keeps_the_value_of_its_name():
    text = TRITON.replace("BM=16, BN=16", "BM=BM, BN=BN")
    text = text.replace("    partial", "    BM, BN = 16, 16\n    partial")
    assert not [each for _, each in undone(text, is_triton=True) if "BM=BN,BN=BN" in each]


def test_a_loop_keeps_its_counter():
    text = (
        "void f(float* a, const float* b, int rows, int cols) {\n"
        "    for (int row = 0; row < rows; ++row) a[row] = b[row * rows];\n"
        "}\n"
    )
    made = [each for _, each in undone(text, is_triton=False)]
    assert any("b[row*cols]" in each for each in made)
    assert not [each for each in made if "++cols" in each or "cols<rows" in each]


def test_memory_that_a_tensor_method_allocates_is_cleared():
    text = TRITON.replace("torch.zeros(", "x.new_empty(")
    wanted = without_blanks(TRITON.replace("torch.zeros(", "x.new_zeros("))
    assert ("cleared", wanted) in undone(text, is_triton=True)


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("pid // tiles_n", "pid // tiles_m", "name"),
        ("k[(M, N)]", "k[(N, M)]", "exchanged"),
        ("x.stride(0), out.stride(0)", "out.stride(0), x.stride(0)", "exchanged"),
        ("x_ptr + offs_m[:, None] * stride_xm", "x_ptr + offs_m[:, None]", "missing_term"),
        ("w_ptr + offs_n", "w_ptr + pid_n", "name"),
        ("tl.cdiv(N, BN)", "tl.cdiv(M, BM)", "pasted"),
        ("total * SCALE", "total", "unused"),
        ("tl.exp(old - eps)", "tl.exp(eps - old)", "exchanged"),
        (" * w[None, :]", " * -w[None, :]", "sign"),
        ("tl.exp2(total * SCALE)", "tl.exp2(tl.exp2(total * SCALE))", "call"),
        ("mask=tl.trans(ok)", "mask=ok", "transposed"),
        ("x * x, axis=1", "x * x", "axis"),
        (", mask=offs_n < N, other=0.0)", ", mask=offs_n < N)", "keyword"),
        ("(offs_n[None, :] < N) & (offs_m[:, None] < M)", "offs_n[None, :] < N", "mask_lacks"),
        ("        w_ptr += BN\n", "", "not_moved"),
        ("torch.zeros(", "torch.empty(", "cleared"),
        ("cdiv(M, 16) * triton.cdiv(N, 16)", "cdiv(M * N, 16 * 16)", "grid"),
    ],
)
def test_a_mistake_in_triton_is_undone(right, wrong, name):
    check(TRITON, right, wrong, name, is_triton=True)


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("in[row * cols + at]", "in[row * cols + lane]", "name"),
        ("lane * PITCH", "lane * WIDTH", "derived"),
        ("PITCH + turn", "PITCH + row", "derived"),
        ("threadIdx.x * share", "threadIdx.x", "missing_term"),
        (
            "threadIdx.x + blockIdx.x * blockDim.x;",
            "blockIdx.x + threadIdx.x * blockDim.x;",
            "exchanged",
        ),
        ("rows * ceil_div(cols, 64)", "ceil_div(rows * cols, 64)", "grid"),
        ("<<<rows, 32", "<<<ceil_div(rows, 32), 32", "grid"),
        ("(float value)", "(int value)", "whole_number"),
        ("sums[4] = {};", "sums[4];", "uninitialised"),
        ("(out, in, rows", "(&out, in, rows", "sign"),
        ("= sums[0] + eps", "= sums[0]", "missing_term"),
        ("in[row * cols + at]", "in[row * cols + at + rows]", "term"),
        ("in[row * cols + at]", "in[row * cols + at + rows * cols]", "term"),
    ],
)
def test_a_mistake_in_cuda_is_undone(right, wrong, name):
    check(CUDA, right, wrong, name, is_triton=False)


def test_a_grid_that_counts_the_blocks_of_programs_stays():
    text = """
@triton.jit
def k(out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid * BLOCK + tl.arange(0, BLOCK), 1.0)

def f(out):
    n = out.numel()
    k[(triton.cdiv(n, BLOCK),)](out, n, BLOCK=BLOCK)
"""
    wider = without_blanks(text.replace("triton.cdiv(n, BLOCK)", "n"))
    assert wider not in [each for _, each in undone(text, is_triton=True)]
    of_rows = text.replace("pid * BLOCK", "pid * n")
    wider = without_blanks(of_rows.replace("triton.cdiv(n, BLOCK)", "n"))
    assert ("grid", wider) in undone(of_rows, is_triton=True)


def test_an_index_that_is_compared_with_0_gets_no_factor():
    text = (
        "__global__ void f(float* out) {\n"
        "    int lane = threadIdx.x % 32;\n"
        "    if (threadIdx.x == 0) out[blockIdx.x * lane] = 1.0f;\n"
        "}\n"
    )
    made = [each for _, each in undone(text, is_triton=False)]
    assert made and not [each for each in made if "threadIdx.x*lane==0" in each]


def test_a_quotient_of_whole_numbers_is_made_one_of_floats():
    wrong = "__global__ void f(float* out, int n) { out[0] = out[1] * (1 / n); }"
    assert ("whole_number", without_blanks(wrong.replace("1 / n", "1.0f / n"))) in undone(
        wrong, is_triton=False
    )


def test_a_factor_of_a_formula_has_another_value():
    wrong = "__global__ void f(float* out) { out[0] = 0.44715f * out[0]; }"
    right = without_blanks(wrong.replace("0.44715f", "0.044715f"))
    assert ("number", right) in undone(wrong, is_triton=False)


def test_an_offset_of_two_sizes_is_put_in_as_it_stands_elsewhere():
    right = """
@triton.jit
def f(out, N_KV, N_CTX, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK
    last = rows + N_KV - N_CTX
    for start in range(0, rows + N_KV - N_CTX, BLOCK):
        tl.store(out + start, last)
"""
    wrong = right.replace("range(0, rows + N_KV - N_CTX", "range(0, rows")
    assert ("missing_term", without_blanks(right)) in undone(wrong, is_triton=True)


def check(text, right, wrong, name, is_triton):
    assert text.count(right) == 1
    made = [*undone(text.replace(right, wrong), is_triton)]
    assert (name, without_blanks(text)) in made


@pytest.mark.parametrize("opening", ["namespace {", "namespace own {", "namespace own::parts {"])
def test_functions_of_a_namespace_are_reached(opening):
    text = f'{opening}\nvoid g() {{}}\n}}\nextern "C" void f() {{ g(); }}\n'
    assert [each.name for each in SourceText(text, False).reached("f")] == ["g", "f"]


def test_a_copy_stands_in_the_namespaces_of_its_function():
    text = "namespace a {\nnamespace b { void g() { 1; } }\nvoid h() { b::g(); }\n}\n"
    text += 'extern "C" void f() { a::h(); }\n'
    source = SourceText(text, False)
    at = text.index("1")
    copy = source.copy(source.reached("f"), "__0", [Change(at, at + 1, "2")])
    assert [*filter(None, copy.split("\n"))] == [
        "namespace a { namespace b { void g__0() { 2; }}}",
        "namespace a { void h__0() { b::g__0(); }}",
        'extern "C" void f__0() { a::h__0(); }',
    ]


def test_values_are_exchanged_only_for_values_of_their_kind():
    source = SourceText(TRITON, True)
    reached = source.reached("f")
    kinds = Scope(source, reached[0], reached, True).kinds
    assert {kinds[each] for each in ("M", "pid", "tiles_n", "stride_xm", "BM")} == {"int"}
    assert (kinds["offs_m"], kinds["ok"], kinds["x"]) == ("offsets", "mask", "data")
    assert (kinds["x_ptr"], kinds["eps"], kinds["SCALE"]) == ("pointer", "float", "float")
    source = SourceText(CUDA, False)
    reached = source.reached("f")
    kinds = Scope(source, source.functions["k"], reached, False).kinds
    assert {kinds[each] for each in ("row", "lane", "at", "rows")} == {"int"}
    assert (kinds["in"], kinds["eps"], kinds["sums"]) == ("pointer", "float", "float")


INDEXED = """
template <int T, int PAD>
__global__ void k(const float* in, float* out, int n) {
    extern __shared__ float tile[];
    const int ld = T + PAD, lane = threadIdx.x, band = threadIdx.y;
    int first = n;
    tile[band * ld + lane] = in[lane];
    __syncthreads();
    out[band * n + lane] = tile[lane * ld + band];
}
extern "C" void f(const float* in, float* out, int n) { k<32, 1><<<1, 32>>>(in, out, n); }
"""


def test_an_index_takes_what_other_indices_of_the_same_array_have():
    check(INDEXED, "tile[lane * ld + band]", "tile[lane * T + band]", "as_elsewhere", False)


def test_indices_sizes_and_counters_are_not_made_floats():
    made = {text for name, text in undone(CUDA, False) if name == "whole_number"}
    assert not any("floatat=" in text or "floatrow=" in text for text in made)


def test_a_value_is_set_again_only_behind_a_loop_that_changes_it():
    missing = "    at = lane;\n"
    text = CUDA.replace(missing, "", 1)
    assert "not_reset" in {name for name, _ in undone(text, False)}
    unchanged = text.replace("at += 32; }\n", "}\n", 1)
    assert unchanged != text
    assert "not_reset" not in {name for name, _ in undone(unchanged, False)}


SCALED = """
@triton.jit
def k(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32) * scale
    tl.store(out_ptr + offs, tl.exp(x * scale), mask=offs < n)


def f(x, out, scale):
    k[(1,)](x, out, 8, scale, BLOCK=8)
"""


def test_a_number_that_is_passed_may_be_a_factor_once_too_often():
    twice = [text for name, text in undone(SCALED, is_triton=True) if name == "twice"]
    assert sorted(twice) == sorted(
        without_blanks(SCALED.replace(one, other))
        for one, other in [("(x * scale)", "(x)"), ("(tl.float32) * scale", "(tl.float32)")]
    )
    told = {e.what for scope in scopes(SCALED, True) for e in edits_of(scope) if e.name == "twice"}
    assert told == {"The factor `scale` is there once too often"}
    once = SCALED.replace("tl.exp(x * scale)", "tl.exp(x)")
    assert "twice" not in [name for name, _ in undone(once, is_triton=True)]


def test_a_launcher_s_quotient_that_is_rounded_to_the_nearest_is_rounded_up():
    text = SCALED.replace("k[(1,)]", "k[(round(n / BLOCK),)]")
    [edit] = [
        edit for scope in scopes(text, True) for edit in edits_of(scope)
        if edit.name == "rounded_down"
    ]  # fmt: skip
    assert "triton.cdiv(n,BLOCK)" in changed(text, edit)
    assert edit.what.startswith("`round(n / BLOCK)` may round down")


def test_whole_numbers_are_not_multiplied_where_they_are_divided():
    text = CUDA.replace("ceil_div(cols, 64);", "cols / 64;")
    operators = [
        changed(text, edit) for scope in scopes(text, False) for edit in edits_of(scope)
        if edit.name == "operator"
    ]  # fmt: skip
    assert operators and not [each for each in operators if "cols*64" in each]


VECTORS = """
__global__ void four(const float4* in, float4* out, int n) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void rest(const float* in, float* out, int from, int n) { out[from] = in[from]; }
extern "C" void f(const float* in, float* out, int n) {
    int quads = n / 4;
    if (quads > 0) four<<<1, quads>>>((const float4*)in, (float4*)out, quads);
    if (n % 4 != 0) rest<<<1, 4>>>(in, out, quads * 4, n);
}
"""


def test_what_counts_vectors_is_multiplied_where_a_condition_chooses_the_launch():
    wrong = VECTORS.replace("quads * 4", "quads")
    made = {changed(wrong, edit) for scope in scopes(wrong, False) for edit in edits_of(scope)}
    assert "".join(VECTORS.split()) in made
    hidden = VECTORS.replace("n % 4 != 0", "n % 4 == 0")  # the condition stays as it is
    made = {changed(hidden, edit) for scope in scopes(hidden, False) for edit in edits_of(scope)}
    assert "".join(VECTORS.split()) not in made
