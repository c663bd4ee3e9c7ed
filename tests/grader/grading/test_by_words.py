"""Mistakes that an error and the source name: each row, and what must not be taken for one."""

from types import SimpleNamespace
from typing import cast

import pytest
import torch
import triton.language as tl

from grader import spec
from grader.cases import Case
from grader.cases.compare import Verdict
from grader.executors.answers import IN_LOOP
from grader.executors.runner import CaseResult
from grader.grading import by_python, large_sizes
from grader.grading.by_words import cause_of, general_cause_of
from grader.grading.session import Session
from grader.spec.task import Task
from grader.status import Status
from tests.support import work

RACE = (
    "Data race: thread (0,0,0) of block (1,0,0) writes 4 bytes at offset 0 of out at a.cu:1, "
    "which thread (0,0,0) of block ({},0,0) {} at a.cu:1, with nothing that orders the two."
)


def cause(status, what, source, language="triton", line=1):
    case = Case((("rows", 2),), "float32", 7, layouts=(("out", "row_padded"),))
    result = CaseResult(case, Verdict(Status(status), what), line)
    given = (result, source, language)
    return cause_of(*given) or general_cause_of(*given)


def test_a_function_that_is_launched_and_is_no_kernel_is_named() -> None:
    words = (
        'calling a __device__ function("k(float *)") from a __host__ function("f") is not allowed'
    )
    told = cause("compile_error", words, "k<<<1, 32>>>(out);", "cuda")
    assert told is not None and told.what.startswith("`k` is launched")
    called = cause("compile_error", words, "k(out);", "cuda")
    assert called is None or "launched" not in called.what


def test_a_pipeline_whose_stages_nothing_releases_is_named() -> None:
    waits = "thread (0,0,0) of block (0,0,0) waits for ever: 256 more arrivals are missing."
    source = "pipe.producer_acquire();\npipe.consumer_wait();\n"
    told = cause("barrier_error", waits, source, "cuda")
    assert told is not None and told.name == "never_released"
    assert cause("barrier_error", waits, source + "pipe.consumer_release();\n", "cuda") is None
    assert cause("barrier_error", waits, source, "cuda", line=2) is None


def test_an_element_that_each_thread_copies_by_a_call_of_its_group_is_named() -> None:
    words = "reads what nothing has written: 4 bytes of As, which has 2048 bytes of shared memory."
    copied = "cuda::memcpy_async({}, &As[ty][tx], &a[i], sizeof(float){}, pipe);"
    told = cause("uninitialised_read", words, copied.format("block", ""), "cuda")
    assert told is not None and told.what.startswith("`memcpy_async(block, ...)` is one copy")
    thread = "auto one = cg::this_thread();\n" + copied.format("one", "")
    for source in (copied.format("block", " * 256"), thread, "memcpy_async(&As[t], &a[i], 4, p);"):
        assert cause("uninitialised_read", words, source, "cuda") is None, source


@pytest.mark.parametrize("status", ["not_written", "not_finite"])
def test_an_output_that_is_read_before_it_is_stored_is_named(status: str) -> None:
    body = "    acc = tl.zeros([4], tl.float32)\n    {}\n    tl.store(c_ptr + offs, acc + x)\n"
    kernel = f"@triton.jit\ndef k(c_ptr):\n{body}"
    reads = "x = beta * tl.load(c_ptr + offs, mask=mask)"
    told = cause(status, "out[0] was never written.", kernel.format(reads))
    assert told is not None and told.what.startswith("The kernel reads `c_ptr + offs` before")
    assert [each.line for each in told.code] == [4, 5]
    back = "tl.store(c_ptr + offs, e)\n    x = tl.load(c_ptr + offs)"
    filled = kernel.format(reads) + "def f(c):\n    p = torch.zeros(4)\n    k[(1,)](p)\n"
    for source in (kernel.format("x = tl.load(a_ptr + offs)"), kernel.format(back), filled):
        other = cause(status, "out[0] was never written.", source)
        assert other is None or other.name != "read_before_written", source


@pytest.mark.parametrize("command", ["%%writefile a.py", "%%cuda", "%load_ext x", "!pip install x"])
def test_a_line_for_a_notebook_is_told_from_code(command: str) -> None:
    raised = "executing the file raised SyntaxError: invalid syntax (a.py, line 1)."
    for given in (("import_error", raised, command), ("compile_error", "", command, "cuda")):
        told = cause(*given)
        assert told is not None and told.what.startswith(f"`{command.split()[0]}` is a command of")
    for code in ("% 32;", "!done) {", "%d", "  %rest"):
        assert cause("compile_error", "expected ';'", code, "cuda") is None, code


@pytest.mark.parametrize(
    "words",
    [
        'calling a __host__ function("swish(float)") from a __global__ function("k")',
        'calling a __device__ function("__expf") from a __host__ function("swish")',
    ],
)
def test_a_helper_of_kernels_that_is_a_function_of_the_host_is_named(words: str) -> None:
    source = "float swish(float v) { return v / (1.0f + __expf(-v)); }\n{}void k() { swish(1.0f); }"
    told = cause("compile_error", words, source.replace("{}", "__global__ "), "cuda")
    assert told is not None and told.what.startswith("`swish` is a function of the host")
    assert cause("compile_error", words, "float swish(float v) { return v; }", "cuda") is None
    launcher = 'extern "C" void swish(float v) {}\nvoid f() { swish(1.0f); }'
    assert cause("compile_error", words, launcher, "cuda") is None


@pytest.mark.parametrize(
    "words",
    [
        "'concept' does not name a type; did you mean 'const'?",
        "'requires' does not name a type",
        "'bit_cast' is not a member of 'std'",
        "'std::source_location' has not been declared",
        'namespace "std" has no member "span"',
    ],
)
def test_what_is_newer_than_the_language_that_is_compiled_is_told(words: str) -> None:
    told = cause("compile_error", words, "int x;", "cuda")
    assert told is not None and told.what.startswith("This is C++20")
    assert cause("compile_error", "'row' is not a member of 'std'", "int x;", "cuda") is None


