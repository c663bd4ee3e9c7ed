"""Mistakes that an error and the source name: each row, and what must not be taken for one."""

import pytest

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.executors.runner import CaseResult
from grader.grading.by_name import cause_of, suspect_of
from grader.status import Status

RACE = (
    "Data race: thread (0,0,0) of block (1,0,0) writes 4 bytes at offset 0 of out at a.cu:1, "
    "which thread (0,0,0) of block ({},0,0) {} at a.cu:1, with nothing that orders the two."
)


def cause(status, what, source, language="triton", line=1):
    case = Case((("rows", 2),), "float32", 7, layouts=(("out", "row_padded"),))
    result = CaseResult(case, Verdict(Status(status), what), line)
    return cause_of(result, source, language) or suspect_of(result, source, language)


NAMED = [
    ("compile_error", "NameError: Block_K is not defined.", "BLOCK_K = 1\nx = Block_K", "triton",
     "did you mean `BLOCK_K`?"),
    ("compile_error", "‘treads’ was not declared in this scope", "int threads = treads;", "cuda",
     "did you mean `threads`?"),
    ("crashed", "`k` was launched without GROUP_SIZE_M.", 'Config({"GROUP_M": 8})', "triton",
     "The configurations set `GROUP_M`"),
    ("compile_error", "Expected dtype ['fp32', 'fp64'] but got bf16", "y = tl.exp(x)", "triton",
     "`tl.exp` takes float32, and gets half precision"),
    ("compile_error", "Both operands must be same dtype. Got fp32 and fp16", "tl.dot(p, v)",
     "triton", "operands of `tl.dot`"),
    ("compile_error", "arange's arguments must be of type tl.constexpr", "", "triton",
     "known when the kernel is compiled"),
    ("wrote_out_of_bounds", "of dynamic shared memory, of which the launch has 0 bytes", "",
     "cuda", "no dynamic shared memory"),
    ("wrote_out_of_bounds", "The host code copies beyond the end", "f(n * sizeof(float*));",
     "cuda", "size of a pointer"),
    ("nondeterministic", "It varies", "float sum;\nfor (;;) sum += x[i];", "cuda",
     "`sum` has no initial value at line 1, and line 2 adds to it"),
    ("wrong_values", "", "float s;\ns = s + x[i];", "cuda", "`s` has no initial value"),
    ("data_race", RACE.format(0, "fills with another value"), "out[threadIdx.x] = 1;", "cuda",
     "Several blocks store different values to the same element of `out`"),
    ("data_race", RACE.format(1, "fills with another value"), "s[0] = 1;", "cuda",
     "Several threads of a block"),
    ("wrong_values", "", "def k(x_ptr, n_cols, eps):\n    pass\nk[grid](x, eps, cols)", "triton",
     "passes `eps` for the parameter `n_cols`, and `cols` for `eps`"),
    ("wrong_values", "", "__global__ void k(float* a, int rows, int cols) {\n}\n"
     "k<<<g, b>>>(a, cols, rows);", "cuda", "passes `cols` for the parameter `rows`"),
    ("not_written", "", "def k(x):\n    pid = tl.program_id(1)\nk[(n,)](x)", "triton",
     "`tl.program_id(1)` is always 0: the grid of `k` has one axis"),
    ("not_written", "", "def k(x):\n    pid_m = tl.program_id(1)\n    pid_n = tl.program_id(0)\n"
     "grid = lambda meta: (cdiv(M, 8), cdiv(N, 8))\nk[grid](x)", "triton",
     "`pid_m` is taken from axis 1 of the grid"),
    ("wrote_out_of_bounds", "", "def k(x, stride_xm, stride_om):\n    y = stride_xm\n"
     "k[grid](x, x.stride(0), out.stride(0))", "triton", "never uses its parameter `stride_om`"),
    ("invalid_read", "", "x = tl.load(x_ptr + offs)", "triton", "`tl.load` has no mask"),
    ("not_written", "", "k[(n // BLOCK,)](x)", "triton", "`n // BLOCK` the last, partly"),
    ("not_written", "", "int blocks = n / 256;\nk<<<blocks, 256>>>(x);", "cuda", "rounded down"),
    ("wrong_values", "", "int sum = 0;\nsum += x[i];", "cuda", "`sum` is an int"),
    ("wrote_out_of_bounds", "writes 4 bytes through a null pointer", "", "cuda", "is null"),
    ("compile_error", "invalid axis 1. Expected -1 <= axis < 1", "tl.sum(x, axis=1)", "triton",
     "`tl.sum` is asked for axis 1"),
    ("timed_out", "", "while (col < n) {\n  out[col] = 1;\n}", "cuda",
     "The loop at line 1 never ends: nothing in it changes `col < n`"),
    ("timed_out", "", "for (int i = tid; i < n;) { out[i] = f(i); }", "cuda", "never ends"),
    ("crashed", "ValueError: Conflicting meta-parameters: BLOCK_M.", "", "triton", "autotuner"),
    ("crashed", "Cannot view a tensor with shape", "", "triton", "`view` needs a contiguous"),
]  # fmt: skip

