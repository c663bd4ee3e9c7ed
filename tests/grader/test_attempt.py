"""What was not attempted is recognised by reading alone; whatever may be work is run."""

from pathlib import Path

import pytest

from grader import spec
from grader.attempt import is_untouched

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = [
    (variant.file, variant.entry)
    for exercise in spec.load_all().values()
    for variant in exercise.variants.values()
    if variant.file.endswith(".py")
]
SHIP_SOLVED = {"gelu", "transpose_v0", "gemm_v0"}
STUBS = [each for each in ENTRIES if each[1] not in SHIP_SOLVED]

KERNEL = "@triton.jit\ndef f_kernel(x_ptr):\n    pass\n"


@pytest.mark.parametrize(("file", "entry"), STUBS)
def test_every_stub_is_untouched(file, entry):
    source = (ROOT / "assignment" / file).read_text(encoding="utf-8")
    assert is_untouched(source, entry) == f"{entry}() is still the stub"


@pytest.mark.parametrize(("file", "entry"), ENTRIES)
def test_every_solution_is_an_attempt(file, entry):
    assert is_untouched((ROOT / "reference" / file).read_text(encoding="utf-8"), entry) == ""


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
