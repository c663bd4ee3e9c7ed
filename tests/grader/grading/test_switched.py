"""One text for many edits: each kind of change is behind a switch of its own, or left out."""

import pytest

from grader.grading.switched import MOST_CHARACTERS, entry_of, switched

SOURCE = """
#include <cuda_runtime.h>
constexpr int BLOCK = 64;
constexpr int half_of(int n) { return n / 2; }
constexpr int third_of(int n) { return n / 3; }
constexpr int THIRD = third_of(BLOCK);
__device__ float scaled(float value, float by = 2.0f) { return value * by; }
template <int N>
__global__ void k(const float* in, float* out, int n) {
    __shared__ float tile[N];
    const int width = N;
    float rows[width];
    int i = blockIdx.x * N + threadIdx.x, last = n - 1;
    float sum;
    // the tile
    tile[threadIdx.x] = in[i];
    __syncthreads();
    #pragma unroll
    for (int s = 0; s < N; s += 1) {
        if (s == last) break;
        sum += scaled(tile[s]);
    }
    if (i < n) out[i] = sum; else rows[0] = sum;
}
extern "C" void run(const float* in, float* out, int n) {
    dim3 blocks(half_of(n), third_of(n));
    k<BLOCK><<<blocks, BLOCK>>>(in, out, n);
}
"""


def changes(*pairs, source=SOURCE):
    """Changes of what stands once in a source to what stands instead."""
    made = []
    for old, new in pairs:
        assert source.count(old) == 1, old
        start = source.index(old)
        made.append({"start": start, "end": start + len(old), "new": new})
    return made


def inserted(before, new):
    return [{"start": SOURCE.index(before), "end": SOURCE.index(before), "new": new}]


def program(*edits, source=SOURCE):
    numbered = {f"{number}": edit for number, edit in enumerate(edits, 1)}
    return switched(source, "run", numbered)


def text_of(*edits, source=SOURCE):
    """The text on one line, single-spaced."""
    return " ".join(program(*edits, source=source)["text"].split())


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (  # a statement
            changes(("tile[threadIdx.x] = in[i]", "tile[threadIdx.x] = in[n]")),
            "{ if (change__ == 1) { tile[threadIdx.x] = in[n]; } else { tile[threadIdx.x] = in[i];",
        ),
        (  # a first value, of two in a declaration
            changes(("n - 1", "n")),
            "last = ( change__ == 1 ? static_cast<int>(n) : static_cast<int>( n - 1 )) ;",
        ),
        (  # an argument of a constructor
            changes(("third_of(n))", "n)")),
            "dim3 blocks(half_of(n), ( change__ == 1 ? (n) : ( third_of(n) )) );",
        ),
        (  # conditions
            changes(("i < n", "i <= n")),
            "if ( ( change__ == 1 ? static_cast<bool>(i <= n) : static_cast<bool>( i < n )) ) out",
        ),
        (
            changes(("s < N", "s < n")),
            "; ( change__ == 1 ? static_cast<bool>(s < n) : static_cast<bool>( s < N )) ; s += 1",
        ),
        (
            changes(("s += 1", "s += 2")),
            "( change__ == 1 ? static_cast<void>(s += 2) : static_cast<void>( s += 1 )) ) {",
        ),
        (  # what is put in between statements, and before one
            inserted("    for", "__syncthreads();\n"),
            "if (change__ == 1) { __syncthreads(); } for (int s = 0;",
        ),
        (
            inserted("sum += scaled", "if (s < n) "),
            "if (change__ == 1) { if (s < n) sum += scaled(tile[s]); } else {",
        ),
        (  # what is left out
            changes(("__syncthreads();", "")),
            "{ if (change__ == 1) { } else { __syncthreads(); } }",
        ),
        (  # a first value where there is none
            changes(("float sum;", "float sum = 0.0f;")),
            "float sum; if (change__ == 1) { sum = 0.0f; }",
        ),
        (  # a branch as a whole
            changes(("if (s == last) break", "{ if (s == last) break; }")),
            "if (change__ == 1) { { if (s == last) break; }; } else { if (s == last) break; }",
        ),
        (  # the launch
            changes(("<<<blocks, BLOCK>>>", "<<<BLOCK, blocks>>>")),
            "{ if (change__ == 1) { k<BLOCK><<<BLOCK, blocks>>>(in, out, n); } else",
        ),
    ],
)
def test_a_change_is_behind_a_switch(edit, expected):
    made = program(edit)
    assert made["numbers"] == [1]
    assert expected in " ".join(made["text"].split())


