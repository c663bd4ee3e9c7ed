"""Triton's interpreter, mended: its verdict is the GPU's.

Where a mended flaw is upstream's, a test holds that upstream still has it: when that one fails,
upstream has mended it, and our patch can go.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.grader.interpreted import ROOT, Laboratory


@pytest.fixture(scope="module")
def mended(tmp_path_factory):
    laboratory = Laboratory("mended", tmp_path_factory.mktemp("mended"))
    yield laboratory
    laboratory.close()


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    laboratory = Laboratory("upstream", tmp_path_factory.mktemp("upstream"))
    yield laboratory
    laboratory.close()


def elementwise(expression: str) -> str:
    """A kernel that stores `expression` of blocks a and b, a runtime float s and indices i."""
    return f"""
    @triton.jit
    def kernel(a_ptr, b_ptr, out_ptr, s, B: tl.constexpr):
        i = tl.arange(0, B)
        a = tl.load(a_ptr + i)
        b = tl.load(b_ptr + i)
        tl.store(out_ptr + i, {expression})
    """


# Runs `kernel` on bfloat16 a and b with nan, infinities, zeros and subnormals among them.
ON_BFLOAT16 = """
torch.manual_seed(0)
a = torch.randn(256).bfloat16()
b = torch.randn(256).bfloat16()
special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 3e38])
a[:7], b[8:15] = special, special
b[16:32] = a[16:32]
def run(dtype=torch.bfloat16):
    out = torch.zeros(256, dtype=dtype)
    k.kernel[(1,)](a, b, out, 0.3, B=256)
    return out
def same(out, expected):
    return bool(((out == expected) | (out.isnan() & expected.isnan())).all())
"""


# --- bfloat16 -----------------------------------------------------------------------------------


def test_upstream_still_computes_bfloat16_on_its_bits(upstream):
    wrong = upstream(elementwise("a * b"), ON_BFLOAT16 + "result = not same(run(), a * b)")
    assert wrong, "upstream multiplies bfloat16 now: see which patches of numerics.py can go"


@pytest.mark.parametrize(
    ("expression", "expected", "dtype"),
    [
        ("a + b", "a + b", "bfloat16"),
        ("a - b", "a - b", "bfloat16"),
        ("a * b", "a * b", "bfloat16"),
        ("-a", "-a", "bfloat16"),
        ("a / b", "a.float() / b.float()", "float32"),
        ("a * 2 + 0.1", "a * 2 + torch.tensor(0.1).bfloat16()", "bfloat16"),
        ("a * s", "a.float() * 0.3", "float32"),
        ("tl.abs(a)", "a.abs()", "bfloat16"),
        ("tl.maximum(a, b)", "torch.fmax(a, b)", "bfloat16"),
        ("tl.minimum(a, b)", "torch.fmin(a, b)", "bfloat16"),
        ("tl.where(a > b, a, b)", "torch.where(a > b, a, b)", "bfloat16"),
        ("(a < b).to(tl.bfloat16)", "(a < b).bfloat16()", "bfloat16"),
        ("(a == b).to(tl.int32)", "(a == b).int()", "int32"),
        ("(a != b).to(tl.int32)", "(a != b).int()", "int32"),
        ("a.to(tl.float32)", "a.float()", "float32"),
        ("a.to(tl.float16)", "a.half()", "float16"),
        ("(a.to(tl.float32) * 1.001)", "(a.float() * 1.001).bfloat16()", "bfloat16"),
        ("(i * 257).to(tl.bfloat16)", "(torch.arange(256) * 257).bfloat16()", "bfloat16"),
        ("tl.full([B], 0.1, tl.bfloat16)", "torch.full((256,), 0.1).bfloat16()", "bfloat16"),
        ("tl.zeros_like(a) + 1", "torch.ones(256).bfloat16()", "bfloat16"),
        ("tl.exp(a.to(tl.float32)) * 0", "a.float().exp() * 0", "float32"),
    ],
)
def test_bfloat16_is_computed_in_float32_and_rounded_once(mended, expression, expected, dtype):
    experiment = f"result = same(run(torch.{dtype}), {expected})"
    assert mended(elementwise(expression), ON_BFLOAT16 + experiment)


def test_bfloat16_to_an_integer_drops_the_fraction(mended):
    found = mended(
        elementwise("a.to(tl.int32)"),
        ON_BFLOAT16 + "a = (b := torch.randn(256).bfloat16()) * 50\n"
        "result = bool((run(torch.int32) == a.int()).all())",
    )
    assert found


def test_narrowing_rounds_to_nearest_even_and_keeps_nan(mended):
    found = mended(
        "",
        """
        import numpy as np
        from grader.worker.numerics import narrow, widen
        bits = np.arange(1 << 16, dtype=np.uint16)
        values = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).float().numpy()
        exact = bool(np.array_equal(widen(bits), values, equal_nan=True))
        back = narrow(widen(bits))
        numbers = ~np.isnan(values)
        kept = bool((back == bits)[numbers].all() and np.isnan(widen(back))[~numbers].all())
        rng = np.random.default_rng(0)
        singles = rng.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
        singles[:1000] = singles[:1000] & 0xFFFF0000 | 0x8000  # ties
        singles = singles.view(np.float32)
        ours = torch.from_numpy(narrow(singles).view(np.int16)).view(torch.bfloat16)
        torchs = torch.from_numpy(singles).bfloat16()
        equal = bool(((ours == torchs) | (ours.isnan() & torchs.isnan())).all())
        # Just above and below a tie that float32 can't tell from it.
        doubles = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-40])
        once = widen(narrow(doubles)).tolist()
        result = [exact, kept, equal, once]
        """,
    )
    assert found == [True, True, True, [1 + 2.0**-7, 1 + 2.0**-7]]


DOT = """
@triton.jit
def kernel(a_ptr, b_ptr, out_ptr, P: tl.constexpr):
    i = tl.arange(0, 32)
    at = i[:, None] * 32 + i[None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision=P))
