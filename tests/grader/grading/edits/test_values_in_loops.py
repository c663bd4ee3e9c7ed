"""Values that a loop carries, and those that lines beside each other make: mistakes are undone."""

import pytest

from grader.grading.edits.proposals import edits_of
from tests.support.changed_texts import changed, scopes, without_blanks

TRITON = """
import triton
import triton.language as tl

LN_2 = tl.constexpr(0.6931471805599453)

@triton.jit
def k(src, dst, step, M, N, B: tl.constexpr, BAND: tl.constexpr):
    pid = tl.program_id(0)
    tall = tl.cdiv(M, B)
    wide = tl.cdiv(N, B)
    first = pid // (BAND * wide) * BAND
    best = -float("inf")
    total = 0.0
    for begin in range(0, N, B):
        c = begin + tl.arange(0, B).to(tl.int64)
        v = tl.load(
            src + pid * step + c, mask=c < N
        )
        seen = c <= pid + N - M
        peak = tl.maximum(best, tl.max(v, axis=0))
        total = total * tl.exp2(best - peak)
        total += tl.sum(tl.where(seen, tl.exp2(v - peak), 0.0), axis=0)
        best = peak
        tl.store(dst + tall * step + c, v, mask=c < N)
    e = tl.exp(-tl.abs(best))
    gate = tl.where(best >= 0, 1.0 / (1.0 + e), e / (1.0 + e))
    tl.store(dst + first, best * LN_2 + tl.log2(total) * LN_2 + gate)


def f(x, out):
    B = min(triton.next_power_of_2(x.shape[1]), 2048)
    k[(x.shape[0],)](x, out, x.stride(0), *x.shape, B=B, BAND=8)
"""

CUDA = """
__global__ void k(const float* in, float* out, int rows, int cols) {
    extern __shared__ float pool[];
    __shared__ float whole;
    float* one = pool;
    float* other = one + 32 * rows;
    const int lane = threadIdx.x % 32;
    float best = in[lane], acc[4] = {0.0f};
    for (int j = 0; j < cols; ++j) {
        const float peak = fmaxf(best, in[j]);
        const float alpha = expf(best - peak);
        for (int c = 0; c < 4; ++c) acc[c] *= alpha;
        for (int c = 0; c < 4; ++c) {
            acc[c] += other[j] * alpha;
        }
        best = peak;
    }
    if (lane == 0) whole = best;
    __syncthreads();
    out[lane] = whole + acc[0];
}
extern "C" void f(const float* in, float* out, int rows, int cols) {
    const int blocks = min(rows, 1024);
    const size_t bytes = (32 * rows + 32 * cols) * sizeof(float);
    k<<<blocks, 32, bytes>>>(in, out, rows, cols);
}
"""


def made(text, is_triton):
    return [edit for scope in scopes(text, is_triton) for edit in edits_of(scope)]


def undone(text, right, wrong, is_triton):
    """The changes that undo a mistake in a text, by their names."""
    assert text.count(right) == 1
    mistaken = text.replace(right, wrong)
    edits = made(mistaken, is_triton)
    return {e.name: e for e in edits if changed(mistaken, e) == without_blanks(text)}


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("tall * step + c, v", "tall * step + tl.arange(0, B), v", "whole"),
        ("pid + N - M", "pid + M - N", "exchanged"),
        ("(BAND * wide)", "(BAND * tall)", "sibling"),
        ("best * LN_2 +", "best +", "missing_term"),
        (", e / (1.0 + e)", ", 1.0 / (1.0 + e)", "numerator"),
        ("0, 1.0 / (1.0 + e)", "0, e / (1.0 + e)", "numerator"),
    ],
)
def test_a_mistake_in_triton_is_undone(right, wrong, name):
    edits = undone(TRITON, right, wrong, is_triton=True)
    assert name in edits


@pytest.mark.parametrize("between", ["", "        const float twice = 2.0f * j;\n"])
def test_a_value_that_is_taken_on_too_early_moves_behind_what_reads_it(between):
    reads = "        const float alpha = expf(best - peak);\n"
    mistaken = CUDA.replace(reads, f"        best = peak;\n{between}{reads}")
    told = {each.what: each for each in made(mistaken, False) if each.name == "order"}
    edit = told[f"`best = peak;` stands before `{reads.strip()}` and belongs behind it"]
    right = CUDA.replace(reads, f"{between}{reads}        best = peak;\n")
    assert changed(mistaken, edit) == without_blanks(right)


def test_a_sum_is_rescaled_before_a_loop_adds_to_it():
    scaled = "        for (int c = 0; c < 4; ++c) acc[c] *= alpha;\n"
    added = "            acc[c] += other[j] * alpha;\n        }\n"
    mistaken = CUDA.replace(scaled, "").replace(added, added + scaled)
    edits = [each for each in made(mistaken, False) if each.name == "order"]
    right = [each for each in edits if changed(mistaken, each) == without_blanks(CUDA)]
    assert [each.what.split("` ")[1] for each in right] == ["scales what this loop has added, too"]