@pytest.mark.parametrize(
    "edit",
    [
        changes(("int width = N", "int width = n")),  # an array's size
        changes(("float tile[N]", "float tile[N + 1]")),  # shared memory
        changes(
            ("(const float* in, float* out, int n) {\n    __", "(float* in, float* out) {\n    __")
        ),
        changes(("BLOCK = 64", "BLOCK = 32")),
        changes(("n / 3", "n / 4")),  # what a constant expression may call
        changes(("s == last", "s == (last")),
        changes(("i < n", "i < n) { if (true")),
        changes(("s == last) break;\n", "s == last) break;" + " sum = 0;" * MOST_CHARACTERS)),
        [{"start": 0, "end": len(SOURCE), "new": SOURCE}],
    ],
)
def test_what_no_switch_can_choose_is_left_out(edit):
    other = changes(("s == last", "s == n"))
    made = program(edit, other)
    assert made["numbers"] == [2] and "change__ == 1" not in made["text"]
    assert program(edit)["text"] == ""


def test_a_declaration_is_not_hidden_in_a_branch():
    text = text_of(changes(("        sum += scaled", "        float sum = 0; sum += scaled")))
    whole = "{ if (s == last) break; float sum = 0; sum += scaled(tile[s]); }"
    assert f"if (change__ == 1) {{ {whole}" in text  # the loop's body is there twice


def test_edits_of_one_place_follow_one_another():
    text = text_of(*(changes(("in[i]", f"in[{new}]")) for new in ("n", "last")))
    one, other = (
        f"(change__ == {k}) {{ tile[threadIdx.x] = in[{n}]; }} else"
        for k, n in ((1, "n"), (2, "last"))
    )
    assert f"{{ if {one} if {other} {{ tile[threadIdx.x] = in[i]; }} }}" in text


def test_an_edit_within_the_part_of_another_is_chosen_where_that_one_is_not():
    text = text_of(
        changes(("if (i < n) out[i] = sum; else", "if (i < n) out[i] = 0; if (i >= n)")),
        changes(("i < n", "i < last")),
    )
    assert (
        "if (change__ == 1) { if (i < n) out[i] = 0; if (i >= n) rows[0] = sum; } else { if ( ("
        in text
    )
    assert "( change__ == 2 ? static_cast<bool>(i < last) : static_cast<bool>( i < n )) )" in text


def test_an_edit_with_changes_at_several_places_is_chosen_at_all_of_them():
    text = text_of(changes(("n - 1", "n"), ("s == last", "s > last")))
    assert text.count("change__ == 1 ?") == 2
    text = text_of(changes(("tile[threadIdx.x]", "tile[i]"), ("in[i]", "in[threadIdx.x]")))
    assert "if (change__ == 1) { tile[i] = in[threadIdx.x]; } else" in text


def test_each_edit_has_an_entry_and_number_0_changes_nothing():
    text = program(changes(("n - 1", "n")), changes(("s == last", "s == n")))["text"]
    for number in (0, 1, 2):
        head = f'extern "C" void {entry_of("run", number)}(const float* in, float* out, int n)'
        assert f"{head} {{ run__switched({number}, in, out, n); }}" in text


def test_an_entry_with_changed_parameters_hands_them_on_by_name():
    text = text_of(changes(("run(const float* in, float* out", "run(float* out, const float* in")))
    head = f'extern "C" void {entry_of("run", 1)}(float* out, const float* in, int n)'
    assert f"{head} {{ run__switched(1, in, out, n); }}" in text


def test_every_function_that_leads_to_a_change_passes_on_which():
    text = text_of(changes(("value * by", "value + by")))
    assert "__device__ float scaled__switched(int change__, float value, float by = 2.0f) {" in text
    assert "sum += scaled__switched(change__, tile[s]);" in text
    assert "k__switched<BLOCK><<<blocks, BLOCK>>>(change__, in, out, n);" in text
    assert "half_of(n)" in text  # which leads to none
    text = text_of(changes(("n / 2", "n")))
    assert "constexpr int half_of__switched(int change__, int n) {" in text
    assert "dim3 blocks(half_of__switched(change__, n), third_of(n));" in text