@pytest.mark.parametrize(
    ("words", "header"),
    [
        ("'assert' was not declared in this scope", "cassert"),
        ("there are no arguments to 'assert' that depend on a template parameter", "cassert"),
        ('identifier "FLT_MAX" is undefined', "cfloat"),
        ("'__half' does not name a type; did you mean '__hadd'?", "cuda_fp16.h"),
        ("'cooperative_groups' has not been declared", "cooperative_groups.h"),
        ("'vector' is not a member of 'std'", "vector"),
        ('namespace "std" has no member "vector"', "vector"),
    ],
)
def test_a_header_that_is_not_included_is_told(words: str, header: str) -> None:
    told = cause("compile_error", words, "int x;", "cuda")
    assert told is not None and f"<{header}>, which the file doesn't include" in told.what
    other = cause("compile_error", words, f"#include <{header}>\nint x;", "cuda")
    assert other is None or other.name != told.name


def test_what_no_header_declares_is_not_told_of_one() -> None:
    assert cause("compile_error", "'my_assert' was not declared in this scope", "", "cuda") is None
    words = "'assert' was not declared in this scope"
    assert cause("compile_error", words, "# include <assert.h>", "cuda") is None


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("p = tl.make_block_ptr(  # a block of x[BLOCK_M, BLOCK_N]", "triton"),
        ("y = x[row, col]", "triton"),
        ("int i = k;  // the element x[row, col]", "cuda"),
    ],
)
def test_a_comma_in_a_comment_or_in_python_leaves_no_index_out(line: str, language: str) -> None:
    assert cause("compile_error", "no such name", line, language) is None


def test_what_cuda_13_has_taken_out_of_a_devices_properties_is_told() -> None:
    words = 'class "cudaDeviceProp" has no member "{}"'
    told = cause("compile_error", words.format("memoryClockRate"), "int x;", "cuda")
    assert told is not None and told.what.startswith("CUDA 13 has taken `memoryClockRate` out")
    assert cause("compile_error", words.format("clock"), "int x;", "cuda") is None


def test_a_loop_that_is_known_is_the_one_that_is_told() -> None:
    source = "while (col < n) {\n  out[col] = 1;\n}\nwhile (k < n) {\n  k = f(k);\n}"
    for line, words in ((1, "nothing in it changes `col < n`"), (4, "line 4 doesn't end")):
        result = CaseResult(None, Verdict(Status.timed_out, "", IN_LOOP), line)
        found = cause_of(result, source, "cuda")
        assert found is not None and words in found.what


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ("__global__ void k() {\n  for (;;) { }\n}", "cuda"),
        ("__global__ void k() {\n  while (true) ;\n}", "cuda"),
        ("def k():\n  while True:\n    pass\n", "triton"),
    ],
)
def test_a_loop_without_a_condition_that_nothing_leaves_is_told(source: str, language: str) -> None:
    result = CaseResult(None, Verdict(Status.timed_out, ""))
    found = cause_of(result, source, language)
    assert found is not None and "line 2 never ends: nothing in it leaves it" in found.what
    left = source.replace("{ }", "{ break; }").replace(" ;", " { return; }")
    assert cause_of(result, left.replace("pass", "break"), language) is None


def test_an_unsigned_index_up_to_a_difference_is_told() -> None:
    for index, is_told in (("uint", True), ("size_t", True), ("int", False)):
        source = f"for ({index} k = 0; k < K - BK; k += BK) {{\n  sum += a[k];\n}}"
        result = CaseResult(None, Verdict(Status.timed_out, "", IN_LOOP), 1)
        found = cause_of(result, source, "cuda")
        assert found is not None and ("`K - BK` is a large number for `k`" in found.what) == is_told
        up_to = cause_of(result, source.replace("k < K", "k <= K"), "cuda")
        assert up_to is not None and ("Write `k + BK <= K`" in up_to.advice) == is_told


def test_a_function_that_is_not_inlined_is_told_at_its_call() -> None:
    words = "Function of_1 is marked noinline, but was called with non-scalar argument x:fp32[8]"
    source = "@triton.jit(noinline=True)\ndef of(x):\n    return x\n\n\ny = of(x)\n"
    told = cause("compile_error", words, source, line=0)
    assert told is not None and told.what.startswith("`of` is declared with `noinline=True`")
    assert [each.line for each in told.code] == [6]
    of_two_calls = cause("compile_error", words, source + "z = of(y)\n", line=0)
    assert of_two_calls is not None and [each.line for each in of_two_calls.code] == [2]


EXCHANGED = "k: grid (256, 1, 1), block (8192, 1, 1): a block has at most 1024 threads"
TOO_MANY = "k: grid (1, 1, 1), block ({}, 1): a block has at most 1024 threads"


@pytest.mark.parametrize(
    ("block", "before", "threads"),
    [
        ("SIZE", "constexpr int SIZE = 2048;", "2048, 1"),
        ("2048, 0", "", "2048, 1"),
        ("threads", "#define SIZE 64\ndim3 threads(SIZE, SIZE);", "64, 64"),
        ("dim3(64, 64)", "", "64, 64"),
    ],
)
def test_a_block_that_is_too_large_whatever_the_sizes_is_told(block, before, threads) -> None:
    source = f"k<<<blocks, {block}>>>(out, n);\n{before}"
    told = cause("launch_error", TOO_MANY.format(threads), source, "cuda")
    assert told is not None and f"({threads}, 1), and a block has at most" in told.what


def test_a_large_block_of_a_size_may_be_exchanged_with_the_grid() -> None:
    source = "k<<<SIZE, blocks>>>(out, n);\nconstexpr int SIZE = 256;"
    assert cause("launch_error", TOO_MANY.format("2048, 1"), source, "cuda") is None
    told = cause("launch_error", EXCHANGED, source, "cuda")
    assert told is not None and "`SIZE` and `blocks` are exchanged in this launch" in told.what
    [marked] = told.code
    assert marked.text[marked.start :][: marked.length] == "<<<SIZE, blocks>>>"


def test_what_is_refused_at_a_size_that_is_only_planned_is_named_as_well() -> None:
    exercise = spec.load_all()["silu"]
    task = Task(exercise, exercise.variants["cuda"])
    source = "silu_kernel<<<SIZE, blocks>>>(x, y, n);\nconstexpr int SIZE = 256;"
    session = SimpleNamespace(files=SimpleNamespace(called=""), seed=1)
    case = Case((("n", 1 << 26),), "float32", 1)
    result = CaseResult(case, Verdict(Status.launch_error, EXCHANGED), 1)
    failure = large_sizes._failure(cast(Session, session), task, source, result)
    assert "are exchanged in this launch" in failure.cause