@pytest.mark.parametrize(
    ("text", "is_triton", "line"),
    [(TRITON, True, "total = 0.0"), (CUDA, False, "best = 0.0f;")],
)
def test_a_first_value_that_stands_anywhere_in_a_loop_is_set_in_front_of_it(text, is_triton, line):
    behind = "best - peak)\n" if is_triton else "best - peak);\n"
    mistaken = text.replace(behind, f"{behind}        {line}\n", 1)
    told = [each for each in made(mistaken, is_triton) if each.name == "hoisted"]
    assert [each.what for each in told] == [
        f"`{line}` stands in the loop, so each turn begins anew"
    ]
    assert mistaken.split("\n")[told[0].line - 1].strip() == line


def test_a_bound_is_no_mistake_where_a_loop_takes_the_rest():
    assert not [each for each in made(TRITON, True) if each.name == "one_block"]
    whole = TRITON.replace("for begin in range(0, N, B):", "for begin in range(0, 1):")
    assert [each for each in made(whole, True) if each.name == "one_block"]
    assert [each for each in made(CUDA, False) if each.name == "one_block"]
    strided = CUDA.replace("++j) {", "j += gridDim.x) {")
    assert not [each for each in made(strided, False) if each.name == "one_block"]


def test_a_load_that_isnt_converted_is_shown_where_it_begins():
    lines = {each.line for each in made(TRITON, True) if each.what.startswith("The loaded values")}
    assert {TRITON.split("\n")[line - 1].strip() for line in lines} == {"v = tl.load("}


def test_one_thread_stores_a_number_of_shared_memory():
    edits = undone(CUDA, "if (lane == 0) whole", "whole", is_triton=False)
    assert edits["one_of_warp"].advice.endswith("store it: if (lane == 0).")


def test_what_a_kernel_cuts_from_shared_memory_is_told_where_a_launch_asks_for_less():
    [edit] = [each for each in made(CUDA, False) if each.name == "shared_bytes"]
    assert "all of it: `32 * rows` elements, and what follows them" in edit.advice


@pytest.mark.parametrize("loops", [TRITON, CUDA])
def test_a_maximum_that_a_loop_computes_and_doesnt_keep_is_kept_at_its_end(loops):
    line = "        best = peak\n" if loops is TRITON else "        best = peak;\n"
    edits = made(loops.replace(line, ""), loops is TRITON)
    told = [each.what for each in edits if each.name == "not_kept"]
    assert f"Nothing in the loop changes `best`: `{line.strip()}` is missing at its end" in told
    assert not any("`tl" in each or "`expf" in each for each in told)


GROUPS = """
import triton.language as tl

@triton.jit
def order(pid, M, N, B: tl.constexpr, BAND: tl.constexpr):
    tall = tl.cdiv(M, B)
    wide = tl.cdiv(N, B)
    size = BAND * wide
    band = pid // size
    top = band * BAND
    height = min(tall - top, BAND)
    inside = (pid % size)
    return top + inside % height, inside // height

@triton.jit
def k(x, w, gain, out, M, N, gap, B: tl.constexpr, BAND: tl.constexpr):
    row, col = order(tl.program_id(0), M, N, B, BAND)
    v = tl.load(x + row * gap + col)
    g = tl.load(w + col)
    mean = tl.sum(v, axis=0) / N
    out += row * gap
    tl.store(out + col, v * mean * g)


def f(x, w, out):
    k[(9,)](x, w, 2.0, out, *x.shape, x.stride(0), B=64 * 1024, BAND=8)
"""


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("top = band * BAND", "top = band", "group_start"),
        ("inside = (pid % size)", "inside = pid", "group_start"),
        ("axis=0) / N", "axis=0) / B", "divisor"),
        ("mean * g)", "mean)", "unread"),
    ],
)
def test_a_mistake_in_groups_or_in_a_mean_is_undone(right, wrong, name):
    assert name in undone(GROUPS, right, wrong, is_triton=True)


def test_a_parameter_that_nothing_uses_may_belong_anywhere_in_the_place_of_its_kind():
    mistaken = GROUPS.replace("out += row * gap\n    tl.store(out + col,", "tl.store(x + col,")
    told = [each.what for each in made(mistaken, True) if each.name == "unused"]
    assert "`x + col` stands where `out + col` belongs" in told