"""


def run_dot(dtype: str) -> str:
    return f"""
torch.manual_seed(0)
a, b = torch.randn(32, 32).{dtype}(), torch.randn(32, 32).{dtype}()
def run(precision):
    out = torch.zeros(32, 32)
    k.kernel[(1,)](a, b, out, precision)
    return out
"""


def test_upstream_still_gets_a_bfloat16_dot_wrong(upstream):
    error = "result = float((run('ieee') - a.float() @ b.float()).abs().max())"
    assert not upstream(DOT, run_dot("bfloat16") + error) < 1, "upstream's dot is right now"


@pytest.mark.parametrize("dtype", ["bfloat16", "half"])
def test_a_16_bit_dot_accumulates_in_float32(mended, dtype):
    error = "result = float((run('ieee') - (a.double() @ b.double())).abs().max())"
    assert mended(DOT, run_dot(dtype) + error) < 1e-5


# --- TF32 ---------------------------------------------------------------------------------------

TRUNCATED = "(lambda x: (x.view(torch.int32) & ~0x1FFF).view(torch.float32))"


def test_upstream_still_ignores_tf32(upstream):
    experiment = "b = torch.eye(32)\nresult = bool((run('tf32') == a).all())"
    assert upstream(DOT, run_dot("float") + experiment), "upstream rounds to TF32 now"


def test_a_float32_dot_drops_the_low_13_bits_of_its_operands(mended):
    """As the H100 does, bit for bit, for a times the identity."""
    experiment = f"""
b = torch.eye(32)
result = [bool((run(p) == x).all()) for p, x in
          [("tf32", {TRUNCATED}(a)), ("ieee", a), ("tf32x3", a)]]
"""
    assert mended(DOT, run_dot("float") + experiment) == [True, True, True]


def test_tf32_is_the_default(mended):
    found = mended(
        DOT.replace(", input_precision=P", ""),
        run_dot("float") + f"b = torch.eye(32)\nresult = bool((run('') == {TRUNCATED}(a)).all())",
    )
    assert found


def test_a_precision_that_is_not_modelled_is_said(mended):
    found = mended(
        DOT,
        run_dot("float")
        + """