@pytest.mark.parametrize(
    ("status", "what", "line", "language"),
    [
        ("compile_error", "@triton.jit ?", "m = tl.max(x, 1)", "triton"),
        ("compile_error", "@triton.jit ?", "m = tl.max(x, axis=0)", "triton"),
        ("compile_error", "@triton.jit ?", "m = tl.sum(tl.where(a, b, c), AXIS)", "triton"),
        ("out_of_memory", "never freed", "float* tmp; cudaMalloc(&tmp, 4);", "cuda"),
    ],
)
def test_reductions_along_an_axis_and_own_memory_are_no_mistakes(status, what, line, language):
    assert cause(status, what, line, language) is None


def test_additions_to_a_threads_own_element_arent_lost() -> None:
    case = Case((("rows", 2),), "float32", 7)
    race = CaseResult(case, Verdict(Status.data_race, ""), 1, marks=((1, "thread 0 reads"),))
    assert general_cause_of(race, "buf[threadIdx.x] += buf[threadIdx.x + s];", "cuda") is None
    told = general_cause_of(race, "total[0] += x;", "cuda")
    assert told is not None and "get lost" in told.what


def test_a_pointer_that_is_cast_to_another_dtype_than_the_cases_is_named() -> None:
    words = "Program (0, 1, 0) writes 4 bytes at offset 8 of out, which has 8 bytes."
    cast = "x_ptr = x_ptr.to(tl.pointer_type(tl.{}))"
    told = cause("wrote_out_of_bounds", words, cast.format("float16"))
    assert told is not None and "casts a pointer to float16" in told.what
    assert cause("wrote_out_of_bounds", words, cast.format("float32")) is None


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("x = tl.dot(q, k)", "`q.to(k.dtype)`"),
        ("x = tl.dot(q, tl.trans(k), acc)", "`q.to(k.dtype)`"),
        ("x = tl.dot(tl.trans(q), k.T) * scale", "`q.to(k.dtype)`"),
        ("x = tl.dot(q, k[0])", "`.to(...)`"),
    ],
)
def test_the_operands_of_a_product_are_named_where_they_are_turned(line: str, advice: str) -> None:
    words = "Both operands must be same dtype. Got fp32 and fp16"
    told = cause("compile_error", words, line, "triton")
    assert told is not None and advice in told.advice


def test_an_array_that_is_indexed_too_far_is_shown_with_its_declaration() -> None:
    words = (
        "Thread (8,0,0) of block (0,0,0) writes an array beyond its bounds: index 8 of an array "
        "of type float [8], at a.cu:3."
    )
    source = "__shared__ float part[8];\n__shared__ float whole[8];\npart[threadIdx.x] = x;"
    told = cause("wrote_out_of_bounds", words, source, "cuda", line=3)
    assert told is not None
    assert told.what == "`part` is `float [8]`, and this access has index 8"
    assert [each.line for each in told.code] == [3, 1] and told.is_unplaced
    both = source.replace("= x", "= whole[0]")
    assert cause("wrote_out_of_bounds", words, both, "cuda", line=3) is None
    kernel = "__shared__ float part[8];\n//__shared__ float part[9];\npart[threadIdx.x] = x;\n"
    told = cause("wrote_out_of_bounds", words, 3 * kernel, "cuda", line=6)
    assert told is not None and [each.line for each in told.code] == [6, 4]


