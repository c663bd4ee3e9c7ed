"""What was not attempted is recognised by reading alone; whatever may be work is run."""

from pathlib import Path

import pytest

from grader import spec
from grader.grading.session import Options, Session
from grader.grading.stub_check import is_untouched
from grader.spec.task import Task

ROOT = Path(__file__).resolve().parents[3]
ENTRIES = [
    (variant.file, variant.entry, variant.language)
    for exercise in spec.load_all().values()
    for variant in exercise.variants.values()
]
SHIP_SOLVED = {"gelu", "transpose_v0", "gemm_v0"}
STUBS = [each for each in ENTRIES if each[1] not in SHIP_SOLVED]

KERNEL = "@triton.jit\ndef f_kernel(x_ptr):\n    pass\n"


@pytest.mark.parametrize(("file", "entry", "language"), STUBS)
def test_every_stub_is_untouched(file, entry, language):
    source = (ROOT / "assignment" / file).read_text(encoding="utf-8")
    assert is_untouched(source, entry, language) == f"{entry}() is still the stub"


@pytest.mark.parametrize("file", ["silu.py", "silu.cu"])
def test_a_stub_that_windows_saved_is_untouched(tmp_path, file):
    text = (ROOT / "assignment" / file).read_text(encoding="utf-8").replace("\n", "\r\n")
    (tmp_path / file).write_text(text, encoding="utf-8-sig", newline="")
    exercise = spec.load_all()["silu"]
    variant = next(each for each in exercise.variants.values() if each.file == file)
    with Session(tmp_path, {"silu": exercise}, Options(device="cpu")) as session:
        assert session.not_attempted(Task(exercise, variant)) == "silu() is still the stub"


@pytest.mark.parametrize(("file", "entry", "language"), ENTRIES)
def test_every_solution_is_an_attempt(file, entry, language):
    source = (ROOT / "reference" / file).read_text(encoding="utf-8")
    assert is_untouched(source, entry, language) == ""


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "the file is empty"),
        ("  \n\n", "the file is empty"),
        ("# TODO\n", "nothing but comments"),
        ('"""My kernels."""\n', "nothing but comments"),
    ],
)
def test_a_file_without_code_is_no_attempt(source, reason):
    assert reason in is_untouched(source, "f")


@pytest.mark.parametrize(
    "body",
    [
        "raise NotImplementedError",
        "raise NotImplementedError('f: launch it here')",
        "'''Doc.'''\n    raise NotImplementedError('f') from None",
        "pass",
        "...",
        "'''Doc.'''",
        "return",
        "return None",
    ],
)
def test_a_body_that_does_nothing_is_no_attempt(body):
    assert is_untouched(f"{KERNEL}def f(x):\n    {body}\n", "f") == "f() is still the stub"


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    x += 1\n",
        "def f(x):\n    return x\n",
        "def f(x):\n    raise ValueError\n",
        "def f(x):\n    if x:\n        raise NotImplementedError\n",
        "def f(x):\n    y = x\n    raise NotImplementedError\n",
        "def g(x):\n    raise NotImplementedError\n",  # no f: running it says so
        "def f(x:\n",  # a syntax error: running it says so
        "def f(x):\n    pass\nf = print\n",
        "def f(x):\n    pass\nif True:\n    def f(x):\n        x += 1\n",
        "def f(x):\n    pass\nfrom math import floor as f\n",
        "def f(x):\n    pass\ndef f(x):\n    x += 1\n",
        "f = lambda x: None\n",
        "def f(x):\n    pass\nclass f:\n    pass\n",
        "\0",
    ],
)
def test_whatever_may_be_work_is_an_attempt(source):
    assert is_untouched(source, "f") == ""


def test_a_kernel_that_another_entry_launches_is_not():
    kernel = KERNEL.replace("pass", "tl.store(x_ptr, 1)")
    source = kernel + "def f(x):\n    pass\ndef g(x):\n    f_kernel[(1,)](x)\n"
    assert is_untouched(source, "f") == "f() is still the stub"


def test_a_kernel_that_nothing_launches_is_mentioned():
    source = KERNEL.replace("pass", "tl.store(x_ptr, 1)") + "def f(x):\n    pass\n"
    reason = is_untouched(source, "f")
    assert reason == "f() is still the stub: f_kernel is written, but not launched"


