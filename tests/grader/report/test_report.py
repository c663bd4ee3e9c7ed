"""Reports: what a student reads, what programs read, and that untrusted text does no harm."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from grader import report
from grader.evidence import (
    Baseline,
    Evidence,
    Failure,
    LineCounters,
    MemoryEvidence,
    Metric,
    PartEvidence,
    PerformanceEvidence,
    SourceLine,
    VariantEvidence,
)
from grader.report.message import compose, failure_text, merge_failures, part_text
from grader.report.summary import total_line
from grader.sandbox import untrusted
from grader.sandbox.untrusted import clean, shorten_middle
from grader.scoring.score import RIGHT_BEFORE_MEMORY, score
from grader.spec import load_all
from grader.status import Status

DTYPES = ("float32", "float16", "bfloat16")
H100 = "NVIDIA H100 80GB HBM3"
UNTRUSTED = (
    "\x1b[2J\x1b]0;owned\x07\x9b31m[bold red]hi[/] [link=x]y ]]> <!-- </pre><script>alert(1)"
    '</script> & "quoted" \x00\x07\x08\r\x7f\ud800\ufffe\u202egnp.exe\u2028 {{ 7*7 }} :smile:'
)


def make_exercise(name, points):
    threshold = SimpleNamespace(
        speed_vs="torch", at_least=0.9, milliseconds=None, points=points["performance"]
    )
    timed = SimpleNamespace(
        steps=(threshold,),
        every_case=({"rows": 8, "dtype": "float32"},),
        device=None,
        beside=False,
        by_gpu={},
        calibrated_on=(),
        on=lambda device: timed,
    )
    variant = SimpleNamespace(
        name="triton",
        file=f"{name}.py",
        dtypes=DTYPES,
        points=points,
        size_classes=tuple(key for key in points if key != "performance"),
        performance=timed,
        timed=timed,
        bonus=False,
    )
    by_name = {"triton": variant}
    names = {"name": name, "title": name.title(), "gpu": ""}
    return SimpleNamespace(**names, variants=by_name, graded=by_name)


CASE = "rows=8 dtype=float32 seed=7"

SPECS = {
    "rmsnorm": make_exercise("rmsnorm", {"aligned": 1.5, "ragged": 1.5, "performance": 2.0}),
    "silu": make_exercise("silu", {"aligned": 1.5, "performance": 0.5}),
}


def make_failure(dtype="float16", **changes):
    fields = {
        "status": Status.wrong_values,
        "case": f"rows=1 cols=1025 dtype={dtype} seed=7",
        "what": "out[0, 1024] is nan, expected 0.173; the other 1024 elements agree",
        "pattern": "every case with cols <= 1024 passes",
        "hint": "does the kernel loop over, or mask, columns past one block?",
        "reproduce": f"grader check rmsnorm --case 'rows=1 cols=1025 dtype={dtype} seed=7'",
    }
    return Failure(**(fields | changes))


def make_variant(name, failing=None, performance=None, **changes):
    """A variant that passes but for `failing`: {(size class, dtype): Failure or Status}."""
    parts = []
    for size_class in SPECS[name].variants["triton"].size_classes:
        for dtype in DTYPES:
            found = (failing or {}).get((size_class, dtype), Status.passed)
            if isinstance(found, Failure):
                part = PartEvidence(dtype, size_class, found.status, 40, 9, (found,))
            else:
                part = PartEvidence(dtype, size_class, found, 40, reason=changes.get("reason", ""))
            parts.append(part)
    performance = performance or PerformanceEvidence(Status.not_measured, reason="no GPU")
    return VariantEvidence(
        name, "triton", f"{name}.py", parts=tuple(parts), performance=performance
    )


def make_evidence(*variants, gpu=None, **changes):
    environment = {"gpu": gpu, "sandbox": "bubblewrap", "versions": {"torch": "2.13.0"}}
    fields = {"submission": "assignment", "seed": 7, "environment": environment}
    return Evidence(variants=variants or (make_variant("rmsnorm"),), **(fields | changes))


def untouched(*names):
    return tuple(
        VariantEvidence(name, "triton", f"{name}.py", not_attempted="the stub is as it was given")
        for name in names
    )


def in_terminal(evidence, width=80, **console) -> str:
    file = io.StringIO()
    report.to_terminal(evidence, score(evidence, SPECS), Console(file=file, width=width, **console))
    return file.getvalue()


def in_html(evidence) -> str:
    return report.to_html(evidence, score(evidence, SPECS))


def in_junit(evidence) -> ET.Element:
    return ET.fromstring(report.to_junit(evidence, score(evidence, SPECS)).encode())


def in_json(evidence) -> dict:
    return json.loads(report.to_json(evidence, score(evidence, SPECS)), parse_constant=pytest.fail)


def total(evidence) -> str:
    return total_line(score(evidence, SPECS))


def unwrapped(text: str) -> str:
    return " ".join(text.split())


BROKEN = make_evidence(
    make_variant("rmsnorm", {("ragged", dtype): make_failure(dtype) for dtype in DTYPES}),
    make_variant("silu", {("aligned", "float16"): Status.grader_error}, reason="the oracle broke"),
)


# The message of one failure


def test_a_message_has_its_four_parts_and_ends_in_the_line_that_repeats_it():
    assert failure_text("rmsnorm", "triton", make_failure()) == (
        "rmsnorm/triton: wrong values for rows=1, cols=1025, float16 (smallest failing case "
        "found). out[0, 1024] is nan, expected 0.173; the other 1024 elements agree. Every case "
        "with cols <= 1024 passes: does the kernel loop over, or mask, columns past one block? "
        "Reproduce: grader check rmsnorm --case 'rows=1 cols=1025 dtype=float16 seed=7'"
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"where": "rmsnorm.py:23", "pattern": "", "hint": ""},
            "rmsnorm/triton: wrong values at rmsnorm.py:23 for rows=1, cols=1025, float16 "
            "(smallest failing case found). out[0, 1024] is nan, expected 0.173; the other 1024 "
            "elements agree.",
        ),
        (
            {"case": "", "what": "no module named trition.", "pattern": "", "hint": "a typo"},
            "rmsnorm/triton: wrong values. No module named trition. A typo.",
        ),
        (
            {"case": "n=3", "what": "it varies", "pattern": "", "occurrences": "wrong in 3 of 10"},
            "rmsnorm/triton: wrong values for n=3 (smallest failing case found). It varies. Wrong "
            "in 3 of 10. Does the kernel loop over, or mask, columns past one block?",
        ),
    ],
)
def test_a_part_of_a_message_that_is_not_known_leaves_no_gap(changes, expected):
    failure = make_failure(reproduce="", **changes)
    assert failure_text("rmsnorm", "triton", failure) == expected


def test_a_part_without_a_failure_says_its_reason():
    part = PartEvidence("float16", "ragged", Status.not_measured, reason="bfloat16 dot")
    assert part_text("rmsnorm", "triton", part) == (
        "rmsnorm/triton: not measured here. bfloat16 dot."
    )
    named = replace(part, reason="cudaFree is called twice")
    assert part_text("rmsnorm", "triton", named).endswith(" cudaFree is called twice.")
    passed = PartEvidence("float16", "ragged", Status.passed)
    assert part_text("rmsnorm", "triton", passed) == ""


def test_every_status_makes_a_message():
    for status in Status:
        text = failure_text("rmsnorm", "triton", make_failure(status=status))
        assert text.startswith(f"rmsnorm/triton: {status.headline} for rows=1")


def make_part(dtype, size_class, **changes):
    failure = make_failure(dtype, **changes)
    return PartEvidence(dtype, size_class, failure.status, 40, 9, (failure,))


def test_failures_that_differ_in_numbers_and_dtypes_only_are_one_and_the_smallest_stands():
    parts = [
        make_part("float32", "ragged", what="out[0, 3] is 1.5, expected -2e-3 in float32"),
        make_part("float16", "ragged", what="out[0, 9] is 2, expected 7 in float16"),
        make_part("float16", "aligned", case="rows=1 cols=2 dtype=float16 seed=99999"),
        make_part("float16", "small", what="out[0, 1] is 2, expected 1 in float16", case="rows=3"),
    ]
    first, second = merge_failures(parts)
    assert first.failure is parts[3].failures[0]
    assert first.places == (("ragged", "float32"), ("ragged", "float16"), ("small", "float16"))
    assert second.places == (("aligned", "float16"),)


def test_how_many_cases_were_tried_does_not_keep_failures_apart():
    failures = {
        (size_class, "float32"): make_failure("float32", pattern=f"Every case fails ({n} tried).")
        for size_class, n in (("aligned", 21), ("ragged", 40))
    }
    [merged] = merge_failures(make_variant("rmsnorm", failures).parts)
    assert merged.places == (("aligned", "float32"), ("ragged", "float32"))


@pytest.mark.parametrize(
    ("dtypes", "told"),
    [
        (["float16"], "Every float16 case fails (9 tried)."),
        (["float32", "float16"], "Every float32 and float16 case fails (9 tried)."),
        (["float32", "float16", "bfloat16"], "Every case fails (9 tried)."),
    ],
)
def test_where_every_case_fails_the_dtypes_are_named_unless_it_is_all_of_them(dtypes, told):
    failures = {
        (size_class, dtype): make_failure(dtype, pattern=f"Every {dtype} case fails (9 tried).")
        for dtype in dtypes
        for size_class in ("aligned", "ragged")
    }
    [merged] = merge_failures(make_variant("rmsnorm", failures).parts)
    assert merged.failure.pattern == told
    assert len(merged.places) == 2 * len(dtypes)


@pytest.mark.parametrize(
    ("passing", "told"),
    [
        ("float32", "Every case of ragged fails (9 tried)."),
        ("float16", "Every case fails (9 tried)."),  # of another dtype
    ],
)
def test_where_other_size_classes_pass_that_of_every_case_is_named(passing, told):
    failure = make_failure("float32", pattern="Every case fails (9 tried).")
    failing = PartEvidence("float32", "ragged", failure.status, 9, 9, (failure,))
    [merged] = merge_failures((failing, PartEvidence(passing, "aligned", Status.passed, 4, 0)))
    assert merged.failure.pattern == told


def test_a_traceback_shows_the_students_frames_and_none_of_the_graders():
    detail = (
        "Traceback (most recent call last):\n"
        '  File "/opt/course/grader/worker/baseline_host.py", line 9, in _call\n'
        "    entry(*arguments)\n"
        '  File "/tmp/warpgrade-x1/submission/silu.py", line 52, in silu\n'
        "    y = z[3]\n"
        "Extension modules: numpy._core (total: 1)\n"
        "IndexError: 3"
    )
    assert compose("silu", "triton", make_failure(detail=detail)).detail == (
        "Traceback (most recent call last):\n"
        '  File "silu.py", line 52, in silu\n'
        "    y = z[3]\n"
        "IndexError: 3"
    )


def test_a_traceback_of_ours_keeps_its_lines():
    failing = make_variant(
        "silu", {("aligned", "float16"): Status.grader_error}, reason="Traceback:\n  line 3\nBoom"
    )
    shown = in_terminal(make_evidence(failing))
    assert [line.strip() for line in shown.splitlines() if line.strip() in {"line 3", "Boom"}] == [
        "line 3",
        "Boom",
    ]


def test_how_often_is_said_once():
    what = "the same case was wrong in 3 of 10 runs (wrong values: it varies)"
    failure = make_failure(what=what, occurrences="wrong in 3 of 10 runs")
    assert compose("silu", "triton", failure).text.lower().count("wrong in 3 of 10 runs") == 1


def test_what_a_compiler_asks_ends_as_it_does():
    failure = make_failure(what="'a' was not declared; did you mean 'b'?")
    text = unwrapped(failure_text("rmsnorm", "triton", replace(failure, cause="`a` is unknown.")))
    assert "did you mean 'b'?" in text and "?." not in text


def test_what_to_do_about_a_cause_does_not_follow_from_which_cases_fail():
    pattern = "Every case with n > 4 fails (2 tried); every other case passes (3 tried)."
    failure = make_failure(pattern=pattern, hint="is it?")
    assert "passes (3 tried): is it?" in compose("silu", "triton", failure).body
    failure = make_failure(pattern=pattern, hint="mend it", cause="`a` is wrong")
    assert "passes (3 tried). Mend it." in compose("silu", "triton", failure).body


def test_what_was_not_measured_is_no_smallest_failure():
    message = compose("silu", "triton", make_failure(status=Status.not_measured))
    assert "smallest failing case" not in message.headline


def test_a_case_that_was_asked_for_is_not_called_the_smallest_found():
    message = compose("rmsnorm", "triton", make_failure(), given=True)
    assert message.headline == "rmsnorm/triton: wrong values for rows=1, cols=1025, float16."


def test_a_part_that_fails_as_another_does_is_a_line():
    told = {}
    parts = [make_part("float16", "ragged"), make_part("float32", "ragged")]
    parts += [make_part("float32", "aligned", hint="another one")]
    first, second, third = (report.part_block("a", "b", part, 80, told) for part in parts)
    assert second == "a/b: fails as float16 ragged does, which is shown in full."
    assert len(first.splitlines()) > 4 < len(third.splitlines())


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_part_in_lines_fits_but_for_the_line_to_paste(width):
    part = PartEvidence("float16", "ragged", Status.wrong_values, 9, 1, (make_failure(detail="x"),))
    lines = report.part_block("rmsnorm", "triton", part, width).splitlines()
    assert lines[-1].strip() == part.failures[0].reproduce
    assert all(len(line) <= width for line in lines[:-1])
    assert unwrapped(" ".join(lines)) == part_text("rmsnorm", "triton", part)


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        (Status.passed, "", ""),
        (Status.timed_out, "3 s were over", "rmsnorm/triton: ran out of time. 3 s were over."),
        (Status.grader_error, "Boom", "THE GRADER FAILED on rmsnorm/triton: ragged float16"),
    ],
)
def test_a_part_in_lines_without_a_failure_says_its_reason(status, reason, said):
    part = PartEvidence("float16", "ragged", status, reason=reason)
    shown = report.part_block("rmsnorm", "triton", part, 80)
    assert shown.startswith(said)
    assert bool(shown) == bool(said)
    assert reason in shown


@pytest.mark.parametrize("render", [in_terminal, in_html])
def test_what_is_wrong_at_a_large_size_is_told_and_costs_nothing(render):
    found = make_failure(
        status=Status.launch_error,
        case="rows=4194304 cols=1 dtype=float16 seed=7",
        where="rmsnorm.py:31",
        what="kernel is launched on 4,194,304 programs in y; at most 65,535 are possible.",
    )
    evidence = make_evidence(replace(make_variant("rmsnorm"), at_large_sizes=(found,)))
    shown = unwrapped(render(evidence))
    words = "at a large size, which costs no points: kernel launch failed at rmsnorm.py:31"
    assert words in shown and "at most 65,535 are possible." in shown
    assert total(evidence) == total(make_evidence(make_variant("rmsnorm")))
    [row] = in_json(evidence)["exercises"][0]["variants"]
    assert [each["where"] for each in row["at_large_sizes"]] == ["rmsnorm.py:31"]


def test_failures_with_another_pattern_or_status_stay_apart():
    parts = [
        make_part("float32", "ragged"),
        make_part("float16", "ragged", pattern="every case with cols <= 64 passes"),
        make_part("bfloat16", "ragged", status=Status.not_finite),
    ]
    assert len(merge_failures(parts)) == 3


def test_a_failure_that_explains_nothing_is_counted_to_one_of_its_status_that_does():
    bare = {"pattern": "", "hint": ""}
    parts = [
        make_part("float32", "small", **bare),
        make_part("float32", "ragged", what="all 9 elements are wrong"),
        make_part("float16", "ragged", status=Status.not_finite, **bare),
        make_part("bfloat16", "ragged", what="one is wrong", **bare),
        make_part("bfloat16", "small", pattern="every case fails (5 tried)"),
        make_part("bfloat16", "aligned", pattern="every case fails (5 tried)", hint="Another."),
        make_part(
            "float16", "aligned", pattern="", what="all are wrong", hint="Another.", case="n=1"
        ),
    ]
    first, second, third = merge_failures(parts)
    assert first.failure is parts[1].failures[0]
    assert first.places == (
        ("small", "float32"),
        ("ragged", "float32"),
        ("ragged", "bfloat16"),
        ("small", "bfloat16"),
    )
    assert second.places == (("ragged", "float16"),)
    assert third.places == (("aligned", "bfloat16"), ("aligned", "float16"))
    assert third.failure is parts[-1].failures[0]


@pytest.mark.parametrize(
    ("cause", "count"),
    [
        ("float32 inputs of `tl.dot` are rounded to TF32", 2),
        ("`y.to(tl.float16)` rounds", 1),
        ("`a` stands where `b` belongs", 1),
    ],
)
def test_a_cause_explains_other_dtypes_but_where_it_names_its_own(cause, count):
    parts = [make_part("float32", "ragged", cause=cause), make_part("float16", "ragged")]
    merged = merge_failures(parts)
    assert [each.failure.cause for each in merged] == [cause, ""][:count]
    assert merged[0].places == (("ragged", "float32"), ("ragged", "float16"))[: 3 - count]


@pytest.mark.parametrize(("dtype", "count"), [("float32", 2), ("float16", 1)])
def test_why_a_kernel_does_not_compile_explains_no_elements_of_another_dtype(dtype, count):
    cause = "The operands of `tl.dot` need one dtype"
    parts = [
        make_part("float16", "ragged", status=Status.compile_error, cause=cause),
        make_part(dtype, "aligned", status=Status.not_written),
    ]
    merged = merge_failures(parts)
    assert [each.failure.cause for each in merged] == [cause, ""][:count]


def test_what_different_exceptions_say_is_told_for_each():
    parts = [
        make_part(dtype, "ragged", status=Status.crashed, what=what, pattern="", hint="")
        for dtype, what in (("float32", "KeyError: a"), ("float16", "ValueError: b"))
    ]
    assert len(merge_failures(parts)) == 2


def test_the_middle_of_long_output_goes_and_its_ends_stay():
    text = shorten_middle("first error\n" + "x" * 10_000 + "\nlast line", 300)
    assert len(text) < 400
    assert text.startswith("first error")
    assert text.endswith("last line")
    assert "more" in text


# Totals and first steps


def test_the_total_says_what_a_gpu_would_add():
    both = make_evidence(make_variant("rmsnorm"), make_variant("silu"))
    assert total(both) == "earned 4.5 of 4.5 gradable here; 2.5 more need a GPU"


def test_the_total_names_what_was_not_decided_and_why():
    assert total(BROKEN) == (
        "earned 2.5 of 4 gradable here; 2.5 more need a GPU; "
        "0.5 more could not be decided because the grader failed"
    )
    part = {("ragged", "bfloat16"): Status.not_measured}
    unmeasured = make_evidence(make_variant("rmsnorm", part, reason="bfloat16 dot is broken"))
    assert total(unmeasured) == (
        "earned 2.5 of 2.5 gradable here; 2 more need a GPU; "
        "0.5 more could not be measured here (bfloat16 dot is broken)"
    )
    slow = PerformanceEvidence(Status.implausible_time)
    waiting = make_evidence(make_variant("rmsnorm", performance=slow), gpu=H100)
    assert total(waiting).endswith("; 2 more wait for a person to look at the timing")


def test_the_total_is_plain_where_all_was_gradable():
    fast = PerformanceEvidence(
        Status.passed,
        device=H100,
        case=CASE,
        microseconds=9.0,
        baselines=(Baseline("torch", 9.0, 1.0),),
    )
    assert total(make_evidence(make_variant("rmsnorm", performance=fast), gpu=H100)) == (
        "earned 5 of 5"
    )


@pytest.mark.parametrize("render", [in_terminal, in_html])
def test_an_untouched_assignment_says_zero_and_what_to_do_first(render):
    text = unwrapped(render(make_evidence(*untouched("rmsnorm", "silu"))))
    assert "arned 0 of 4.5 gradable here" in text
    assert "Not attempted" in text
    assert "not attempted: the stub is as it was given" in text
    assert (
        "Start with silu: open assignment/silu.py, fill in the TODO, then run: pytest -k silu"
        in text
    )


def test_the_first_step_names_the_folder_that_was_graded():
    text = unwrapped(in_terminal(make_evidence(*untouched("silu"), submission="mine/kernels")))
    assert "open mine/kernels/silu.py" in text
    assert "pytest -k silu --submission=mine/kernels" in text


def test_the_first_step_in_a_course_of_ones_own_is_a_command_of_the_grader():
    evidence = make_evidence(*untouched("silu"))
    here = replace(evidence, environment={**evidence.environment, "course": "."})
    text = unwrapped(in_terminal(here))
    assert "then run: grader check silu" in text
    assert "pytest" not in text


@pytest.mark.parametrize("render", [in_terminal, in_html])
def test_an_interrupted_run_says_so(render):
    line = "This run was interrupted"
    assert line in render(make_evidence(complete=False))
    assert line not in render(make_evidence())


@pytest.mark.parametrize("render", [in_terminal, in_html])
def test_a_failing_grader_is_loud_and_costs_nothing(render):
    text = unwrapped(render(BROKEN))
    assert re.search("the grader failed on silu/triton: aligned float16", text, re.IGNORECASE)
    assert "it costs no points. Please report it" in text
    assert "the oracle broke" in text
    assert not re.search("the grader failed on", render(make_evidence()), re.IGNORECASE)


# Terminal


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal_but_commands_that_must_paste_whole(width):
    text = in_terminal(BROKEN, width)
    wide = [line for line in text.splitlines() if len(line) > width]
    assert all(line.startswith("  grader check ") for line in wide)
    command = "  grader check rmsnorm --case 'rows=1 cols=1025 dtype=float32 seed=7'"
    assert command in text.splitlines()


@pytest.mark.parametrize("width", [60, 80])
def test_the_terminal_shows_words_points_and_the_message_without_colour(width):
    text = in_terminal(BROKEN, width, no_color=True, force_terminal=True)
    flat = unwrapped(re.sub(r"\x1b\[[0-9;]*m", "", text))
    assert "ragged wrong values 0/1.5" in flat
    assert "aligned passed 1.5/1.5" in flat
    assert re.search(r"performance not measured here: needs a( GPU)? -/2", flat)
    assert "rmsnorm/triton: wrong values for rows=1, cols=1025, float32 (smallest" in flat
    assert "Every case with cols <= 1024 passes: does the kernel loop over" in flat
    assert "Fails in ragged for float32, float16 and bfloat16." in flat
    assert flat.count("does the kernel loop over") == 1
    assert "sandbox: bubblewrap" in flat


def test_nothing_coloured_reaches_a_pipe():
    assert "\x1b" not in in_terminal(BROKEN, force_terminal=False)


def test_different_failures_in_one_check_are_both_named():
    failing = {
        ("ragged", "float16"): make_failure(),
        ("ragged", "float32"): make_failure("float32", status=Status.timed_out),
    }
    flat = unwrapped(in_terminal(make_evidence(make_variant("rmsnorm", failing)), 120))
    assert "ran out of time: float32; wrong values: float16; passed: bfloat16 0.5/1.5" in flat


def test_a_score_just_short_of_the_maximum_is_not_shown_as_the_maximum():
    specs = {"rmsnorm": make_exercise("rmsnorm", {"aligned": 0.003, "performance": 0.0})}
    specs["rmsnorm"].variants["triton"].points["ragged"] = 9.0
    specs["rmsnorm"].variants["triton"].size_classes = ("aligned", "ragged")
    parts = [PartEvidence(dtype, "ragged", Status.passed) for dtype in DTYPES]
    parts += [PartEvidence(dtype, "aligned", Status.wrong_values) for dtype in DTYPES]
    seen = VariantEvidence("rmsnorm", "triton", "rmsnorm.py", parts=tuple(parts))
    grade = score(Evidence("assignment", 7, (seen,), {"gpu": H100}), specs)
    assert total_line(grade).startswith("earned 9 of 9.003")


def test_many_kinds_of_failure_are_cut_and_counted_in_the_terminal_but_not_in_html():
    parts = tuple(
        PartEvidence(dtype, size_class, Status.wrong_values, 1, 1, failures)
        for size_class in ("aligned", "ragged")
        for dtype in DTYPES
        for failures in [(make_failure(dtype, pattern=f"pattern {size_class} of {dtype}"),)]
    )
    evidence = make_evidence(VariantEvidence("rmsnorm", "triton", "rmsnorm.py", parts=parts))
    assert "Also seen: more of this kind. --verbose" in in_terminal(evidence)
    assert in_terminal(evidence).count("Reproduce:") == 1
    assert in_html(evidence).count('<article class="failure">') == 6


def message_lines(failure, width=80, verbose=False) -> list[str]:
    """The lines of a variant's one message that aren't empty."""
    evidence = make_evidence(make_variant("rmsnorm", {("ragged", "float16"): failure}))
    file = io.StringIO()
    report.to_terminal(
        evidence, score(evidence, SPECS), Console(file=file, width=width), verbose=verbose
    )
    lines = [line for line in file.getvalue().splitlines() if not line.startswith("Earned")]
    start = next(i for i, line in enumerate(lines) if line.startswith("rmsnorm/triton: "))
    return [line for line in lines[start:] if line]


ONE_SENTENCE = st.integers(1, 45).map(lambda words: "what it says " * words + "ends")
SHORT_SENTENCE = st.integers(1, 15).map(lambda words: "so it is " * words + "here")


@settings(deadline=None, max_examples=60)
@given(
    width=st.sampled_from((80, 96, 120)),
    what=ONE_SENTENCE,
    cause=st.just("") | SHORT_SENTENCE,
    hint=st.just("") | SHORT_SENTENCE,
    code=st.lists(st.just(SourceLine(7, "x = y", "thread (0,0,0) writes", 4, 1)), max_size=6),
    detail=st.integers(0, 30).map(lambda lines: "a line of a compiler\n" * lines),
)
def test_a_message_has_at_most_twelve_lines(width, what, cause, hint, code, detail):
    failure = make_failure(what=what, cause=cause, hint=hint, code=tuple(code), detail=detail)
    lines = message_lines(failure, width)
    assert len(lines) <= 12, lines
    told = unwrapped("\n".join(lines))
    assert (cause or "wrong values") in told
    assert lines[-1] == f"  {failure.reproduce}"
    if code:
        assert "7 | x = y" in told and "^" in told
    elif detail:
        assert "a line of a compiler" in told
    assert len(message_lines(failure, width, verbose=True)) >= len(lines)


def test_of_further_lines_that_break_rules_the_first_are_shown():
    rows = [f"silu.cu:{line}: system is a service of the system" for line in range(10, 20)]
    detail = "\n".join(["It breaks rules in other lines too:", *rows])
    lines = message_lines(make_failure(status=Status.policy_violation, detail=detail))
    start = next(i for i, line in enumerate(lines) if "in other lines too" in line)
    assert "silu.cu:10:" in lines[start + 1]
    assert "--verbose shows all" in lines[start + 3]


def test_a_long_message_keeps_its_cause_its_place_and_what_to_do():
    lines = message_lines(
        make_failure(
            cause="`a[i]` stands where `a[j]` belongs, as it does in the other kernel; " * 3
            + "or so",
            what="Thread (0,0,0) reads what nothing has written. " * 8,
            hint="With that mended the failing cases that were tried are right",
            where="rmsnorm.py:7",
            code=(SourceLine(7, "x = a[i]", "", 4, 4),),
        )
    )
    told = unwrapped("\n".join(lines))
    assert len(lines) <= 12 and "7 | x = a[i]" in told
    assert "belongs" in told and "Wrong values at rmsnorm.py:7 for" in told
    assert "nothing has written" not in told and "With that mended" in told


def test_a_line_of_code_that_the_window_cuts_ends_in_an_ellipsis():
    text = "sums[row] = " + " + ".join(f"x[{number}]" for number in range(10))
    lines = message_lines(make_failure(code=(SourceLine(7, text, "", 0, 4),)), 60)
    [line] = [each for each in lines if "7 |" in each]
    assert line.endswith("…") and len(line) == 60


@pytest.mark.parametrize("note", ["", "thread (0,0,0) writes"])
def test_a_long_message_without_a_cause_ends_in_what_to_do(note: str) -> None:
    many = " The same happened 31 times there; this was the first."
    what = "Thread (1,0,0) writes 4 bytes, which another one reads. " * (8 if note else 1)
    failure = make_failure(
        what=f"{what.strip()}{many}",
        hint="Put a barrier between them, and one more before the next round. "
        * (1 if note else 3),
        code=tuple(SourceLine(line, "part[t] += 1;", note, 0, 4) for line in (7, 8)),
    )
    told = unwrapped("\n".join(message_lines(failure)))
    assert told.count("Put a barrier") == (1 if note else 3) and "verbose" not in told
    assert "31 times" not in told and ("Thread (1,0,0)" in told) != bool(note)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("Thread 0 reads 4 bytes of tile, at rmsnorm.py:7.", "Thread 0 reads 4 bytes of tile."),
        ("Thread 0 waits at rmsnorm.py:7, where 1 never is.", "Thread 0 waits, where 1 never is."),
        ("It reads at rmsnorm.py:7 what it writes at rmsnorm.py:9.", None),
        ("It reads what it wrote at rmsnorm.py:71.", None),
    ],
)
def test_a_place_is_said_once(what, told):
    message = compose("rmsnorm", "triton", make_failure(what=what, where="rmsnorm.py:7"))
    assert (told or what) in message.body


def test_text_the_console_cannot_encode_is_replaced():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    evidence = make_evidence(
        make_variant("rmsnorm", {("ragged", "float16"): make_failure(what="caf\xe9 \u4f60")})
    )
    report.to_terminal(evidence, score(evidence, SPECS), Console(file=file, width=80))
    file.flush()
    assert b"Caf? ?" in file.buffer.getvalue()


def test_a_run_over_nothing_says_so():
    nothing = Evidence("assignment", 7, (), {"gpu": None})
    assert "Nothing was graded" in in_terminal(nothing)
    assert "Nothing was graded" in in_html(nothing)
    assert in_junit(nothing).get("tests") == "0"


# JSON


def test_the_json_has_the_schema_that_others_build_on():
    data = in_json(BROKEN)
    top = {"schema": int, "submission": str, "seed": int, "environment": dict, "exercises": list}
    points = {"score": float, "gradable": float, "max_score": float}
    bonus = {"bonus": float, "gradable_bonus": float, "max_bonus": float}
    levels = [
        ([data], top | points | bonus),
        (data["exercises"], {"name": str, "variants": list} | points | bonus),
        (
            [v for e in data["exercises"] for v in e["variants"]],
            {"name": str, "status": str, "is_bonus": bool, "checks": list} | points,
        ),
        (
            [c for e in data["exercises"] for v in e["variants"] for c in v["checks"]],
            {"name": str, "status": str, "message": str} | points,
        ),
    ]
    for rows, fields in levels:
        assert rows
        for row in rows:
            assert {name: type(row[name]) for name in fields} == fields
            assert "status" not in row or row["status"] in Status.__members__
    assert data["schema"] == 1
    assert data["environment"]["gpu"] is None
    assert data["environment"]["sandbox"] == "bubblewrap"


def test_the_json_carries_the_message_the_parts_and_the_failures():
    aligned, ragged, performance = in_json(BROKEN)["exercises"][0]["variants"][0]["checks"]
    assert (aligned["status"], aligned["score"], aligned["message"]) == ("passed", 1.5, "")
    assert ragged["message"] == failure_text("rmsnorm", "triton", make_failure("float32"))
    assert [part["dtype"] for part in ragged["parts"]] == list(DTYPES)
    assert ragged["parts"][0]["cases_failed"] == 9
    assert ragged["failures"][0]["status"] == "wrong_values"
    assert performance["message"] == "Needs a GPU."


def test_every_timed_case_is_in_json_and_html():
    other = PerformanceEvidence(Status.passed, case="rows=1", microseconds=4.0, bytes=4000)
    timed = PerformanceEvidence(
        Status.passed, case="rows=9", microseconds=2.0, bytes=4000, further=(other,)
    )
    evidence = make_evidence(make_variant("rmsnorm", performance=timed), gpu=H100)
    data = in_json(evidence)["exercises"][0]["variants"][0]["checks"][-1]["performance"]
    assert data["gigabytes_per_second"] == 2.0
    assert [each["gigabytes_per_second"] for each in data["further"]] == [1.0]


def test_numbers_json_does_not_have_become_null():
    slow = PerformanceEvidence(
        Status.passed,
        microseconds=2.0,
        bytes=4000,
        baselines=(Baseline("torch", 1.0, float("nan")),),
    )
    data = in_json(make_evidence(make_variant("rmsnorm", performance=slow), gpu=H100))
    timing = data["exercises"][0]["variants"][0]["checks"][-1]["performance"]
    assert timing["baselines"][0]["ratio"] is None
    assert timing["gigabytes_per_second"] == 2.0


# JUnit


def test_junit_has_a_suite_per_exercise_and_a_case_per_part():
    root = in_junit(BROKEN)
    assert [suite.get("name") for suite in root] == ["rmsnorm", "silu"]
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert len(cases) == 11
    assert len(cases["rmsnorm-triton-float32-aligned"]) == 0
    failure = cases["rmsnorm-triton-float32-ragged"].find("failure")
    assert failure.get("type") == "wrong_values"
    assert failure.get("message") == failure_text("rmsnorm", "triton", make_failure("float32"))
    assert cases["silu-triton-float16-aligned"].find("error") is not None
    assert cases["rmsnorm-triton-performance"].find("skipped") is not None
    counts = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "11", "failures": "3", "errors": "1", "skipped": "2"}


def test_junit_skips_what_was_not_attempted_and_says_why():
    root = in_junit(make_evidence(*untouched("silu")))
    messages = {case.find("skipped").get("message") for case in root.iter("testcase")}
    assert messages == {"The stub is as it was given."}
    assert root.get("failures") == "0"


def test_junit_does_not_count_a_wrong_kernel_as_a_slow_one_too():
    failing = {("ragged", "float16"): make_failure()}
    root = in_junit(make_evidence(make_variant("rmsnorm", failing), gpu=H100))
    assert root.get("failures") == "1"
    slow = PerformanceEvidence(
        Status.passed, case=CASE, microseconds=9.0, baselines=(Baseline("torch", 1.0, 0.1),)
    )
    root = in_junit(make_evidence(make_variant("rmsnorm", performance=slow), gpu=H100))
    assert root.get("failures") == "1"
    assert root.find(".//failure").get("type") == "target_missed"


# HTML


class _Page(HTMLParser):
    """Collects tags, attributes and text, and that every tag is closed in order."""

    VOID = frozenset({"meta", "rect", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_html_page_stands_alone():
    page = _Page(in_html(BROKEN))
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "form", "base"}
    for _, attributes in page.tags:
        assert not {"src", "srcset", "onclick", "onload", "style"} & set(attributes)
        assert attributes.get("href", "#").startswith("#")
    assert "@import" not in in_html(BROKEN)
    assert "url(" not in in_html(BROKEN)


def test_the_html_page_is_accessible_and_made_for_phones_print_and_dark_rooms():
    text = in_html(BROKEN)
    page = _Page(text)
    assert page.all("html") == [{"lang": "en"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.all(
        "meta"
    )
    assert len(page.all("h1")) == len(page.all("title")) == 1
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
    assert "@media print" in text
    assert "prefers-color-scheme: dark" in text
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert {a["href"].removeprefix("#") for a in page.all("a")} == set(ids)


def test_the_html_page_shows_the_message_and_the_command():
    text = unwrapped(_Page(in_html(BROKEN)).text)
    assert "Earned 2.5 of 4 gradable here; 2.5 more need a GPU" in text
    assert "Every case with cols <= 1024 passes: does the kernel loop over" in text
    assert "grader check rmsnorm --case 'rows=1 cols=1025 dtype=float32 seed=7'" in text
    assert "<dt>GPU</dt><dd>none</dd>" in in_html(BROKEN)
    assert "<dd>torch: 2.13.0</dd>" in in_html(BROKEN)


def test_the_html_page_shows_what_was_timed():
    fast = PerformanceEvidence(
        Status.passed,
        device=H100,
        case=CASE,
        microseconds=93.1,
        bytes=268435456,
        baselines=(Baseline("torch", 93.2, 1.001),),
    )
    text = in_html(make_evidence(make_variant("rmsnorm", performance=fast), gpu=H100))
    assert f"Timed on {H100}: 93.1 us per call, 2883 GB/s." in text
    assert "2883 GB/s, 86 % of what this GPU&#39;s memory gives at most; bound by memory" in text
    assert "1.001 of torch&#39;s speed (target 0.9)" in text


def test_every_report_says_how_surely_it_was_measured():
    close = PerformanceEvidence(
        Status.passed,
        device=H100,
        case=CASE,
        microseconds=93.1,
        samples=27,
        earlier=("8 of 12 timed pairs are void: copy ran slower (8)",),
        voids={"slept in the short run": 2, "a time that is not above 0": 1},
        budget_ended=True,
        disturbed="torch took 4.0% longer beside the kernel than before it",
        baselines=(
            Baseline("torch", 93.2, 0.895, 0.886, 0.904),
            Baseline("roofline", 80.1, 0.86, 0.85, 0.87),
        ),
    )
    evidence = make_evidence(make_variant("rmsnorm", performance=close), gpu=H100)
    doubt = "(0.886 to 0.904; target 0.9): within the measurement's doubt, decided in your favour"
    assert doubt.partition(": ")[2] in unwrapped(in_terminal(evidence))
    text = unwrapped(_Page(in_html(evidence)).text)
    assert doubt in text
    assert "torch: 93.2 us; this kernel has 0.895 (0.886 to 0.904) of its speed." in text
    assert "roofline: 80.1 us; this kernel reaches 0.860 (0.850 to 0.870) of it." in text
    assert (
        "From 27 pairs; 3 more were void (slept in the short run, 2; a time that is not above 0, "
        "1); the time for it ended before everything was decided. torch took 4.0% longer beside "
        "the kernel than before it. Timed anew after noise: 8 of 12 timed pairs are void: copy ran "
        "slower (8)."
    ) in text
    check = in_json(evidence)["exercises"][0]["variants"][0]["checks"][-1]
    assert check["message"].startswith(f"0.895 of torch's speed {doubt}")
    assert check["performance"]["voids"]["slept in the short run"] == 2
    assert check["performance"]["baselines"][0]["high"] == 0.904


# Untrusted text


def untrusted_evidence(text):
    failure = make_failure(
        case=text, what=text, where=text, pattern=text, hint=text, occurrences=text, detail=text
    )
    broken = make_variant("silu", {("aligned", "float16"): Status.grader_error}, reason=text)
    performance = PerformanceEvidence(Status.crashed, reason=text, device=text, microseconds=1.0)
    return make_evidence(
        make_variant("rmsnorm", {("ragged", "float16"): failure}, performance),
        broken,
        *untouched(),
        submission=text,
        environment={"gpu": text, text: {text: text}, "list": [text]},
    )


_untrusted = st.one_of(
    st.text(st.characters(), max_size=60),  # includes control characters and lone surrogates
    st.text("\x1b[]();\\0m<>&\"'{}%\r\n\x07\x9b\u202e", max_size=60),
)


def assert_harmless(text):
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", text
    )
    text.encode("utf-8")


def test_untrusted_text_reaches_the_terminal_as_plain_text():
    text = in_terminal(untrusted_evidence(UNTRUSTED), 300)
    assert_harmless(text)
    assert "[bold red]hi[/]" in text
    assert ":smile:" in text


def test_untrusted_text_is_escaped_in_html():
    text = in_html(untrusted_evidence(UNTRUSTED))
    page = _Page(text)
    assert "<script" not in text
    assert "alert(1)</script>" in page.text
    assert "{{ 7*7 }}" in page.text
    assert_harmless(text)


def test_untrusted_text_leaves_xml_and_json_whole():
    evidence = untrusted_evidence(UNTRUSTED)
    failure = in_junit(evidence).find(".//failure")
    assert "alert(1)</script>" in failure.text
    data = in_json(evidence)
    assert "<script>" in data["exercises"][0]["variants"][0]["checks"][1]["message"]
    assert_harmless(json.dumps(data, ensure_ascii=False))


@settings(max_examples=60, deadline=None)
@given(_untrusted)
def test_no_text_breaks_any_report(text):
    evidence = untrusted_evidence(text)
    assert_harmless(in_terminal(evidence))
    assert_harmless(in_html(evidence))
    _Page(in_html(evidence))
    in_junit(evidence)
    in_json(evidence)


@given(st.text())
def test_cleaning_twice_changes_nothing_more(text):
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]0;title\x07", "link"),
        ("a\x1bcb\x1b", "ab"),
        ("a\r\nb\rc\td", "a\nb\nc    d"),
        ("\u202etxt\x00", "\ufffdtxt\ufffd"),
        ("caf\xe9 \u4f60\u597d", "caf\xe9 \u4f60\u597d"),
        ("::error file=a::b :\x1b[m:Add-Mask::0", "\ua789:error file=a::b \ua789:Add-Mask::0"),
        ("##[group]a ##vso[task.complete]", "\u266f#[group]a \u266f#vso[task.complete]"),
        ("::std::error_code a ## b", "::std::error_code a ## b"),
    ],
)
def test_cleaning_takes_control_away_and_leaves_the_text(text, expected):
    assert clean(text) == expected


def test_what_cuts_a_line_cleans_it_first():
    text = "\x1b[31ma\n\u202eb" + "c" * 2000
    assert untrusted.brief(text, 10) == "a \ufffdbcccc …"
    assert untrusted.one_line(text).startswith("a \ufffdbccc")


def test_cleaning_takes_time_in_proportion_to_the_text():
    """Many openings of terminal sequences that never end: each is read once, not to the end."""
    for opening in ("\x1b]", "\x1b[", "\x1b[0;", "\x1bP", "::", "::error ", "##"):
        assert "\x1b" not in clean(opening * 200_000)


def test_no_line_of_a_report_commands_the_service_that_runs_it():
    evidence = untrusted_evidence("a " * 30 + "::error file=x::y\n::stop-commands::z\n##[error]no ")
    for shown in (in_terminal(evidence), in_terminal(evidence, 40), in_html(evidence)):
        assert not re.search(r"^\s*::(error|stop)|##\[", shown, re.MULTILINE)
        assert "\ua789:error" in shown


def test_without_confinement_every_report_for_people_says_so():
    confined = replace(BROKEN, environment=BROKEN.environment | {"sandbox": "landlock"})
    limits = replace(BROKEN, environment=BROKEN.environment | {"sandbox": "limits"})
    for shown in (in_terminal, in_html):
        assert "no final grade" in unwrapped(shown(limits))
        assert "no final grade" not in unwrapped(shown(confined))


def test_every_report_for_people_says_which_cases_a_gpu_ran():
    environment = BROKEN.environment | {"cases_on_the_gpu": "each set of constants once"}
    for shown in (in_terminal, in_html):
        text = unwrapped(shown(replace(BROKEN, environment=environment)))
        assert "cases on the GPU" in text and "each set of constants once" in text


# Memory

TRANSPOSE = load_all()["transpose"]
COUNTED = MemoryEvidence(
    Status.passed,
    case="rows=256 cols=512 dtype=float32 seed=7",
    metrics=(
        Metric("useful_bytes_per_sector.load", 32.0),
        Metric("useful_bytes_per_sector.store", 32.0),
        Metric("shared_bank_conflicts", 126976.0),
        Metric("largest_share", 0.001),
        Metric("blocks", 128),
        Metric("simt_efficiency", 0.75),
    ),
    lines=(
        LineCounters(60, "k", "global", "load", 4096, sectors=16384, useful_bytes=524288),
        LineCounters(63, "k", "shared", "load", 4096, 0, 0, 131072, 126976, 32),
        LineCounters(64, "k", "shared", "store", 1, 0, 0, 4096),
    ),
)


def counted_evidence(name, counted=COUNTED, **changes):
    variant = TRANSPOSE.variants[name]
    parts = tuple(
        PartEvidence(dtype, size_class, Status.passed, 60)
        for size_class in variant.size_classes
        for dtype in variant.dtypes
    )
    seen = VariantEvidence("transpose", name, "transpose.cu", parts=parts, memory=counted)
    return make_evidence(replace(seen, **changes))


def reports_of(evidence):
    """The same grade in the terminal, in HTML and in JSON."""
    grade = score(evidence, {"transpose": TRANSPOSE})
    file = io.StringIO()
    report.to_terminal(evidence, grade, Console(file=file, width=90))
    return (
        file.getvalue(),
        report.to_html(evidence, grade),
        json.loads(report.to_json(evidence, grade)),
    )


def test_memory_that_is_good_enough_is_told_with_what_the_next_rung_asks():
    text, page, data = reports_of(counted_evidence("cuda_v3"))
    assert "Shared loads conflict 32 ways at transpose.cu:63:" in unwrapped(text)
    assert "126,976 extra wavefronts; cuda_v4 asks for none." in unwrapped(text)
    assert "memory by line" not in text
    assert '<th scope="row">transpose.cu:63</th><td>shared load</td>' in page
    check = data["exercises"][0]["variants"][0]["checks"][-1]
    assert (check["name"], check["status"]) == ("memory", "passed")
    assert "Stores use 32 of 32 bytes per sector." in check["message"]
    assert check["memory"]["lines"][1]["ways"] == 32
    assert check["memory"]["observed_by"] == "worker"


def test_checking_tells_how_work_is_shared_before_points_hang_on_it():
    seen = counted_evidence("cuda_v3").variants[0]
    shown = []
    for variant in (TRANSPOSE.variants["cuda_v3"], None):
        file = io.StringIO()
        report.check_to_terminal(seen, Console(file=file, width=90), variant=variant)
        shown.append(unwrapped(file.getvalue()))
    assert "transpose/cuda_v3: how work is shared Of the bytes that the case needs" in shown[0]
    assert (
        "The largest launch has 128 blocks that store. 75 % of a warp's threads take part"
        in shown[0]
    )
    assert "take part in its accesses to memory (not scored)." in shown[0]
    assert "how work is shared" not in shown[1]


def test_of_a_variant_without_a_kernel_no_shares_of_work_are_told():
    seen = counted_evidence("cuda_v3").variants[0]
    seen = replace(seen, memory=replace(seen.memory, lines=()))
    assert report.summary.shared_work(seen, TRANSPOSE.variants["cuda_v3"]) == []


def test_memory_that_falls_short_is_told_line_by_line():
    text, _, _ = reports_of(counted_evidence("cuda_v4"))
    assert "asked for: none" in unwrapped(text)
    assert "transpose/cuda_v4: memory by line" in text
    lines = [line.strip() for line in text.splitlines()]
    assert (
        "transpose.cu:60  global load: 32 of 32 bytes per sector, 16,384 sectors, 4,096 requests"
        in (lines)
    )
    assert (
        "transpose.cu:63  shared load: 32 ways: 126,976 extra wavefronts, 4,096 requests" in lines
    )
    assert "transpose.cu:64  shared store: no bank conflicts, 1 request" in lines


def test_accesses_that_use_little_of_their_sectors_are_told_with_what_to_do():
    first, *others = COUNTED.lines
    wide = replace(COUNTED, lines=(replace(first, useful_bytes=first.sectors * 4), *others))
    text, *_ = reports_of(counted_evidence("cuda_v4", wide))
    said = "transpose.cu:60: most bytes of each sector are moved for nothing, and cost time."
    beside = " Let what neighbouring threads access lie side by side in memory."
    assert said + beside in unwrapped(text)
    in_triton = replace(counted_evidence("triton_v4", wide).variants[0], file="transpose.py")
    told = report.summary.wasted_sectors(in_triton)
    assert told.endswith(" Let the elements of a block lie side by side in memory.")
    few = replace(others[-1], space="global", sectors=first.sectors // 100, useful_bytes=4)
    text, *_ = reports_of(counted_evidence("cuda_v4", replace(COUNTED, lines=(first, few))))
    assert "moved for nothing" not in text


def test_memory_of_a_wrong_kernel_is_no_second_bug():
    parts = tuple(
        PartEvidence("float32", name, Status.wrong_values, reason="off by one")
        for name in TRANSPOSE.variants["cuda_v4"].size_classes
    )
    evidence = counted_evidence("cuda_v4", None, parts=parts)
    assert RIGHT_BEFORE_MEMORY in unwrapped(reports_of(evidence)[0])
    grade = score(evidence, {"transpose": TRANSPOSE})
    cases = ET.fromstring(report.to_junit(evidence, grade).encode()).iter("testcase")
    [memory] = [case for case in cases if case.get("name") == "transpose-cuda_v4-memory"]
    assert memory.find("skipped") is not None


def test_counting_that_broke_in_the_grader_is_loud_and_costs_nothing():
    broken = MemoryEvidence(Status.grader_error, "Traceback: the counter broke")
    text, page, data = reports_of(counted_evidence("cuda_v4", broken))
    assert "THE GRADER FAILED on transpose/cuda_v4: memory" in text
    assert "the counter broke" in text and "the counter broke" in page
    assert data["score"] == data["gradable"]


def test_untrusted_words_in_counters_are_harmless():
    lines = (LineCounters(0, UNTRUSTED, "global", "load", 1, 1, 4),)
    text, page, _ = reports_of(counted_evidence("cuda_v4", replace(COUNTED, lines=lines)))
    assert "\x1b" not in text and "<script>" not in page


@pytest.mark.parametrize(("rule", "told"), [("compiled", ""), ("elements", " of 32 elements")])
def test_requests_that_were_counted_by_elements_are_told(rule, told):
    lines = (LineCounters(60, "k", "global", "load", 2048, 8192, 262144, rule=rule),)
    _, page, data = reports_of(counted_evidence("triton_v3", replace(COUNTED, lines=lines)))
    assert f"32 of 32 bytes per sector, 8,192 sectors, 2,048 requests{told}<" in page
    assert data["exercises"][0]["variants"][0]["checks"][-1]["memory"]["lines"][0]["rule"] == rule


# A bonus


@pytest.fixture
def silu_as_a_bonus(monkeypatch) -> None:
    """The specs of these reports, with a bonus among them."""
    monkeypatch.setattr(SPECS["silu"].variants["triton"], "bonus", True)


def test_every_report_says_what_is_a_bonus(silu_as_a_bonus):
    failing = {("aligned", "float16"): make_failure()}
    evidence = make_evidence(make_variant("rmsnorm"), make_variant("silu", failing))
    line = (
        "arned 3 of 3 gradable here, and +1 of 1.5 bonus: 4 in all; 2 more need a GPU; "
        "0.5 more bonus points need a GPU"
    )
    text, page = unwrapped(in_terminal(evidence)), unwrapped(in_html(evidence))
    assert line in text and line in page
    assert "triton (silu.py), bonus +1/2" in text
    assert "triton (rmsnorm.py) 3/5" in text
    assert "3 <small>of 3 gradable here +1 of 1.5 bonus</small>" in page
    assert "<span>+1/2 bonus</span>" in page
    assert page.count("</code> bonus</h3>") == 1
    classes = {case.get("classname") for case in in_junit(evidence).iter("testcase")}
    assert classes == {"rmsnorm.triton", "silu.triton (bonus)"}


def test_the_json_has_a_bonus_in_the_score_and_in_fields_of_its_own(silu_as_a_bonus):
    failing = {("aligned", "float16"): make_failure()}
    data = in_json(make_evidence(make_variant("rmsnorm"), make_variant("silu", failing)))
    names = ("score", "gradable", "max_score", "bonus", "gradable_bonus", "max_bonus")
    rmsnorm, silu = data["exercises"]
    assert [data[name] for name in names] == [4.0, 3.0, 5.0, 1.0, 1.5, 2.0]
    assert [rmsnorm[name] for name in names] == [3.0, 3.0, 5.0, 0.0, 0.0, 0.0]
    assert [silu[name] for name in names] == [1.0, 0.0, 0.0, 1.0, 1.5, 2.0]
    assert [e["variants"][0]["is_bonus"] for e in data["exercises"]] == [False, True]
    assert [silu["variants"][0][name] for name in names[:3]] == [1.0, 1.5, 2.0]


def test_a_bonus_on_its_own_is_told_without_points_that_are_none(silu_as_a_bonus):
    evidence = make_evidence(make_variant("silu"))
    assert total(evidence) == "earned +1.5 of 1.5 bonus; 0.5 more bonus points need a GPU"
    assert "of 0" not in unwrapped(in_terminal(evidence))
    assert "of 0" not in unwrapped(in_html(evidence))


def test_the_first_step_is_no_bonus(silu_as_a_bonus):
    assert "Start with rmsnorm" in in_terminal(make_evidence(*untouched("rmsnorm", "silu")))


def test_without_a_bonus_none_is_mentioned():
    assert "bonus" not in in_terminal(BROKEN) + in_html(BROKEN)