NAMED = [
    ("compile_error", "'__uint_as_float' was not declared in this scope",
     "struct S { float f; __device__ S(unsigned u) : f(__uint_as_float(u)) {} };", "cuda",
     "nvcc compiles the initialisers of a `__device__` constructor for the host too"),
    ("compile_error", "Boolean value of Tensor with more than one value is ambiguous",
     "if x > 0:", "triton", "this one is a block"),
    ("compile_error", "a host function call cannot be configured",
     "turn<<<blocks, 256>>>(in, out);", "cuda", "`turn` is launched, and is a function"),
    ("compile_error", "a __global__ function call must be configured", "turn(in, out);", "cuda",
     "A kernel is called here like a function of the host"),
    ("compile_error", "incompatible types in assignment of 'float' to 'float [32]'",
     "As[ty, tx] = 0;", "cuda", "the comma leaves the first index out"),
    ("compile_error", "NameError: Block_K is not defined.", "BLOCK_K = 1\nx = Block_K", "triton",
     "did you mean `BLOCK_K`?"),
    ("compile_error", "‘treads’ was not declared in this scope", "int threads = treads;", "cuda",
     "did you mean `threads`?"),
    ("crashed", "`k` was launched without GROUP_SIZE_M.", 'Config({"GROUP_M": 8})', "triton",
     "The configurations set `GROUP_M`"),
    ("crashed", "`k` was launched without BLOCK_M.",
     'Config({"BLOCK_M": 8})\nConfig({"BLOCK_SIZE_M": 8})\ndef k(x, BLOCK_M: int):', "triton",
     "A configuration sets `BLOCK_SIZE_M`, and the parameter of `k` is `BLOCK_M`"),
    ("compile_error", "Expected dtype ['fp32', 'fp64'] but got bf16", "y = tl.exp(x)", "triton",
     "`tl.exp` takes float32, and gets half precision"),
    ("compile_error", "Both operands must be same dtype. Got fp32 and fp16", "tl.dot(p, v)",
     "triton", "operands of `tl.dot`"),
    ("crashed", "the entry raised OSError: libcudart.so: cannot open shared object file: No such",
     'ctypes.CDLL("libcudart.so")', "triton", "loads CUDA's library"),
    ("compile_error", "arange's arguments must be of type tl.constexpr", "", "triton",
     "known when the kernel is compiled"),
    ("compile_error", "Did you forget to add @triton.jit ?", "m = tl.max(m, tl.max(x, axis=0))",
     "triton", "reduces `a` along an axis `b`"),
    ("compile_error", "maximum() got an unexpected keyword argument 'axis'",
     "m = tl.maximum(x, axis=0)", "triton", "have no axis"),
    ("compile_error", "AttributeError: module 'triton.language' has no attribute 'tanh'",
     "y = 1 + tl.tanh(x)", "triton", "Triton has no `tl.tanh`"),
    ("compile_error", "AttributeError: 'tensor' object has no attribute 'float'",
     "y = x.float()", "triton", "Triton has no `x.float`"),
    ("compile_error", "'float' object has no attribute 'is_int'", "y = tl.full([B], 1.0, 1.0)",
     "triton", "A dtype belongs where this line passes Python's `float`"),
    ("compile_error", "'tensor' object has no attribute 'scalar'", "y = x.to(x)", "triton",
     "A dtype belongs where this line passes a block"),
    ("compile_error", "cannot cast fp32[constexpr[16]] to <['16'], pointer<fp32>>",
     "y = x.to(x_ptr.dtype)", "triton", "The dtype of a pointer isn't that of its elements"),
    ("compile_error", "Unsupported ptr type <['16'], fp32> in `tl.store`", "tl.store(y, p)",
     "triton", "`tl.store` takes a pointer, and `y` holds values"),
    ("compile_error", "Value argument cannot be block type if pointer argument is not a block",
     "tl.store(p, y)", "triton", "one address for all of them"),
    ("compile_error", "cannot add pointers together", "x = tl.load(x_ptr + p)", "triton",
     "has its tensor's pointer already"),
    ("compile_error", "invalid operands of type pointer<fp32> and triton.language.float32",
     "x = tl.load(p + o / 2)", "triton", "and this one is float32"),
    ("compile_error", "invalid operands of type pointer<fp32> and <['16'], fp16>",
     "x = tl.load(p + o)", "triton", "and this one is fp16"),
    ("compile_error", "unsupported operand type(s) for **: 'tensor' and 'int'", "y = x**2",
     "triton", "Triton has no `**`"),
    ("compile_error", "unsupported AST node type: Break", "break", "triton", "neither `break`"),
    ("compile_error", "cannot convert -inf of type <class 'str'> to tensor",
     "x = tl.load(p, m, other='-inf')", "triton", "The text '-inf' stands where a number"),
    ("compile_error", "'int' object is not iterable", "y = tl.zeros(B, tl.float32)", "triton",
     "A number stands where a shape"),
    ("compile_error", "got an unexpected keyword argument 'dim'", "y = tl.sum(x, dim=0)", "triton",
     "has no `dim`"),
    ("compile_error", "Cannot make_shape_compatible: incompatible dimensions at index 1: 32 and 16",
     "y = a + b", "triton", "have 32 and 16 elements along axis 1"),
    ("compile_error", "input and other must have equal reduction dimensions", "y = tl.dot(a, b)",
     "triton", "as many rows of b as a has columns"),
    ("compile_error", "Did you forget to add @triton.jit ? (`_semantic` argument must be provided",
     "for i in range(triton.cdiv(n, B)):", "triton", "`triton.cdiv` runs on the host"),
    ("compile_error", "NameError: total is not defined",
     "        total = x", "triton", "has a value only where a condition"),
    ("out_of_memory", "a cudaMalloc of 4 bytes is never freed.",
     "cudaMalloc((void**)&out, 4); } void f(float* out) {", "cuda",
     "overwrites the parameter `out`"),
    ("wrote_out_of_bounds", "of dynamic shared memory, of which the launch has 0 bytes", "",
     "cuda", "no dynamic shared memory"),
    ("wrote_out_of_bounds", "The host code copies beyond the end", "f(n * sizeof(float*));",
     "cuda", "size of a pointer"),
    ("data_race", RACE.format(0, "fills with another value"), "out[threadIdx.x] = 1;", "cuda",
     "Several blocks store different values to the same element of `out`"),
    ("data_race", RACE.format(1, "fills with another value"), "s[0] = 1;", "cuda",
     "Several threads of a block"),
    ("wrote_out_of_bounds", "writes 4 bytes through a null pointer", "", "cuda", "is null"),
    ("compile_error", "invalid axis 1. Expected -1 <= axis < 1", "tl.sum(x, axis=1)", "triton",
     "`tl.sum` is asked for axis 1"),
    ("compile_error", "invalid axis 1", "tl.sqrt(tl.sum(f(x), axis=1) / n)", "triton",
     "`tl.sum` is asked for axis 1"),
    ("timed_out", "", "while (col < n) {\n  out[col] = 1;\n}", "cuda",
     "The loop at line 1 never ends: nothing in it changes `col < n`"),
    ("timed_out", "", "for (int i = tid; i < n;) { out[i] = f(i); }", "cuda", "never ends"),
    ("timed_out", "", "while (col < n) out[col] = 1;", "cuda", "`col < n`"),
    ("timed_out", "", "for (int s = n / 2; s >= 0; s /= 2) { x[s] = 0; }", "cuda",
     "halving ends at 0, where `s >= 0` holds"),
    ("compile_error", "Loop-carried variable s has initial type int32 but is re-assigned to fp32 "
     "in loop!", "s = 1\nfor i in range(4):\n  s += 0.5", "triton", "`s` begins as int32"),
    ("compile_error", "Loop-carried variable s has initial type <['64', '64'], fp16> but is "
     "re-assigned to <['64', '64'], fp32> in loop!", "s = 1\nfor i in range(4):\n  s += 0.5",
     "triton", "`s` begins as fp16, and the loop makes it fp32"),
    ("compile_error", "Loop-carried variable s has initial type <['64'], fp32> but is "
     "re-assigned to <['64', '64'], fp32> in loop!", "s = 1\nfor i in range(4):\n  s += 0.5",
     "triton", "`s` begins as [64], and the loop makes it [64, 64]"),
    ("compile_error", "AttributeError: 'int' object has no attribute 'to'",
     "m = i < n.to(tl.int64)\n\ndef k(x, n, B: tl.constexpr): pass", "triton",
     "compiles an integer argument of 1 as a constant, which has no `.to`"),
    ("crashed", "ValueError: Conflicting meta-parameters: BLOCK_M.", "", "triton", "autotuner"),
    ("compile_error", "numel (67108864) exceeds triton maximum tensor numel", "", "triton",
     "A block grows with the size"),
    ("compile_error", "AssertionError: Ternary expression with dynamic condition has inconsistent "
     "types", "y = v if v > 0 else 0.0", "triton", "once for a whole block"),
    ("wrong_memory_space", "The host code copies in another direction than it says: cudaMemcpy",
     "cudaMemcpy(&d_A, col, 4, H2D); void f(float* d_A)", "cuda", "`&d_A` is where the host keeps"),
    ("wrong_memory_space", "The host code copies in another direction than it says: cudaMemcpy",
     "cudaMemcpy(&sum, d_A, 4, H2D); float sum;", "cuda", "The kind of this copy"),
    ("invalid_read", "The host code copies from beyond the end of the source",
     "cudaMemcpy(d_A, &column, 4, H2D); std::vector<float> column(rows);", "cuda",
     "`&column` is the address of the vector itself"),
    ("compile_error", "no matching function for call to '__shfl_down_sync(float&, int&)'",
     "v += __shfl_down_sync(v, offset);", "cuda", "`__shfl_down_sync` is called without the mask"),
    ("crashed", "TypeError: can only concatenate tuple (not \"int\") to torch.Size",
     "grid = (triton.cdiv(n, BLOCK),)", "triton", "A shape, which is a tuple"),
    ("nondeterministic", "Thread (0,0,0) of block (0,0,0) computes what C++ leaves undefined at "
     "a.cu:1 (`int x = in[i];`): 1.3e+31 becomes int, which doesn't hold it.", "int x = in[i];",
     "cuda", "A float becomes a whole number here"),
    ("crashed", "Cannot view a tensor with shape", "", "triton", "`view` needs a contiguous"),
    ("wrong_memory_space", "The host code uses a device pointer on the host: 4 bytes at offset 0 "
     "of d_A, which has 4 bytes", "d_A[row] = 1;", "cuda", "Host code accesses `d_A` itself"),
    ("wrong_memory_space", "The host code copies in another direction than it says: cudaMemcpy "
     "with cudaMemcpyDeviceToHost, but the destination is device memory", "", "cuda",
     "The kind of this copy doesn't fit its destination and its source"),
    ("wrong_memory_space", "Thread (0,0,0) uses a host pointer in a kernel: 4 bytes at offset 0 of "
     "h_A", "x = h_A[0];", "cuda", "The kernel accesses `h_A` itself, which is memory of the host"),
]  # fmt: skip

