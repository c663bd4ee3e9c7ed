"""Diagnosis: what separates failing cases from passing ones, and what to try."""

from dataclasses import replace

import pytest

from grader import spec
from grader.cases import Space, parse
from grader.cases.compare import Verdict
from grader.executors.answers import hint_of_compiler
from grader.grading.diagnosis import (
    MAX_PROBES_IN_ALL,
    Condition,
    Separation,
    _Prober,
    hint,
    separate,
)
from grader.spec.task import Task
from grader.status import Status

EXERCISES = spec.load_all()


def space_of(name, size_class="ragged"):
    exercise = EXERCISES[name]
    return Space(Task(exercise, exercise.variants["triton"]), "float32", size_class, 4)


def padded(case, tensor="x"):
    return dict(case.layouts).get(tensor) == "row_padded"


def diagnose(fails, name="rmsnorm", size_class="ragged", smallest=None, limit=None):
    """(separation, cases run to find it) after the edge cases were seen; `fails` is the kernel."""
    space = space_of(name, size_class)
    outcomes = {case: fails(case) for case in space.edges()}
    if smallest is None:
        smallest = min((c for c, failed in outcomes.items() if failed), key=lambda c: c.complexity)
    else:
        smallest = parse(f"{smallest} seed=4", space.task, 4)
        assert fails(smallest)
        outcomes[smallest] = True
    probed = []

    def run(case):
        if limit is not None and len(probed) >= limit:
            return None
        assert case not in outcomes, "a case that was seen is run again"
        assert space.allows(dict(case.sizes)), "a case outside the class is run"
        probed.append(case)
        return fails(case)

    return separate(space, smallest, outcomes, run), probed


@pytest.mark.parametrize(
    ("fails", "name", "smallest", "text", "complement"),
    [
        (lambda c: c.size("cols") > 1024, "rmsnorm", "rows=1 cols=1025",
         "cols > 1024", "cols <= 1024"),
        (lambda c: c.size("rows") > 1, "rmsnorm", "rows=2 cols=1", "rows > 1", "rows <= 1"),
        (lambda c: c.size("n") > 1000, "silu", "n=1001", "n > 1000", "n <= 1000"),
        (lambda c: c.size("n") < 64, "silu", "n=1", "n < 64", "n >= 64"),
        (lambda c: c.size("n") % 8 != 0, "silu", "n=1", "n not a multiple of 8",
         "n a multiple of 8"),
        (lambda c: c.size("cols") % 64 != 0, "rmsnorm", "rows=1 cols=1",
         "cols not a multiple of 64", "cols a multiple of 64"),
        (lambda c: c.size("cols") & (c.size("cols") - 1) != 0, "rmsnorm", "rows=1 cols=3",
         "cols not a power of two", "cols a power of two"),
        (padded, "rmsnorm", "rows=1 cols=1 x.layout=row_padded", "x.layout=row_padded",
         "x.layout=contiguous"),
        (lambda c: padded(c, "out"), "rmsnorm", "rows=1 cols=1 out.layout=row_padded",
         "out.layout=row_padded", "out.layout=contiguous"),
        (lambda c: dict(c.layouts).get("x") == "offset", "silu", "n=1 x.layout=offset",
         "x.layout=offset", "x.layout=contiguous"),
        (lambda c: c.data == "large", "rmsnorm", "rows=1 cols=1 data=large", "data=large",
         "other data"),
        (lambda c: c.data == "tiny", "silu", "n=1 data=tiny", "data=tiny", "other data"),
        (lambda c: bool(c.scalars), "rmsnorm", "rows=1 cols=1 eps=1e-5", "eps=1e-05",
         "another eps"),
        (lambda c: padded(c) and c.size("rows") > 1, "rmsnorm",
         "rows=2 cols=1 x.layout=row_padded", "x.layout=row_padded and rows > 1", ""),
        (lambda c: c.data == "large" and c.size("cols") > 100, "rmsnorm",
         "rows=1 cols=101 data=large", "data=large and cols > 100", ""),
    ],
)  # fmt: skip
def test_what_separates_failing_from_passing_cases_is_found(
    fails, name, smallest, text, complement
):
    # As after shrinking: what is one smaller was seen to pass.
    space = space_of(name)
    seen = parse(f"{smallest} seed=4", space.task, 4)
    smaller = {
        replace(seen, sizes=tuple((n, v - (n == size)) for n, v in seen.sizes))
        for size, value in seen.sizes
        if value > 1
    }
    outcomes = {case: fails(case) for case in [*space.edges(), seen, *smaller]}
    found = separate(space, seen, outcomes, fails)
    assert found is not None
    assert (found.condition.text, found.condition.complement) == (text, complement)
    assert all(found.condition.holds(case) == failed for case, failed in outcomes.items())
    assert (found.failing, found.passing) == (
        sum(outcomes.values()),
        len(outcomes) - sum(outcomes.values()),
    )


