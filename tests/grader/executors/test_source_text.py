"""A submission's text is cut into functions in time that grows with its length, not faster."""

import pytest

from grader.executors.source_text import SourceText
from tests.support import work

KERNEL = "__global__ void fill(float* x, int n) noexcept {\n    x[threadIdx.x] = n;\n}\n"


@pytest.mark.parametrize("blanks", [" ", "\n", "const "])
def test_blanks_behind_a_functions_parameters_take_no_time(blanks: str) -> None:
    text = f"{KERNEL}int f(){blanks * 200_000}x {{}}\n"
    with work.ending():
        assert list(SourceText(text, is_triton=False).functions) == ["fill"]