NOT_NAMED = [
    (
        "compile_error",
        "no matching function for call to '__shfl_down_sync(unsigned int, Pair&, int&)'",
        "pair = __shfl_down_sync(FULL, pair, offset);",
        "cuda",
    ),
    (
        "crashed",
        "RuntimeError: Boolean value of Tensor with more than one value is ambiguous",
        "if x == out:",
        "triton",
    ),
    ("launch_error", "TypeError: 'int' object is not iterable", "for i in n:", "triton"),
    (
        "launch_error",
        "TypeError: unsupported operand type(s) for ** or pow()",
        "n = [1] ** 2",
        "triton",
    ),
    ("launch_error", "f() got an unexpected keyword argument 'dim'", "f(x, dim=1)", "triton"),
    (
        "wrong_memory_space",
        "Thread (0,0,0) of block (0,0,0) uses a host pointer in a kernel: 4 bytes of a global "
        "variable of the host code",
        "out[i] = table[i];",
        "cuda",
    ),
    ("wrong_values", "", "As[ty, tx] = 0;", "cuda"),  # it compiles: a pointer's second index
    ("compile_error", "NameError: foo is not defined.", "bar = foo", "triton"),
    ("crashed", "NameError: silu is not defined.", '"""SiLU"""\nx = silu  # Silu', "triton"),
    (
        "compile_error",
        "‘treads’ was not declared in this scope",
        "int t = treads;  // threads",
        "cuda",
    ),
    (
        "compile_error",
        "AttributeError: 'int' object has no attribute 'to'",
        "m = i < B.to(tl.int64)\n\ndef k(x, n, B: tl.constexpr): pass",
        "triton",
    ),
    ("crashed", "`k` was launched without GROUP_SIZE_M.", 'Config({"GROUP_SIZE_M": 8})', "triton"),
    ("data_race", RACE.format(1, "reads"), "out[threadIdx.x] = 1;", "cuda"),
    ("timed_out", "", "while (col < n) {\n  out[col] = 1;\n  col += step;\n}", "cuda"),
    ("timed_out", "", "while (col < n) {\n  if (x) break;\n}", "cuda"),
    ("timed_out", "", "for (int i = tid; i < n; i += step) { out[i] = f(i); }", "cuda"),
    # Of a macro's `do { ... } while (0)` only the function behind it has braces.
    ("timed_out", "", "} while (0)\nvoid k(int n) { out[0] = n; }", "cuda"),
    ("timed_out", "", "for (int s = n / 2; s > 0; s /= 2) x[s] = 0;", "cuda"),
]


@pytest.mark.parametrize(
    ("held", "launch", "is_address"),
    [
        ("int64", "k[(1,)](x.data_ptr())", True),
        ("int64", "k[(1,)](x)", False),
        ("fp32", "print(x.data_ptr())", False),
    ],
)
def test_an_address_in_the_place_of_a_tensor_is_named(held, launch, is_address) -> None:
    words = f"Unsupported ptr type <['16'], {held}> in `tl.load`"
    told = cause("compile_error", words, f"y = tl.load(x_ptr + offs)\n{launch}")
    assert told is not None and ("Pass the tensor `x` itself" in told.advice) == is_address


def test_an_unknown_name_is_marked_in_its_line() -> None:
    source = "int i = blockIdx.x * blockdim.x; // blockDim"
    found = cause("compile_error", "'blockdim' was not declared in this scope", source, "cuda")
    assert found is not None
    [marked] = found.code
    assert source[marked.start :][: marked.length] == "blockdim"


def test_a_word_of_a_comment_without_an_end_is_no_name_either() -> None:
    source = "int i = countr; /* counter"
    found = cause("compile_error", "'countr' was not declared in this scope", source, "cuda")
    assert "`counter`" not in (f"{found.what} {found.advice}" if found else "")


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ("def f(x):\n\ty = x\n    z = y\n", 2),
        ("def f(x):\n    y = x\n\tz = y\n", 3),
        ("def f(x):\n\ty = x\n\t\tz = y\n", None),
        ("def f(x):\n    y = x\n      z = y\n", None),
    ],
)
def test_a_tab_among_spaces_is_named_with_its_line(lines, line):
    words = "Executing the file raised IndentationError: unindent does not match (silu.py, line 3)."
    told = cause("import_error", words, lines, line=3)
    assert (told.what if told else None) == (
        f"Line {line} is indented by a tab, and other lines are by spaces" if line else None
    )


@pytest.mark.parametrize(
    ("words", "line", "told"),
    [
        ("invalid character '\u201d' (U+201D)", "x = \u201dinf\u201d", 'has `"`'),
        ("extended character \u2013 is not valid in an identifier", "y = 1 \u2013 x;", "has `-`"),
        (
            "invalid non-printable character U+00A0",
            "y =\u00a0x",
            "U+00A0, no-break space, where code has a space",
        ),
        (
            "invalid character '\uff0c' (U+FF0C)",
            "f(x\uff0c y)",
            "U+FF0C, fullwidth comma, where code has `,`",
        ),
        ("invalid character '\u20ac' (U+20AC)", "x = \u20ac", None),
    ],
)
def test_a_character_of_typeset_text_is_named_with_what_to_type(words, line, told):
    made = cause("import_error", f"SyntaxError: {words} (silu.py, line 1).", line, line=1)
    assert told in made.what if told else made is None