try:
    run("bf16x3")
except Exception as error:
    _, root = interpreter.student_line(error, path)
    result = [type(root).__name__, str(root)]
""",
    )
    assert found == ["NotModelled", "tl.dot with input_precision bf16x3"]


# --- reductions ---------------------------------------------------------------------------------

REDUCE = """
@triton.jit
def along(x_ptr, out_ptr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, OP: tl.constexpr):
    r = tl.arange(0, R)
    c = tl.arange(0, C)
    x = tl.load(x_ptr + r[:, None] * C + c[None, :])
    if OP == "sum":
        y = tl.sum(x, AXIS)
    elif OP == "max":
        y = tl.max(x, AXIS)
    else:
        y = tl.argmax(x, AXIS)
    tl.store(out_ptr + (c if AXIS == 0 else r), y)
"""


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_lose_no_more_than_a_tree_of_roundings(mended, dtype, axis):
    """log2(512) = 9 roundings of half an ulp each on the way of every term."""
    worst = mended(
        REDUCE,
        f"""
        torch.manual_seed(0)
        x = torch.rand({"(512, 4)" if axis == 0 else "(4, 512)"}).to(torch.{dtype})
        out = torch.zeros(4)
        k.along[(1,)](x, out, *x.shape, {axis}, "sum")
        exact = x.double().sum({axis})
        result = float(((out - exact) / exact).abs().max() / torch.finfo(torch.{dtype}).eps)
        """,
    )
    assert worst <= 9 * 0.5


def test_a_bfloat16_sum_shows_the_rounding_of_its_partial_sums(mended):
    """Summing 2**9 numbers near 1 in bfloat16 is no float32 sum rounded at the end."""
    differs = mended(
        REDUCE,
        """
        torch.manual_seed(0)
        x = (1 + torch.rand(4, 512)).bfloat16()
        out = torch.zeros(4)
        k.along[(1,)](x, out, 4, 512, 1, "sum")
        result = bool((out != x.float().sum(1).bfloat16().float()).any())
        """,
    )
    assert differs


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_max_and_argmax_of_every_type(mended, dtype):
    found = mended(
        REDUCE,
        f"""
        torch.manual_seed(0)
        x = torch.randn(4, 128).to(torch.{dtype})
        x[1, 3], x[2, :] = float("nan"), float("nan")
        out, at = torch.zeros(4), torch.zeros(4)
        k.along[(1,)](x, out, 4, 128, 1, "max")
        k.along[(1,)](x, at, 4, 128, 1, "argmax")
        number = x[[0, 1, 3]].float().nan_to_num(-1e9)
        result = [bool((out[[0, 1, 3]] == number.amax(1)).all()), bool(out[2].isnan()),
                  bool((at[[0, 1, 3]] == number.argmax(1)).all())]
        """,
    )
    assert found == [True, True, True]


def test_scan_sort_and_generic_reduction_of_bfloat16(mended):
    found = mended(
        """
        @triton.jit
        def product(a, b):
            return a * b

        @triton.jit
        def kernel(x_ptr, scan_ptr, sorted_ptr, reduced_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            x = tl.load(x_ptr + i)
            tl.store(scan_ptr + i, tl.cumsum(x, 0))
            tl.store(sorted_ptr + i, tl.sort(x))
            tl.store(reduced_ptr, tl.reduce(x, 0, product))
        """,
        """
        x = torch.tensor([1.5, -2.0, 0.25, 1.0, -0.5, 2.0, 3.0, -1.0]).bfloat16()
        scan, ordered, reduced = torch.zeros(8), torch.zeros(8), torch.zeros(1)
        k.kernel[(1,)](x, scan, ordered, reduced, 8)
        result = [bool((scan == x.float().cumsum(0)).all()),
                  bool((ordered == x.float().sort()[0]).all()), float(reduced)]
        """,
    )
    assert found == [True, True, -2.25]


def test_atomic_adds_of_bfloat16_to_one_address_all_count(mended):
    found = mended(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, n, B: tl.constexpr):
            i = tl.arange(0, B)
            tl.atomic_add(out_ptr + i % 2, tl.load(x_ptr + i), mask=i < n)
        """,
        """
        out = torch.zeros(2, dtype=torch.bfloat16)
        k.kernel[(1,)](torch.arange(16).bfloat16(), out, 10, 16)
        result = out.tolist()
        """,
    )
    assert found == [20.0, 25.0]