NOT_NAMED = [
    ("compile_error", "NameError: foo is not defined.", "bar = foo", "triton"),
    ("crashed", "`k` was launched without GROUP_SIZE_M.", 'Config({"GROUP_SIZE_M": 8})', "triton"),
    ("wrong_values", "", "float sum = 0;\nsum += x[i];", "cuda"),
    ("wrong_values", "", "float sum;\nsum = x[i];\nsum += x[j];", "cuda"),
    ("wrong_values", "", "// float sum;\nfloat sum = 0;\nsum += x[i];", "cuda"),
    ("wrong_values", "", "__shared__ float sum;\nsum += x[i];", "cuda"),
    ("data_race", RACE.format(1, "reads"), "out[threadIdx.x] = 1;", "cuda"),
    ("wrong_values", "", "def k(x_ptr, n_cols, eps):\n    pass\nk[grid](x, cols, eps)", "triton"),
    # A kernel that is meant for the other orientation: only one of the two is misplaced.
    ("wrong_values", "", "def k(x_ptr, M, rows):\n    pass\nk[grid](x, rows, depth)", "triton"),
    ("wrong_values", "", "def k(a, b)\nk[grid](b, a)", "triton"),
    ("not_written", "", "def k(x):\n    pid = tl.program_id(0)\nk[(n,)](x)", "triton"),
    (
        "not_written",
        "",
        "def k(x):\n    pid_m = tl.program_id(0)\n    pid_n = tl.program_id(1)\n"
        "grid = lambda meta: (cdiv(M, 8), cdiv(N, 8))\nk[grid](x)",
        "triton",
    ),
    ("invalid_read", "", "x = tl.load(x_ptr + offs, mask=offs < n)", "triton"),
    ("invalid_read", "", "x = tl.load(x_ptr + offs, offs < n)", "triton"),
    ("not_written", "", "k[(triton.cdiv(n, BLOCK),)](x)", "triton"),
    ("not_written", "", "k[((n + BLOCK - 1) // BLOCK,)](x)", "triton"),
    ("not_written", "", "int blocks = (n + 255) / 256;\nk<<<blocks, 256>>>(x);", "cuda"),
    ("wrong_values", "", "int count = 0;\ncount += 1;", "cuda"),
    ("wrong_values", "", "for (int d = 0; d < n; d += 32) a[d] = 0;", "cuda"),
    ("timed_out", "", "while (col < n) {\n  out[col] = 1;\n  col += step;\n}", "cuda"),
    ("timed_out", "", "while (col < n) {\n  if (x) break;\n}", "cuda"),
    ("timed_out", "", "for (int i = tid; i < n; i += step) { out[i] = f(i); }", "cuda"),
]


@pytest.mark.parametrize(("status", "what", "source", "language", "words"), NAMED)
def test_a_mistake_is_named(status, what, source, language, words):
    line = 2 if "Block_K" in source else 1
    found = cause(status, what, source, language, line)
    assert found is not None
    assert words in found.what
    assert found.advice


@pytest.mark.parametrize(("status", "what", "source", "language"), NOT_NAMED)
def test_what_only_looks_like_it_is_not_named(status, what, source, language):
    assert cause(status, what, source, language) is None


@pytest.mark.parametrize(
    ("before", "layouts", "is_named"),
    [
        ("", (("out", "row_padded"),), True),
        ("", (), False),
        ("apart = out.stride(0)\n", (("out", "row_padded"),), False),
    ],
)
def test_a_size_in_the_place_of_a_stride_is_named_where_a_layout_matters(before, layouts, is_named):
    source = f"def k(x, stride_om):\n    y = stride_om\n{before}k[grid](x, apart)"
    case = Case((("rows", 2),), "float32", 7, layouts=layouts)
    found = suspect_of(CaseResult(case, Verdict(Status.wrong_values)), source, "triton")
    assert (found is not None) == is_named
    assert found is None or "passes `apart` for `stride_om`" in found.what


def test_a_huge_source_is_left_alone():
    assert cause("wrong_values", "", "float s;\ns += 1;\n" * 50_000, "cuda") is None