def test_functions_of_a_namespace_are_changed_in_it():
    source = SOURCE.replace("template <int N>", "namespace own {\ntemplate <int N>")
    source = source.replace('extern "C"', '}\nextern "C"').replace(
        "    k<BLOCK>", "    own::k<BLOCK>"
    )
    text = text_of(changes(("n - 1", "n"), source=source), source=source)
    assert "namespace own { template <int N> __global__ void k__switched(int change__" in text
    assert "rows[0] = sum; } } extern" in text
    assert "own::k__switched<BLOCK><<<blocks, BLOCK>>>(change__, in, out, n);" in text


def test_a_kernel_that_a_variable_names_is_launched_with_it():
    source = SOURCE.replace("    k<BLOCK><<<", "    auto chosen = k<BLOCK>;\n    chosen<<<")
    text = text_of(changes(("n - 1", "n"), source=source), source=source)
    assert "auto chosen = k__switched<BLOCK>; chosen<<<blocks, BLOCK>>>(change__, in" in text


def test_each_line_of_the_text_has_an_owner():
    made = program(changes(("n - 1", "n")), changes(("third_of(n))", "n)")))
    lines = made["text"].split("\n")
    assert len(made["owners"]) == len(lines)
    owned = {tuple(owner): line for line, owner in zip(lines, made["owners"], strict=True)}
    assert "static_cast<int>(n)" in owned[1, True]
    assert "? (n)" in owned[2, False]  # the two values may have no common type


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("#if N\n    int a = 1;\n#endif\n    out[0] = a;", ("a = 1", "a = 2")),
        ("int a = (1;", ("a = (1", "a = (2")),
        ("{" * 60 + "out[0] = 1;" + "}" * 60, ("= 1", "= 2")),
    ],
)
def test_a_function_that_cannot_be_read_stays_as_it_is(body, changed):
    source = f'extern "C" void run(float* out) {{\n{body}\n}}\n'
    assert program(changes(changed, source=source), source=source)["numbers"] == []


@pytest.mark.parametrize(
    ("statement", "changed", "expected"),
    [
        ("float *a = x, *b = y;", ("= y", "= x"), "*b = ( change__ == 1 ? static_cast<float*>(x)"),
        ("float a[2] = {1, 2};", (", 2", ", 3"), "{1, ( change__ == 1 ? static_cast<float>(3)"),
        ("const int a = n * 2;", ("n * 2", "n"), "change__ == 1 ? static_cast<const int>(n) :"),
        (
            "auto a = n * 2;",
            ("n * 2", "x[0]"),
            "if (change__ == 1) { { auto a = x[0]; out[0] = a; } }",
        ),
        (
            "float& a = x[0];",
            ("x[0]", "x[1]"),
            "if (change__ == 1) { { float& a = x[1]; out[0] = a; } }",
        ),
        (
            "while (n > 1) n /= 2;",
            ("> 1", "> 0"),
            "while ( ( change__ == 1 ? static_cast<bool>(n > 0)",
        ),
        (
            "do n /= 2; while (n > 1);",
            ("> 1", "> 0"),
            "while (( change__ == 1 ? static_cast<bool>(n > 0)",
        ),
        ("return k<2>(x * n);", ("x * n", "x"), "if (change__ == 1) { return k<2>(x); } else"),
        (
            "switch (n) { case 1: x[0] = 2; }",
            ("= 2", "= 3"),
            "case 1: { if (change__ == 1) { x[0] = 3;",
        ),
        ("a < b;", ("a <", "b <"), "if (change__ == 1) { b < b; } else"),
    ],
)
def test_declarations_and_loops_of_each_kind(statement, changed, expected):
    head = 'extern "C" void run(float* out, float* x, float* y, int n)'
    source = f"{head} {{\n{statement}\nout[0] = a;}}\n"
    text = text_of(changes(changed, source=source), source=source)
    assert expected.replace(" ", "") in text.replace(" ", "")