# --- the language -------------------------------------------------------------------------------

BOOLEANS = """
@triton.jit
def kernel(a_ptr, b_ptr, out_ptr, s, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(a_ptr + i)
    b = tl.load(b_ptr + i)
    both = i > 3 and i < 9
    chain = 3 < i < 9
    either = i < 2 or not (i < 200)
    x = tl.where(both, 1, 0) + tl.where(chain, 2, 0) + tl.where(either, 4, 0)
    tl.store(out_ptr + i, x.to(tl.float32) + 8 * max(a, b).to(tl.float32))
"""
BOOLEANS_EXPECTED = """
a, b = torch.arange(256.).bfloat16(), torch.arange(256.).flip(0).bfloat16()
i = torch.arange(256)
inside = (i > 3) & (i < 9)
expected = 3 * inside + 4 * ((i < 2) | (i >= 200)) + 8 * torch.maximum(a, b).float()
result = bool((run(torch.float32) == expected).all())
"""


def test_upstream_still_asks_a_block_for_one_truth_value(upstream):
    assert not upstream(BOOLEANS, ON_BFLOAT16 + BOOLEANS_EXPECTED), "rewriting.py can go"


def test_boolean_operators_and_extrema_work_by_element(mended):
    assert mended(BOOLEANS, ON_BFLOAT16 + BOOLEANS_EXPECTED)


def test_compile_time_conditions_still_cut_evaluation_short(mended):
    found = mended(
        """
        @triton.jit
        def kernel(x_ptr, bias_ptr, out_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            x = tl.load(x_ptr + i)
            if bias_ptr is not None and tl.load(bias_ptr) > 0:
                x += 1
            tl.store(out_ptr + i, x)
        """,
        """
        out = torch.zeros(8)
        k.kernel[(1,)](torch.ones(8), None, out, 8)
        result = out.sum().item()
        k.kernel[(1,)](torch.ones(8), torch.ones(1), out, 8)
        result = [result, out.sum().item()]
        """,
    )
    assert found == [8.0, 16.0]


def test_a_runtime_float_is_a_float32_scalar(mended):
    """Upstream lets it take bfloat16 from its neighbour, which rounds 1e-3 by 0.1 %."""
    found = mended(
        elementwise("a * s"),
        ON_BFLOAT16 + "a = torch.ones(256).bfloat16()\nresult = run(torch.float32)[0].item()",
    )
    assert found == pytest.approx(0.3, rel=1e-7)


def test_a_name_never_imported_stays_unknown(mended):
    found = mended(
        """
        @triton.jit
        def kernel(out_ptr, B: tl.constexpr):
            tl.store(out_ptr + tl.arange(0, B), np.pi)
        """,
        """
        before = set(vars(k))
        try:
            k.kernel[(1,)](torch.zeros(8), 8)
        except Exception as error:
            line, root = interpreter.student_line(error, path)
            result = [line, str(root), interpreter.inside_kernel(error, path)]
        compiled = interpreter.compile_launch(interpreter.launches.take()[0])
        result += [compiled.ok, compiled.line, sorted(set(vars(k)) - before)]
        """,
    )
    assert found == [7, "name 'np' is not defined", True, False, 7, []]