def test_nothing_is_executed(tmp_path):
    witness = tmp_path / "witness"
    source = f"open({str(witness)!r}, 'w')\ndef f(x):\n    pass\n"
    assert is_untouched(source, "f")
    assert not witness.exists()


def test_a_deeply_nested_file_is_left_to_the_worker():
    assert is_untouched("(" * 5000 + ")" * 5000, "f") == ""


# --- CUDA -----------------------------------------------------------------------------------------

CUDA_KERNEL = """#include <cuda_runtime.h>
#define CHECK(call) do { if ((call) != cudaSuccess) exit(1); } while (0)
constexpr int BLOCK = 256;
__global__ void f_kernel(const float* x, float* out, int n) {
    // TODO: system("rm"); return 1;
}
"""
CUDA_ENTRY = 'extern "C" void f(const float* x, float* out, int n)'


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "the file is empty"),
        ("\n  \n", "the file is empty"),
        ("// f(x)\n/* void f() { x = 1; } */\n", "nothing but comments"),
        ("#include <cuda_runtime.h>\n// TODO\n", "nothing but comments"),
    ],
)
def test_a_cuda_file_without_code_is_no_attempt(source, reason):
    assert reason in is_untouched(source, "f", "cuda")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "// f_kernel<<<1, 1>>>(x, out, n);",
        "(void)x;\n    (void)out; (void)n;",
        "return;",
        ";;",
        "{ return; }",
        "/* x */ ( void ) x ; // y",
        "#if 0\n    f_kernel<<<1, 1>>>(x, out, n);\n#endif",
    ],
)
@pytest.mark.parametrize("entry", [CUDA_ENTRY, 'extern "C" {\n' + CUDA_ENTRY[11:]])
def test_a_launcher_that_does_nothing_is_no_attempt(body, entry):
    end = "}" if "{" in entry else ""
    source = f"{CUDA_KERNEL}{entry} {{\n    {body}\n}}\n{end}"
    assert is_untouched(source, "f", "cuda") == "f() is still the stub"


@pytest.mark.parametrize(
    "source",
    [
        f"{CUDA_KERNEL}{CUDA_ENTRY} {{ f_kernel<<<1, 1>>>(x, out, n); }}",
        f"{CUDA_KERNEL}{CUDA_ENTRY} {{ out[0] = 1; }}",
        f"{CUDA_KERNEL}{CUDA_ENTRY} {{ CHECK(0); }}",
        f"{CUDA_KERNEL}{CUDA_ENTRY} {{ if (n) return; }}",
        f"{CUDA_KERNEL}{CUDA_ENTRY} {{ (void)g(); }}",
        f"{CUDA_KERNEL}{CUDA_ENTRY} {{ return 1; }}",
        f"{CUDA_KERNEL}void g() {{}}",  # no f: building it says so
        f"{CUDA_KERNEL}void f(int n) {{}} {CUDA_ENTRY} {{ g(); }}",
        f"{CUDA_KERNEL}{CUDA_ENTRY};",
        f"{CUDA_KERNEL}struct S {{ void f() {{}} }};",
        f"#define f g\n{CUDA_KERNEL}{CUDA_ENTRY} {{}}",
        f"#define BODY {{ g();\n{CUDA_ENTRY} BODY }}",
        f"{CUDA_ENTRY} {{\n#ifdef A\n}} void g() {{ h();\n#endif\n}}",
        f"{CUDA_ENTRY} {{",  # a syntax error: building it says so
        f"{CUDA_ENTRY} {{ /* no end",
        "}" * 9,
        "{" * 5000,
        "\0",
    ],
)
def test_whatever_may_be_work_in_cuda_is_an_attempt(source):
    assert is_untouched(source, "f", "cuda") == ""


def test_a_cuda_kernel_that_nothing_launches_is_mentioned():
    kernel = CUDA_KERNEL.replace("// TODO", "out[0] = x[0]; // TODO")
    reason = is_untouched(f"{kernel}{CUDA_ENTRY} {{ }}", "f", "cuda")
    assert reason == "f() is still the stub: f_kernel is written, but not launched"


def test_a_kernel_of_another_entry_is_not_mentioned():
    kernel = CUDA_KERNEL.replace("// TODO", "out[0] = x[0]; // TODO")
    other = "void g(float* x) { f_kernel<<<1, 1>>>(x, x, 1); }"
    reason = is_untouched(f"{kernel}{CUDA_ENTRY} {{ }}\n{other}", "f", "cuda")
    assert reason == "f() is still the stub"