def test_a_bound_that_one_size_alone_is_above_needs_no_data_that_nothing_else_had():
    exercise = EXERCISES["rmsnorm"]
    space = Space(Task(exercise, exercise.variants["cuda_matrix"]), "float32", "ragged", 4)
    largest = max(rules["cols"].high for rules in space.alternatives)

    def fails(case):
        return case.size("cols") >= largest

    smallest = parse(f"rows=1 cols={largest} seed=4", space.task, 4)
    plain = [smallest.with_size("cols", size) for size in (1, 2, 3, largest // 2, largest - 1)]
    other = [replace(case, data="large") for case in plain]
    outcomes = {case: fails(case) for case in [*plain, *other, smallest]}
    separation = separate(space, smallest, outcomes, fails)
    assert separation is not None and separation.condition.text == f"cols > {largest - 1}"


def test_of_two_sizes_that_grow_together_the_one_beyond_a_block_is_named():
    """Aligned cases of two batches are those of 128 queries."""
    separation, _ = diagnose(
        lambda c: c.size("N_CTX") > 64, "flash_attention", "aligned",
        "Z=2 H=1 N_CTX=128 N_KV=128 HEAD_DIM=64",
    )  # fmt: skip
    assert separation.condition.subject == "N_CTX"


def test_what_always_fails_is_said_to():
    found, probed = diagnose(lambda case: True)
    assert found.condition.kind == "always"
    assert found.sentence == f"Every float32 case fails ({found.failing} tried)."
    assert probed  # also on cases run for the purpose


def test_a_kernel_that_is_right_for_whole_tiles_is_not_said_to_fail_always():
    def fails(case):
        return any(size % 32 for _, size in case.sizes)

    exercise = EXERCISES["transpose"]
    space = Space(Task(exercise, exercise.variants["cuda_v3"]), "float32", "ragged", 4)
    outcomes = {case: fails(case) for case in space.edges()[:12]}
    assert all(outcomes.values())
    found = separate(space, space.edges()[0], outcomes, fails)
    assert found is not None
    assert found.sentence == (
        f"Every case with rows or cols not a multiple of 32 fails ({found.failing} tried); "
        f"every case with rows and cols multiples of 32 passes ({found.passing} tried)."
    )


def test_a_size_that_needs_smaller_tiles_than_another_is_not_said_to_need_as_large_ones():
    def fails(case):
        return bool(case.size("rows") % 16 or case.size("cols") % 64)

    exercise = EXERCISES["transpose"]
    space = Space(Task(exercise, exercise.variants["cuda_v3"]), "float32", "ragged", 4)
    outcomes = {case: fails(case) for case in space.edges()[:12]}
    assert separate(space, space.edges()[0], outcomes, fails) is None


def test_where_a_variant_has_one_dtype_no_dtype_is_named():
    exercise = EXERCISES["copy_first_column"]
    space = Space(Task(exercise, next(iter(exercise.variants.values()))), "float32", "ragged", 4)
    outcomes = dict.fromkeys(space.edges(), True)
    found = separate(space, space.edges()[0], outcomes, lambda case: True)
    assert found.sentence == f"Every case fails ({found.failing} tried)."


def test_a_sentence_says_both_sides_and_how_many_were_tried():
    found, _ = diagnose(lambda c: c.size("cols") > 1024, smallest="rows=1 cols=1025")
    assert found.sentence == (
        f"Every case with cols > 1024 fails ({found.failing} tried); "
        f"every case with cols <= 1024 passes ({found.passing} tried)."
    )
    both = lambda c: padded(c) and c.size("rows") > 1  # noqa: E731
    found, _ = diagnose(both, smallest="rows=2 cols=1 x.layout=row_padded")
    assert found.sentence == (
        f"Every case with x.layout=row_padded and rows > 1 fails ({found.failing} tried); "
        f"every other case passes ({found.passing} tried)."
    )


def test_in_a_class_of_multiples_the_bound_is_one_of_them():
    fails = lambda c: c.size("cols") > 1030  # noqa: E731
    found, probed = diagnose(fails, size_class="aligned", smallest="rows=1 cols=1088")
    assert found.condition.text == "cols > 1024"
    assert all(case.size("cols") % 64 == 0 for case in probed)


def test_where_no_size_near_the_bound_was_tried_the_one_that_fails_is_said():
    """Rows of 2050 to 4096 columns are in no class: what a kernel does with them isn't known."""
    found, _ = diagnose(
        lambda c: c.size("cols") > 3000, name="softmax", smallest="rows=1 cols=4097"
    )
    assert (found.condition.text, found.condition.complement) == ("cols >= 4097", "cols <= 2049")
    assert hint(Verdict(Status.wrong_values, "", "all"), found) == ""


@pytest.mark.parametrize(
    "fails",
    [
        lambda c: c.size("cols") % 13 in (4, 6, 11),
        lambda c: c.size("cols") in (1025, 1027),
        lambda c: (c.size("cols") > 1024) != (c.size("cols") > 1900),
        lambda c: c.size("cols") > 1024 or c.data == "tiny",
    ],
)
def test_nothing_is_said_where_nothing_separates(fails):
    found, probed = diagnose(fails, smallest="rows=1 cols=1025")
    assert found is None
    assert len(probed) <= MAX_PROBES_IN_ALL


def test_a_condition_that_a_probe_contradicts_is_not_said():
    """All edges agree with cols > 1024; only a probe shows that 1026 passes."""
    seen = {1025, 2047, 2048, 2049}
    found, probed = diagnose(lambda c: c.size("cols") in seen, smallest="rows=1 cols=1025")
    assert any(case.size("cols") == 1026 for case in probed)
    assert found is None


def test_one_failing_case_is_not_enough_to_speak_of_every_case():
    space = space_of("rmsnorm")
    smallest = parse("rows=1 cols=1025", space.task, 4)
    other = parse("rows=1 cols=1024", space.task, 4)
    assert separate(space, smallest, {smallest: True, other: False}, lambda case: None) is None
    assert separate(space, smallest, {smallest: True}, lambda case: None) is None


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_without_time_for_probes_what_was_seen_has_to_do(limit):
    fails = lambda c: c.size("cols") > 1024  # noqa: E731
    found, probed = diagnose(fails, smallest="rows=1 cols=1025", limit=limit)
    assert len(probed) <= limit
    assert found is None or found.condition.text == "cols > 1024"


def test_without_a_case_that_differs_in_the_condition_alone_nothing_is_said():
    """By chance each failing case has several rows, and no probe is run that tells."""
    space = space_of("rmsnorm")
    texts = {"rows=3 cols=77": True, "rows=2 cols=9": True, "rows=1 cols=1": False}
    outcomes = {
        parse(f"{text} seed=4", space.task, 4): failed
        for text, failed in (*texts.items(), ("rows=1 cols=2", False))
    }
    assert separate(space, next(iter(outcomes)), outcomes, lambda case: None) is None


def test_the_number_of_probes_is_bounded():
    """A kernel that answers by whim contradicts one condition after the other."""
    for whim in range(20):
        answers = iter(range(10**6))
        space = space_of("rmsnorm")
        smallest = parse("rows=3 cols=77", space.task, 4)
        calls = []

        def fails(case, answers=answers, whim=whim, calls=calls):
            calls.append(case)
            return bool((next(answers) * 2654435761 >> whim) & 1)

        separate(space, smallest, {smallest: True}, fails)
        assert len(calls) <= MAX_PROBES_IN_ALL
        assert len(calls) == len(set(calls))


def test_a_spent_budget_answers_like_a_lack_of_time():
    space = space_of("rmsnorm")
    calls = []
    probe = _Prober({}, lambda case: bool(calls.append(case)), left=3)
    answers = [probe(case) for case in space.edges()[:5]]
    assert answers == [False, False, False, None, None] and len(calls) == 3
    assert probe(calls[0]) is False  # what is known costs nothing


# --- hints ---------------------------------------------------------------------------------------


def said(status, pattern="", condition=None, what=""):
    separation = Separation(condition, 5, 5) if condition else None
    return hint(Verdict(status, what, pattern), separation)


def condition_of(kind, subject="", value=""):
    return Condition(f"{subject}={value}", "", lambda case: True, kind, subject, value)


def test_an_exception_of_host_code_gets_no_hint_about_kernels():
    above = condition_of("above", "cols", 128)
    assert said(Status.crashed, "raised", above, what="the entry raised ZeroDivisionError") == ""
    assert "every block of 128" in said(Status.crashed, "", above)


def test_a_kernel_that_does_not_compile_gets_no_hint_about_masks():
    below = condition_of("below", "n", 2)
    assert said(Status.compile_error, "", below) == ""
    assert "masked" in said(Status.crashed, "", below)


@pytest.mark.parametrize(
    ("message", "is_of_language"),
    [
        ("unsupported AST node type: Try", True),
        ("AttributeError: 'tuple' object has no attribute append", True),
        ("kernel needs 294,912 bytes of shared memory, the GPU has 232,448", False),
        ("arange's range must be a power of 2", False),
        ("NameError: undefined is not defined", False),
    ],
)
def test_only_where_the_language_is_the_trouble_is_it_explained(message, is_of_language):
    assert (
        hint_of_compiler(message).startswith("Triton compiles a part of Python") == is_of_language
    )


def test_a_loop_that_is_left_early_is_named_among_what_triton_lacks() -> None:
    assert "no break, continue" in hint_of_compiler("unsupported AST node type: Break")


def test_where_the_compiler_itself_fails_there_is_something_to_try():
    words = "Failures have been detected while processing an MLIR pass pipeline"
    assert "warp_specialize" in hint_of_compiler(words)


ABOVE_BLOCK = condition_of("above", "cols", 1024)
PADDED = condition_of("layout", "out", "row_padded")
LARGE = condition_of("data", "data", "large")
WRONG = Status.wrong_values


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((Status.wrote_out_of_bounds, "outside", None, "2 between the rows"), "columns"),
        ((Status.wrote_out_of_bounds, "outside"), "run past the end"),
        ((Status.modified_input, "input"), "Which pointer"),
        ((Status.not_written, "nothing", None, "nothing was written to lse."), "store to lse?"),
        (
            (Status.not_written, "nothing", None, "nothing was written to lse, only to out."),
            "Does a kernel store to lse, too?",
        ),
        ((Status.nondeterministic,), "another one writes"),
        ((Status.not_written, "nothing"), "launch the kernel"),
        ((Status.not_written, "nothing", condition_of("below", "n", 64)), "n // BLOCK is 0"),
        ((Status.not_written, "tail", ABOVE_BLOCK), "every block of 1024 along cols"),
        ((WRONG, "all", condition_of("odd_size", "cols")), "next power of two"),
        ((Status.not_written, "one", condition_of("data", "data", "one_hot")), "zeros"),
        ((Status.not_written, "tail", PADDED), "out can lie further apart"),
        ((WRONG, "all", condition_of("layout", "x", "row_padded")), "x can lie further apart"),
        ((WRONG, "all", condition_of("layout", "x", "offset")), "16 bytes"),
        ((WRONG, "all", condition_of("layout", "x", "transposed")), "stride(-1)"),
        ((WRONG, "all", LARGE), "compute in float32"),
        ((WRONG, "all", LARGE, "out[1] is -0, expected -7.9672e-29"), "1 + tanh(x)"),
        ((WRONG, "all", LARGE, "out[1] is 5.2e-08, expected 1.2e-20"), "1 + tanh(x)"),
        ((WRONG, "all", LARGE, "out[1] is 0, expected 3.2e+10"), "compute in float32"),
        ((WRONG, "all", condition_of("data", "data", "tiny")), "epsilon"),
        ((WRONG, "all", condition_of("data", "data", "constant_rows")), "mean"),
        ((WRONG, "all", condition_of("data", "data", "one_hot")), "zeros"),
        ((WRONG, "all", condition_of("scalar", "eps", 1e-5)), "Is eps used as it was passed"),
        ((WRONG, "all", condition_of("scalar", "causal", True)), "only where causal is set"),
        ((WRONG, "all", condition_of("scalar", "causal", False)), "where causal is not set"),
        ((WRONG, "all", None, "lse[0] is nan, expected -inf"), "inf - inf"),
        ((WRONG, "all", condition_of("not_multiple", "n", 8)), "block of n masked"),
        ((Status.not_written, "all", condition_of("not_multiple", "n", 4)), "the last elements"),
        ((Status.not_finite, "all", condition_of("not_multiple", "n", 4)), "is rounded down"),
        ((WRONG, "tail", ABOVE_BLOCK), "every block of 1024 along cols"),
        ((WRONG, "all", ABOVE_BLOCK), "has a reduction all its steps"),
        ((WRONG, "all", condition_of("below", "n", 64)), "larger than n"),
        ((Status.not_finite, "all", ABOVE_BLOCK), "every block of 1024 along cols"),
        ((Status.not_finite, "all"), "what the output held before"),
    ],
)
def test_a_likely_mistake_gets_a_hint(arguments, word):
    text = said(*arguments)
    assert word in text
    assert text[0].isupper() or text.split()[0] in ("x", "out")
    assert text.endswith((".", "?"))
    assert "{" not in text


@pytest.mark.parametrize(
    ("status", "pattern", "condition"),
    [
        (WRONG, "scattered", None),
        (WRONG, "all", None),
        (WRONG, "one", condition_of("data", "data", "normal")),
        (WRONG, "all", condition_of("layout", "x", "contiguous")),
        (Status.crashed, "", None),
        (Status.timed_out, "", None),
        (Status.not_written, "scattered", None),
        (WRONG, "row", None),
        (WRONG, "all", condition_of("above", "rows", 1)),
    ],
)
def test_where_nothing_is_likely_nothing_is_said(status, pattern, condition):
    assert said(status, pattern, condition) == ""