def test_closures_postponed_annotations_and_names_imported_one_by_one(mended):
    found = mended(
        """
        from triton.language import arange, constexpr, load, static_range, store
        from triton.language import sum as total

        def make(scale):
            factor = tl.constexpr(scale)

            @triton.jit
            def kernel(x_ptr, out_ptr, B: constexpr = 8):
                i = arange(0, B)
                x = load(x_ptr + i)
                y = x * factor + total(x)
                for _ in static_range(2):
                    y += 1
                store(out_ptr + i, y)

            return kernel

        twice, thrice = make(2), make(3)
        """,
        """
        result = []
        for kernel in (k.twice, k.thrice):
            out = torch.zeros(8)
            kernel[(1,)](torch.ones(8), out)
            result.append(out[0].item())
        result += [interpreter.compile_launch(x).ok for x in interpreter.launches.take()]
        """,
        header="from __future__ import annotations\nimport triton\nimport triton.language as tl\n",
    )
    assert found == [12.0, 13.0, True, True]


def test_libdevice_is_the_compilers(mended):
    found = mended(
        """
        from triton.language.extra import libdevice

        @triton.jit
        def known(x_ptr, out_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            tl.store(out_ptr + i, libdevice.tanh(tl.load(x_ptr + i)))

        @triton.jit
        def unknown(x_ptr, out_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            tl.store(out_ptr + i, libdevice.tgamma(tl.load(x_ptr + i)))
        """,
        """
        x, out = torch.randn(64), torch.zeros(64)
        k.known[(1,)](x, out, 64)
        result = [float((out - x.tanh()).abs().max()) < 1e-6]
        try:
            k.unknown[(1,)](x, out, 64)
        except Exception as error:
            _, root = interpreter.student_line(error, path)
            result += [isinstance(root, interpreter.NotModelled), str(root)]
        result += [interpreter.compile_launch(x).ok for x in interpreter.launches.take()]
        """,
    )
    assert found == [True, True, "the library function __nv_tgammaf", True, True]


def test_a_device_function_can_not_be_called_by_the_wrapper(mended):
    found = mended(
        "@triton.jit\ndef twice(x):\n    return 2 * x\n",
        """
        try:
            k.twice(3)
        except RuntimeError as error:
            result = [str(error), interpreter.inside_kernel(error, path)]
        """,
    )
    assert found == ["Cannot call @triton.jit'd outside of the scope of a kernel", False]


# --- launching ----------------------------------------------------------------------------------

COPY = """
@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)

def copy(x, out, n, grid=None, **options):
    copy_kernel[grid or (lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),))](
        x, out, n, **options
    )
"""


@pytest.mark.parametrize(
    ("call", "kind", "fragment"),
    [
        ("k.copy(x, out, 16)", "TypeError", "copy_kernel() missing 1 required positional argument"),
        ("k.copy(x, out, 16, BLOCK=8, BLOK=8)", "KeyError", "copy_kernel has no parameter BLOK"),
        ("k.copy(x, out, 16, (2.0,), BLOCK=8)", "TypeError", "a grid is made of integers"),
        ("k.copy(x, out, 16, (1, 65536), BLOCK=8)", "RuntimeError", "65536 programs along axis 1"),
        ("k.copy(x, out, 16, (1, 1, 1, 1), BLOCK=8)", "ValueError", "1 to 3 dimensions"),
    ],
)
def test_a_launch_that_fails_on_a_gpu_fails_here(mended, call, kind, fragment):
    found = mended(
        COPY,
        f"""
        x, out = torch.ones(16), torch.zeros(16)
        try:
            {call}
        except Exception as error:
            line, root = interpreter.student_line(error, path)
            inside = interpreter.inside_kernel(error, path)
            result = [type(root).__name__, str(root), line, inside]
        """,
    )
    assert found[0] == kind
    assert fragment in found[1]
    assert found[2:] == [12, False]  # the launch in the wrapper, not the kernel