def test_a_kernel_with_its_launcher_s_name_is_told():
    source = "__global__ void f(float* x) {}\nvoid f(float* x) { f<<<1, 1>>>(x); }\n"
    words = "Redefinition of 'void f(float*)'."
    told = cause("compile_error", words, source, "cuda", line=2)
    assert told.what == "A kernel and the function that launches it are both called `f`"
    assert cause("compile_error", words, source.replace("f<<<", "g<<<")[30:], "cuda") is None


@pytest.mark.parametrize(
    ("line", "product"),
    [
        ("u = a * (x + 0.04 * x^3)", "x * x * x"),
        ("s += in[i] ^ 2;", "in[i] * in[i]"),
        ("y = (a + b)^2", "x * x"),
        ("y = a | b", None),
    ],
)
def test_a_caret_is_no_power_in_either_language(line, product):
    words = "invalid operands of types 'float' and 'int' to binary 'operator^'."
    told = cause("compile_error", words, line)
    assert told.advice == f"Write a product, as in `{product}`." if product else told is None


STORE_BEHIND = """
def f(x_ptr, out_ptr, n, B: tl.constexpr):
    for {turn} in range(0, n, B):

        cols = {turn} + tl.arange(0, B)
        mask = cols < n
        total = tl.load(x_ptr + cols, mask=mask)
    tl.store(out_ptr + {stored}, total, mask=mask)
"""


@pytest.mark.parametrize("turn", ["start", "k"])
@pytest.mark.parametrize("name", ["cols", "mask"])
@pytest.mark.parametrize(("stored", "is_of_turn"), [("cols", True), ("n", False)])
def test_a_store_behind_the_loop_that_makes_its_offsets_belongs_into_it(
    turn, name, stored, is_of_turn
):
    source = STORE_BEHIND.format(turn=turn, stored=stored)
    words = f"NameError: {name} is not defined"
    told = cause("compile_error", words, source, line=source.count("\n"))
    assert ("Indent it into the loop" in told.advice) is is_of_turn
    assert ("has a value only where" in told.what) is not is_of_turn


@pytest.mark.parametrize(
    ("lines", "is_within"),
    [
        ("def f(x):\n    if x:\n        total = x\n    y = total", True),
        ("def of(x):\n    if x:\n        total = x\n\n\ndef f(x):\n    y = total", False),
        ("def f(x):\n    y = tl.load(\n        total=total,\n    )", False),
    ],
)
def test_a_name_has_a_value_in_its_own_function_alone(lines: str, is_within: bool) -> None:
    source = f"@triton.jit\n{lines}\n"
    line = source.count("\n")
    told = cause("compile_error", "NameError: total is not defined", source, line=line)
    assert ("has a value only where" in (told.what if told else "")) == is_within


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("tanh", "libdevice.tanh"),
        ("exp", "Write `tl.exp`"),
        ("maximun", "Did you mean `tl.maximum`?"),
        ("inf", 'float("inf")'),
        ("mean", "Divide `tl.sum`"),
        ("stride", "as a parameter"),
        ("relu", "Compose it"),
    ],
)
def test_a_name_that_triton_lacks_has_what_to_write_in_its_place(name: str, advice: str) -> None:
    words = f"AttributeError: module 'triton.language' has no attribute '{name}'"
    told = cause("compile_error", words, f"y = tl.{name}(x)")
    assert told is not None and advice in told.advice


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


CALLED = 'calling a __host__ function("f(int)") from a __global__ function("k")'


@pytest.mark.parametrize(
    ("status", "words", "source"),
    [
        ("data_race", RACE.format("0", "fills with another value"), "a" * 90_000),
        ("data_race", RACE.format("0", "reads"), "a" * 90_000),
        ("compile_error", CALLED, "f(0) + f(1);" + ' extern "C"' * 8000),
    ],
)
def test_a_contrived_source_takes_no_time(status: str, words: str, source: str) -> None:
    with work.ending():
        cause(status, words, source, "cuda")


def test_a_huge_source_is_left_alone():
    assert cause("wrong_values", "", "float s;\ns += 1;\n" * 50_000, "cuda") is None


@pytest.mark.parametrize(
    "words",
    [
        "silu() returned a tensor of shape [1], float32 and did not write out.",
        "out[3] was never written; 1 of 4 elements was not.",
    ],
)
def test_an_output_whose_name_is_given_to_another_tensor_is_named(words: str) -> None:
    source = (
        "def silu(x, out):\n    {} = torch.empty_like(x)\n    k[(1,)](x, out)\n    return out\n"
    )
    told = cause("not_written", words, source.format("out"))
    assert told is not None and told.what.startswith("`out = ...` gives the name another tensor")
    assert [each.line for each in told.code] == [2]
    assert cause("not_written", words, source.format("other")) is None
    assert cause("not_written", words, source.format("x")) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("The entry raised TypeError: object of type 'int' has no len().", "a launch's grid"),
        ("The entry raised TypeError: 'function' object is not subscriptable.", "a kernel"),
        ("Assignment of read-only location '*(output + idx)'.", "`const`"),
        ("expected unqualified-id before string constant", "a `}` is missing"),
    ],
)
def test_a_beginner_s_error_is_told_in_a_sentence_of_what_to_do(words: str, said: str) -> None:
    told = cause("crashed", words, "k[grid](x, out)")
    assert told is not None and said in told.what and told.advice


def of_kernel(words: str, body: str):
    """What is told of a kernel whose line 2 is refused with some words."""
    source = f"def k(x_ptr, out_ptr, n, B: tl.constexpr):\n    {body}\n"
    return cause("compile_error", words, source, line=2)


HOST = "NameError: {0} leads to the module {0}; a kernel may use triton.language and modules."


