"""The loop that a program is in, from the lines that it passes."""

import pytest

from grader.executors import loops

CODE = """\
__device__ float sum(const float* x, int n) {
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += x[i];
    return s;
}

namespace {
__global__ void kernel(float* x, int n) {  // while (true) {
    for (int i = 0; i < n; ++i) {
        x[i] = 0;
    }
    while (n > 0) {
        x[0] += sum(x, n);
        for (int k = 0; k < 4; ++k) {
            x[k] = 1;
        }
        do {
            n = n;
        } while (n < 0);
    }
}
}
"""


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ({10, 11}, 10),
        ({13, 14, 15, 16, 19}, 13),
        ({1, 3, 4, 5, 13, 14}, 13),  # through a function that it calls
        ({3, 4}, 3),
        ({3, 13}, 13),  # its function's body was inlined
        ({15, 16}, 15),
        ({18, 19}, 18),
        ({10, 13}, None),
        ({9}, None),
        (set(), None),
    ],
)
def test_the_innermost_loop_with_all_lines(lines, line) -> None:
    assert loops.innermost(CODE, lines) == line


def test_a_brace_in_a_macro_is_none_of_the_code() -> None:
    code = CODE.replace("    float s = 0;", "#define BEGIN {")
    assert loops.innermost(code, {13, 14, 15, 16, 19}) == 13


def test_a_loop_in_a_method_is_seen() -> None:
    lines = ["struct Sum {", "  void add(int n) {", "    while (n > 0) {", "    }", "  }", "};"]
    assert loops.innermost("\n".join(lines), {3, 4}) == 3


def test_loops_around_a_line_of_python() -> None:
    source = "for i in range(3):\n    x = i\n    while x:\n        x = f(\n            x)\ny = 1\n"
    assert loops.around(source, 5) == [3, 1]
    assert loops.around(source, 6) == loops.around("while (", 1) == []


def test_the_loop_of_all_samples_is_the_one_that_does_not_end() -> None:
    assert loops.common([[9, 4], [4], [7, 4]]) == 4
    assert loops.common([[9, 4], [9, 4]]) == 9
    assert loops.common([[9], [4]]) is loops.common([]) is None