def test_an_exception_in_a_kernel_is_placed_on_its_line(mended):
    found = mended(
        """
        @triton.jit
        def helper(x):
            # a comment
            return x + tl.arange(0, 16)

        @triton.autotune(configs=[triton.Config({}, num_warps=2)], key=[])
        @triton.jit
        def kernel(x_ptr, B: tl.constexpr):
            x = tl.load(x_ptr + tl.arange(0, B))
            tl.store(x_ptr + tl.arange(0, B), helper(x))
        """,
        """
        try:
            k.kernel[(1,)](torch.ones(8), 8)
        except Exception as error:
            line, root = interpreter.student_line(error, path)
            result = [line, type(root).__name__, interpreter.inside_kernel(error, path)]
        """,
    )
    assert found == [8, "ValueError", True]


# --- what ran -----------------------------------------------------------------------------------


def test_launches_are_recorded_once_per_specialisation(mended):
    found = mended(
        COPY,
        """
        x, out = torch.ones(64), torch.zeros(64)
        for tag, n in enumerate([1, 16, 17, 32, 33, 48]):  # 1, divisible by 16, neither
            interpreter.launches.tag = tag
            k.copy(x, out, n, BLOCK=16)
        k.copy(x, out, 16, BLOCK=32)
        k.copy(x, out, 16, BLOCK=32, num_warps=8)
        k.copy(x.half(), out, 16, BLOCK=32)
        k.copy(x[1:], out, 16, BLOCK=32)  # not aligned
        taken = interpreter.launches.take()
        result = [[t.kernel for t in taken], [t.tag for t in taken], len({t.key for t in taken}),
                  len(interpreter.launches.take())]
        """,
    )
    assert found == [["copy_kernel"] * 7, [0, 1, 2, 5, 5, 5, 5], 7, 0]


def test_what_is_compiled_has_every_specialisation_of_every_argument(mended):
    found = mended(
        COPY,
        """
        x, out = torch.ones(64), torch.zeros(64)
        for block in (16, 32, 64):
            for n in (1, 16, 17):
                for source in (x, x[1:], x.half()):
                    k.copy(source, out, n, BLOCK=block)
        k.copy(x, out, 17, BLOCK=64, num_warps=8)
        ran = interpreter.launches.take()
        chosen = interpreter.representative(ran)

        def told(launches):
            traits = [[*t.signature.items(), *t.constants.items(), *t.attributes.items(),
                       *t.options.items()] for t in launches]
            return {str(pair) for each in traits for pair in each}

        result = [len(ran), len(chosen), [*told(ran) - told(chosen)],
                  [t.key for t in ran if t in chosen] == [t.key for t in chosen],
                  interpreter.representative([])]
        """,
    )
    assert found == [28, 5, ["((3,), 32)"], True, []]  # but for a block between two others


def test_of_block_sizes_the_smallest_and_the_largest_are_compiled(mended):
    found = mended(
        COPY,
        """
        x, out = torch.ones(1024), torch.zeros(1024)
        blocks = lambda launches: [t.constants[(3,)] for t in launches]

        def ran(sizes):
            for block in sizes:
                k.copy(x, out, 1024, BLOCK=block)
            return interpreter.launches.take()

        first = ran((64, 2, 16, 256, 4, 128, 8))
        result = [blocks(interpreter.representative(first)),
                  blocks(interpreter.representative(ran((32, 512, 128, 1024)), [first]))]
        """,
    )
    # Below 16 a number may choose what is computed. What was settled before isn't asked again.
    assert sorted(found[0]) == [2, 4, 8, 16, 256]
    assert found[1] == [1024]


def test_a_recorded_launch_keeps_no_tensor_alive(mended):
    found = mended(
        COPY,
        """
        import gc, weakref
        x, out = torch.ones(64), torch.zeros(64)
        seen = weakref.ref(x)
        k.copy(x, out, 64, BLOCK=16)
        del x
        gc.collect()
        result = [len(interpreter.launches.take()), seen() is None]
        """,
    )
    assert found == [1, True]


# --- autotuning ---------------------------------------------------------------------------------