@pytest.mark.parametrize(
    ("words", "body", "marked", "advice"),
    [
        (HOST.format("torch"), "y = v / (1.0 + torch.exp(-v))", "torch.exp", "`tl.exp`"),
        (HOST.format("np"), "y = np.clip(v, 0, 1)", "np.clip", "`tl.clamp`"),
        (HOST.format("np"), "y = np.float32(1.0) + v", "np.float32", "`x.to(tl.float32)` converts"),
        (HOST.format("F"), "y = F.gelu(v)", "F.gelu", "Compose it"),
        ("must be real number, not tensor", "y = math.log2(v)", "math.log2", "`tl.log2`"),
        ("fp32[constexpr[8]] is not string", "print(v)", "print(v", '`print("v", v)`'),
        ("NameError: sum is not defined.", "y = sum(v)", "sum(v", "`tl.sum`"),
        ("float() argument must be a string or a real number, not 'tensor'", "y = float(v)",
         "float(v", "`v.to(tl.float32)`"),
        ("TypeError: object of type 'tensor' has no len()", "m = len(x_ptr)", "len(x_ptr",
         "as a parameter"),
        ("Did you forget to add @triton.jit ? (`_semantic` argument must be provided",
         "v = x_ptr[i].to(tl.float32)", "x_ptr[i]", "`tl.load(x_ptr + i, mask=...)`"),
        ("NotImplementedError: __setitem__ is not supported in triton.", "out_ptr[i] = y",
         "out_ptr[i]", "`tl.store(out_ptr + i, value, mask=...)`"),
        ("NotImplementedError: __setitem__ is not supported in triton.", "y[0] = 0.0", "y[0]",
         "`tl.where`"),
    ],
)  # fmt: skip
def test_python_in_a_kernel_is_told_with_what_triton_has_for_it(words, body, marked, advice):
    told = of_kernel(words, body)
    assert told is not None and advice in told.advice
    [line] = told.code
    assert line.text[line.start :][: line.length] == marked


def test_what_triton_has_for_python_is_in_triton() -> None:
    for name in by_python._OTHER.values():
        assert hasattr(tl, name), name
    same = [name for name in dir(torch) if by_python._SAME.fullmatch(name)]
    assert len(same) > 20 and not [name for name in same if not hasattr(tl, name)]


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (
            "`_semantic` argument must be provided outside of JIT functions",
            "m = tl.max(x[:, None])",
        ),
        ("`_semantic` argument must be provided outside of JIT functions", "m = tl.load(x_ptr)"),
        ("TypeError: must be real number, not tensor", "y = f(v)"),
    ],
)
def test_an_added_axis_or_another_call_is_no_python_in_a_kernel(words: str, body: str) -> None:
    assert of_kernel(words, body) is None


def test_a_loop_over_an_argument_of_1_is_told_as_what_it_is() -> None:
    words = "AttributeError: 'constexpr' object has no attribute 'handle'."
    told = of_kernel(words, "while n > 0:\n        x += 1")
    assert told is not None and "nothing in it changes `n > 0`" in told.what
    told = of_kernel(words, "while n > 0:\n        n -= 1")
    assert told is not None and told.what.startswith("An argument of this condition is 1")
    assert of_kernel(words, "y = x_ptr + n") is None


KERNEL = "__global__ void k(float* out) {{\n    __shared__ float total;\n{}    {}\n}}\n"


@pytest.mark.parametrize("adds", ["atomicAdd(&total, v);", "total += v;"])
def test_a_sum_in_shared_memory_without_a_first_value_is_named(adds: str) -> None:
    words = "Thread (0,0,0) reads what nothing has written: 4 bytes at offset 0 of total, which "
    words += "has 4 bytes of shared memory."
    told = cause("uninitialised_read", words, KERNEL.format("", adds), "cuda", 3)
    assert told is not None and told.what.startswith("This line adds to `total`, and nothing has")
    begun = KERNEL.format("    if (t == 0) total = 0;\n", adds)
    assert cause("uninitialised_read", words, begun, "cuda", 4) is None
    read = KERNEL.format("", "out[0] = total;")
    assert cause("uninitialised_read", words, read, "cuda", 3) is None


def test_an_output_that_is_only_copied_from_is_named() -> None:
    head = 'extern "C" void f(const float* in, float* to, int n) {\n'
    copy = "    cudaMemcpy(row, to, n * 4, cudaMemcpyDeviceToHost);\n"
    words = "nothing was written to to"
    told = cause("not_written", words, f"{head}{copy}}}\n", "cuda")
    assert told is not None and told.what == "This copy reads `to`, which nothing writes"
    assert [each.line for each in told.code] == [2]
    written = f"{head}    k<<<1, 32>>>(in, to);\n{copy}}}\n"
    assert cause("not_written", words, written, "cuda") is None


FLAT_CUDA = """__global__ void k(float* out) {{ out[{index}] = 0; }}
extern "C" void f(float* out, int n) {{ {given} k<<<{grid}, dim3(8, 8)>>>(out); }}
"""
FLAT_TRITON = """@triton.jit
def k(out_ptr):
    tl.store(out_ptr + {index}, 0)

def f(out, n):
    grid = {grid}
    k[grid](out)
"""


@pytest.mark.parametrize(
    ("index", "given", "grid", "is_flat"),
    [
        ("blockIdx.y * 8 + blockIdx.x", "", "ceil_div(n, 8)", True),
        ("blockIdx.y * 8 + blockIdx.x", "dim3 grid(ceil_div(n, 8));", "grid", True),
        ("blockIdx.y * 8 + blockIdx.x", "dim3 grid(8, ceil_div(n, 8));", "grid", False),
        ("blockIdx.y * 8 + blockIdx.x", "", "dim3(ceil_div(n, 8), 8)", False),
        ("blockIdx.y * gridDim.x + blockIdx.x", "", "n", False),
        ("blockIdx.x", "", "n", False),
    ],
)
def test_a_kernel_that_counts_along_y_and_is_launched_along_x_is_named(
    index: str, given: str, grid: str, is_flat: bool
) -> None:
    source = FLAT_CUDA.format(index=index, given=given, grid=grid)
    told = cause("not_written", "out[8] was never written", source, "cuda")
    assert (told is not None and "`blockIdx.y`, which is 0" in told.what) == is_flat


@pytest.mark.parametrize(
    ("index", "grid", "is_flat"),
    [
        ("tl.program_id(1)", "(triton.cdiv(n, 8),)", True),
        ("tl.program_id(axis=1)", "lambda meta: (triton.cdiv(n, meta['B']),)", True),
        ("tl.program_id(1)", "(4, triton.cdiv(n, 8))", False),
        ("tl.program_id(0)", "(n,)", False),
    ],
)
def test_so_is_one_of_triton(index: str, grid: str, is_flat: bool) -> None:
    source = FLAT_TRITON.format(index=index, grid=grid)
    told = cause("not_written", "out[8] was never written", source)
    assert (told is not None and "which is 0: the grid of" in told.what) == is_flat