def test_arguments_that_are_called_as_their_parameters_stay():
    changed_arguments = [each.what for each in made(GROUPS, True) if "call of `order`" in each.what]
    assert not any("`B` and `BAND`" in each for each in changed_arguments)
    given = "B: tl.constexpr, BAND: tl.constexpr):\n    tall"
    other = GROUPS.replace(given, "T: tl.constexpr, G: tl.constexpr):\n    tall")
    told = [each.what for each in made(other, True)]
    assert any("`B` and `BAND` are exchanged in the call of `order`" in each for each in told)


def test_a_product_of_numbers_is_quoted_whole():
    told = [each.what for each in made(GROUPS, True) if each.name == "number"]
    assert "`B=64 * 1024` stands where `B=128 * 1024` belongs" in told


def test_an_array_that_nothing_reads_is_a_factor_at_an_index_of_its_kernel():
    text = CUDA.replace("(const float* in,", "(const float* w, const float* in,", 1)
    told = [each.what for each in made(text, False)]
    assert "`best` lacks `* w[lane]`" in told
    assert "`in[lane]` lacks `* w[j]`" not in told  # there is no j yet


@pytest.mark.parametrize(
    ("head", "moved"),
    [
        ("for b in range(0, tl.cdiv(n, B)):", "b * B + o"),
        ("for b in tl.range(0, n, B):", "b + o"),
    ],
)
def test_a_mask_that_stays_where_a_loop_goes_on_is_moved(head, moved):
    source = f"""
@triton.jit
def k(x_ptr, n, B: tl.constexpr):
    o = tl.arange(0, B)
    {head}
        tl.store(x_ptr + o, 1.0, mask={moved} < n)
        x_ptr += B
def f(x):
    k[(1,)](x, x.numel(), B=64)
"""
    assert "not_moved" in undone(source, f"{moved} < n", "o < n", is_triton=True)


def test_the_number_of_programs_gives_way_to_the_number_of_this_one():
    source = """
@triton.jit
def k(x_ptr, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + o, 1.0, mask=o < n)
def f(x):
    k[(1,)](x, x.numel(), B=64)
"""
    assert "function" in undone(source, "program_id(0)", "num_programs(0)", is_triton=True)


def test_strides_of_the_other_axis_are_undone():
    source = """
@triton.jit
def k(x_ptr, out_ptr, stride_xm, stride_om, B: tl.constexpr):
    pass
def f(x, out):
    k[(1,)](x, out, x.stride(0), out.stride(0), B=64)
"""
    both = "x.stride(0), out.stride(0)"
    assert "stride" in undone(source, both, both.replace("0", "1"), is_triton=True)
    assert "stride" in undone(source, both, both.replace("0", "1", 1), is_triton=True)


def test_reductions_along_the_other_axis_are_undone_as_one():
    source = """
@triton.jit
def k(x_ptr, R: tl.constexpr, C: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :])
    x = x - REDUCED
    tl.store(x_ptr, x)
def f(x):
    k[(1,)](x, R=4, C=64)
"""
    right = "tl.max(x, axis=1)[:, None] + tl.sum(x, axis=1)[:, None]"
    wrong = right.replace("1", "0").replace("[:, None]", "[None, :]")
    assert "axis" in undone(source.replace("REDUCED", right), right, wrong, is_triton=True)


DIVIDED = {
    True: (
        "@triton.jit\ndef k(x, y, n, B: tl.constexpr):\n    acc = tl.zeros([B], tl.float32)\n"
        "    for at in range(0, n, B):\n        acc = acc * 0.5\n"
        "        acc += tl.load(x + at + tl.arange(0, B))EARLY\nLATE"
        "    tl.store(y + tl.arange(0, B), acc)\n\n\ndef f(x, y):\n    k[(1,)](x, y, 64, B=16)\n",
        "    acc = acc / tl.where(n == 0, 1, n)\n",
    ),
    False: (
        "__global__ void k(const float* x, float* y, int n) {\n    float mean = 0.0f;\n"
        "    for (int i = 0; i < n; ++i) {\n        mean += x[i];EARLY\n    }\nLATE"
        "    y[0] = mean;\n}\nvoid f(const float* x, float* y, int n) {\n"
        "    k<<<1, 1>>>(x, y, n);\n}\n",
        "    mean /= n;\n",
    ),
}


@pytest.mark.parametrize("is_triton", [True, False])
@pytest.mark.parametrize("is_twice", [True, False])
def test_a_sum_that_each_turn_divides_is_divided_behind_the_loop(is_triton, is_twice):
    frame, line = DIVIDED[is_triton]
    early = "\n    " + line.rstrip()
    wrong = frame.replace("EARLY", early).replace("LATE", line * is_twice)
    right = frame.replace("EARLY", "").replace("LATE", line)
    made = [changed(wrong, edit) for scope in scopes(wrong, is_triton) for edit in edits_of(scope)]
    assert without_blanks(right) in made