TUNED = """
ran = []

def autotuned(blocks, **options):
    configs = [triton.Config({"BLOCK": b}, num_warps=4,
                             pre_hook=lambda args: ran.append(args["BLOCK"])) for b in blocks]

    @triton.autotune(configs=configs, key=["n"], **options)
    @triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @triton.jit
    def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        old = tl.load(out_ptr + offs, mask=offs < n)
        tl.store(out_ptr + offs, old + tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

    return kernel

first = autotuned([16, 32, 64])
pruned = autotuned([16, 32, 64],
                   prune_configs_by={"early_config_prune": lambda configs, args, **_: configs[1:]})
"""


def test_upstream_still_needs_a_driver_to_autotune(upstream):
    found = upstream(
        TUNED,
        """
        try:
            k.first[lambda m: (triton.cdiv(m["n"], m["BLOCK"]),)](
                torch.ones(40), torch.zeros(40), 40)
        except Exception as error:
            result = str(error)
        """,
    )
    assert found is not None and "driver" in found, "upstream autotunes without a GPU now"


@pytest.mark.parametrize(("kernel", "blocks"), [("first", [16, 32, 64]), ("pruned", [32, 64])])
def test_autotune_runs_its_first_configuration_and_compiles_all(mended, kernel, blocks):
    found = mended(
        TUNED,
        f"""
        out = torch.zeros(40)
        grid = lambda m: (triton.cdiv(m["n"], m["BLOCK"]),)
        k.{kernel}[grid](torch.ones(40), out, 40)
        once = out.unique().tolist()
        k.{kernel}[grid](torch.ones(40), out, 40)
        taken = interpreter.launches.take()
        result = [once, out.unique().tolist(), k.ran, len(taken),
                  [interpreter.compile_launch(launch).ok for launch in taken]]
        """,
    )
    assert found[:3] == [[1.0], [2.0], [blocks[0]] * 2]
    assert found[3:] == [len(blocks), [True] * len(blocks)]


BIG = """
@triton.jit
def product(a_ptr, b_ptr, out_ptr, K, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        acc = tl.dot(tl.load(a_ptr + at + k), tl.load(b_ptr + at + k), acc)
    tl.store(out_ptr + at, acc)

def tuned(*blocks_and_stages):
    configs = [triton.Config({"B": b}, num_stages=s) for b, s in blocks_and_stages]
    return triton.autotune(configs=configs, key=["K"])(product)
"""
COMPILED = """
a = torch.zeros(65536, dtype=torch.float16)
k.{kernel}[(1,)](a, a, a.float(), 128{arguments})
done = [interpreter.compile_launch(launch) for launch in interpreter.launches.take()]
result = [[x.ok, x.line, x.message, x.shared_bytes] for x in done]
"""


def test_too_much_shared_memory_is_said_before_the_assembler_labours(mended):
    ((ok, line, message, shared),) = mended(
        BIG, COMPILED.format(kernel="product", arguments=", 128, num_stages=8")
    )
    assert not ok
    assert line == 6
    assert shared > 232448
    assert f"product needs {shared} bytes of shared memory, the GPU has 232448" in message


def test_an_autotuner_passes_over_a_configuration_that_is_too_large(mended):
    one_fits = BIG + "\ntune = tuned((128, 5), (32, 5))\n"
    results = mended(one_fits, COMPILED.format(kernel="tune", arguments=""))
    assert [ok for ok, *_ in results] == [True, True]
    none_fits = BIG + "\ntune = tuned((128, 5), (128, 6))\n"
    results = mended(none_fits, COMPILED.format(kernel="tune", arguments=""))
    assert [ok for ok, *_ in results] == [False, False]


# --- what the compiler refuses ------------------------------------------------------------------

REFUSED = """
SCALE = 2.0

@triton.jit
def helper(x):
    try:
        return x
    except Exception:
        return x

@triton.jit
def in_helper(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, helper(tl.load(x_ptr + i)))

@triton.jit
def python_list(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    parts = [0.0]
    parts.append(1.0)
    tl.store(x_ptr + i, tl.load(x_ptr + i))

@triton.jit
def plain_global(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * SCALE)

@triton.jit
def changing_type(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = 0.0
    for _ in range(0, n, B):
        acc += tl.load(x_ptr + i)
    tl.store(x_ptr + i, acc)

@triton.jit
def asserts(x_ptr, n, B: tl.constexpr):
    tl.static_assert(B > 1000, "too small")

@triton.jit
def warps(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i))

@triton.jit
def assembly(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y = tl.inline_asm_elementwise("bogus.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
    tl.store(x_ptr + i, y)

@triton.jit
def two_names(x_ptr, n, B: tl.constexpr):
    i = j = tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + j))
"""