def test_a_block_as_long_as_a_size_is_told_of_the_kernel_s_own_constant() -> None:
    source = "@triton.jit\ndef k(x_ptr, n, BLOCK{}):\n    offs = tl.arange(0, {})\n"
    words = "the kernel can't be compiled: arange's arguments must be of type tl.constexpr"

    def told(*given: str) -> str:
        found = cause("compile_error", words, source.format(*given), line=3)
        return f"{found.what}. {found.advice}" if found else ""

    assert "`n` is known only at the launch. Take blocks of `BLOCK`" in told(": tl.constexpr", "n")
    assert "Declare the parameter" in told("", "BLOCK")


LATE = "the launcher took longer than 10 s of computing (30 s in all); it runs without data."


def long_loop(source: str, language: str, words: str = "") -> str:
    """What is said of a run whose time was over in the loop of the line with `# here`."""
    line = source[: source.index("here")].count("\n") + 1
    told = cause_of(
        CaseResult(None, Verdict(Status.timed_out, words, IN_LOOP), line), source, language
    )
    assert told is not None
    return f"{told.what}. {told.advice}"


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("for (int i = 0; i < n; i++)", "Each thread takes all of them. Let it begin at its own"),
        ("for (size_t k = first; k <= last; k += 4)", "is it what one thread has to do"),
    ],
)
def test_a_loop_that_counts_up_is_told_to_be_long_and_not_endless(head: str, words: str) -> None:
    told = long_loop(f"{head} {{ // here\n  out[0] += in[0];\n}}", "cuda")
    assert "has too many turns" in told and words in told
    for body in ("n++; last++;", "i = 0; k = 0;"):
        assert "doesn't end" in long_loop(f"{head} {{ // here\n  {body}\n}}", "cuda")
    around = f"while (!done()) {{\n{head} {{ // here\n  out[0] += in[0];\n}}\n}}"
    assert "doesn't end" in long_loop(around, "cuda")


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("for c in range(0, BLOCK):", "`c` goes on by 1, and each turn takes a whole block"),
        ("for c in range(0, n, BLOCK):", "is it what one program has to do"),
    ],
)
def test_a_loop_over_a_range_is_told_to_be_long_and_not_endless(head: str, words: str) -> None:
    source = (
        f"def k():\n  {head}  # here\n    o = c + tl.arange(0, BLOCK)\n    tl.store(p + o, 0)\n"
    )
    told = long_loop(source, "triton")
    assert "has too many turns" in told and words in told
    around = source.replace("  for", "  while f():\n   for")
    assert "doesn't end" in long_loop(
        around.replace("    o", "     o").replace("    tl", "     tl"), "triton"
    )


HOST_LOOP = (
    "{}void f(const float* x, int rows) {{\n  for (int r = 0; r < rows; ++r) // here\n    g(x);\n}}"
)


@pytest.mark.parametrize(
    ("source", "language", "words", "is_host"),
    [
        ("def f(x):\n  for r in range(9):  # here\n    k[1](x[r])\n", "triton", LATE, True),
        ("def k(x):\n  for r in range(9):  # here\n    tl.store(x, r)\n", "triton", "", False),
        (HOST_LOOP.format('extern "C" '), "cuda", "", True),
        (HOST_LOOP.format("__global__ "), "cuda", "", False),
        (f"struct S {{\n{HOST_LOOP.format('__device__ ')}\n}};", "cuda", "", False),
    ],
)
def test_a_long_loop_of_host_code_is_told_to_become_a_grid(
    source: str, language: str, words: str, is_host: bool
) -> None:
    told = long_loop(source, language, words)
    assert "has too many turns" in told
    assert ("launch one grid" in told, "Each " in told) == (is_host, not is_host)


def test_a_slice_of_a_pointer_becomes_a_load_that_python_can_read() -> None:
    words = "unsupported tensor index: <slice>"
    for index, offset in (("i * B : (i + 1) * B", "i * B + tl"), (":n", "0 + tl")):
        told = cause("compile_error", words, f"def k(x_ptr, B): y = x_ptr[{index}]")
        assert told is not None
        assert f"Write `tl.load(x_ptr + {offset}.arange(0, BLOCK), mask=...)`." in told.advice


def test_a_vector_that_only_reserves_room_is_told_where_its_size_is_copied() -> None:
    source = "std::vector<float> c;\nc.reserve(rows);\n{}\ncudaMemcpy(d, &c[0], c.size() * 4, k);"
    told = cause("not_written", "nothing", source.replace("{}", "c[0] = 1;"), "cuda")
    assert told is not None and told.advice == "Write `c.resize(rows);`."
    for grown in ("c.push_back(1);", "c = other;"):
        told = cause("not_written", "nothing", source.replace("{}", grown), "cuda")
        assert told is None or told.name != "only_reserved"


TUNED = """
@triton.autotune(configs=[triton.Config({"BLOCK_M": 32}), triton.Config({"BLOCK_M": 64})], key=[])
@triton.jit
def k(x, n, BLOCK_M: tl.constexpr):
    pass
def f(x):
    GRID
    k[grid](x, 1)
"""


@pytest.mark.parametrize(
    ("grid", "is_told"),
    [
        ("grid = (triton.cdiv(n, 32),)", True),
        ("grid = (n // 32 + 1, 1)", True),
        ('grid = lambda meta: (triton.cdiv(n, meta["BLOCK_M"]),)', False),
        ("grid = (132,)", False),
    ],
)
def test_a_fixed_grid_of_a_tuned_kernel_is_told(grid: str, is_told: bool) -> None:
    told = cause("not_written", "out[0] was never written", TUNED.replace("GRID", grid))
    assert (told is not None and told.name == "fixed_grid") == is_told
    alike = TUNED.replace("GRID", grid).replace("64", "32")
    assert cause("not_written", "out[0] was never written", alike) is None


@pytest.mark.parametrize(
    ("turn", "stored", "name"),
    [
        ("s += tl.sum(x)", "x / s", "s"),
        ("m_new = tl.maximum(m, x)\n    m = m_new", "y", "m"),
        ("src += 64", "x * 2", None),
        ("twice = x * 2", "twice", None),
    ],
)
def test_a_store_of_what_later_turns_change_is_told(
    turn: str, stored: str, name: str | None
) -> None:
    source = f"""def k(src, out):
  for i in range(0, n, B):
    x = tl.load(src + i)
    {turn}
    y = tl.exp(x - m)
    tl.store(out + i, {stored})
"""
    told = cause("wrong_values", "out[0] is 1", source)
    assert (told.what.split("`")[1] if told else None) == name