@pytest.mark.parametrize(
    ("kernel", "options", "line", "fragments"),
    [
        ("in_helper", "", 9, ["Try", "try:"]),
        ("python_list", "", 23, ["append", "parts.append(1.0)"]),
        ("plain_global", "", 29, ["global variable SCALE", "* SCALE"]),
        ("changing_type", "", 35, ["acc has initial type fp32", "for _ in range(0, n, B):"]),
        ("asserts", "", 41, ["too small", "tl.static_assert"]),
        ("warps", ", num_warps=64", 44, ["64 warps, 2048 threads"]),
        ("warps", ", num_warps=3", 44, ["power of 2"]),
        ("assembly", "", 49, ["the assembler refuses", "'bogus'"]),
        ("two_names", "", 56, ["multiple assignment"]),
    ],
)
def test_what_the_compiler_refuses_is_said_with_its_line(mended, kernel, options, line, fragments):
    found = mended(
        REFUSED,
        f"""
        import contextlib
        with contextlib.suppress(triton.runtime.errors.InterpreterError):
            k.{kernel}[(1,)](torch.ones(64), 128, 64{options})
        (launch,) = interpreter.launches.take()
        done = interpreter.compile_launch(launch)
        result = [done.ok, done.file == path, done.line, done.message]
        """,
    )
    assert found[:3] == [False, True, line]
    for fragment in fragments:
        assert fragment in found[3]
    assert "site-packages" not in found[3]


def test_methods_descriptors_functions_as_arguments_and_defaults_compile(mended):
    found = mended(
        """
        @triton.jit
        def twice(x):
            return x * 2

        @triton.jit
        def methods(x_ptr, B: tl.constexpr, F: tl.constexpr, bias=None):
            i = tl.arange(0, B)
            x = tl.load(x_ptr + i)
            tl.store(x_ptr + i, F(x).sigmoid() * x.sum(0) + x.max(0) + tl.softmax(x).sum())

        @triton.jit
        def descriptors(x, out, B: tl.constexpr):
            out.store([0, 0], x.load([0, 0]) * 2)
        """,
        """
        from triton.tools.tensor_descriptor import TensorDescriptor
        k.methods[(1,)](torch.ones(64), 64, k.twice)
        x, out = torch.randn(16, 16).half(), torch.zeros(16, 16).half()
        describe = TensorDescriptor.from_tensor
        k.descriptors[(1,)](describe(x, [16, 16]), describe(out, [16, 16]), 16)
        done = [interpreter.compile_launch(launch) for launch in interpreter.launches.take()]
        result = [bool((out == 2 * x).all())] + [[x.ok, x.message] for x in done]
        """,
    )
    assert found == [True, [True, ""], [True, ""]]


def test_compiling_leaves_the_interpreter_as_it_was(mended):
    found = mended(
        COPY,
        """
        x, out = torch.ones(64), torch.zeros(64)
        k.copy(x, out, 64, BLOCK=16)
        done = interpreter.compile_launch(interpreter.launches.take()[0], capability=80)
        out.zero_()
        k.copy(x, out, 64, BLOCK=16)
        result = [done.ok, out.sum().item(), triton.knobs.runtime.interpret]
        """,
    )
    assert found == [True, 64.0, True]


# --- installing ---------------------------------------------------------------------------------


def test_without_triton_interpret_installing_is_refused():
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    code = "from grader.worker import interpreter; interpreter.install()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("RuntimeError: triton ")
    assert last.endswith("was imported without TRITON_INTERPRET=1")
