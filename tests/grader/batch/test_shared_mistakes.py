"""A class's shared mistakes: alike where status and condition are, whatever the case's numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.batch.course.records import Attempt, Entry, Handin
from grader.batch.pages import class_page
from grader.batch.pages.overview import submissions
from grader.batch.pages.shared_mistakes import Cluster, clusters
from grader.evidence import Failure, SourceLine
from grader.scoring.score import score
from grader.status import Status
from tests.support.gradebooks import (
    EXERCISES,
    attempt,
    entry,
    failure,
    gradebook,
    make,
    untouched,
    variant_evidence,
)

RMSNORM = EXERCISES["rmsnorm"]
TRITON = RMSNORM.variants["triton"]
V3 = EXERCISES["transpose"].variants["cuda_v3"]


def failing(name: str, found: Failure | Status, place=("*", "*")) -> Attempt:
    return attempt(name, [variant_evidence(RMSNORM, TRITON, {place: found})])


def found_in(*entries: Entry) -> tuple[Cluster, ...]:
    return clusters(submissions(gradebook(*entries)), EXERCISES)


def test_the_same_condition_is_one_mistake_whatever_the_cases_and_their_number():
    other = failure(
        what="out[3, 1029] is 7.5e-05, expected 2.17; 3 other elements are wrong",
        tried=(41, 7),
        case="rows=4 cols=1030 dtype=float16 seed=7",
    )
    [found] = found_in(
        entry("Ada", failing("a", failure())), entry("Bob", failing("b", other, ("ragged", "*")))
    )
    assert found.sentence == "2 submissions fail only where cols > 1024"
    assert [each.student.name for each in found.entries] == ["Ada", "Bob"]
    assert (found.kind.exercise, found.kind.variant) == ("rmsnorm", "triton")
    assert found.kind.status is Status.wrong_values


@pytest.mark.parametrize(
    "changes",
    [
        {"condition": "cols > 512", "otherwise": "cols <= 512"},
        {"status": Status.not_written},
        {"hint": "What is masked?"},
    ],
)
def test_another_condition_status_or_hint_is_another_mistake(changes):
    found = found_in(
        entry("Ada", failing("a", failure())), entry("Bob", failing("b", failure(**changes)))
    )
    assert [each.count for each in found] == [1, 1]


def test_a_mistake_is_shown_by_its_cause_and_by_one_students_lines():
    cause = "`cols // BLOCK` rounds down, so a rest of the columns is left out."
    caused = [
        replace(
            failure(condition=""),
            cause=cause,
            code=(SourceLine(line, "grid = (cols // BLOCK,)", "", 8, 13),),
        )
        for line in (12, 34)
    ]
    entries = [entry(name, failing(name, each)) for name, each in zip("ab", caused, strict=True)]
    [found] = found_in(*entries)
    assert found.example == cause
    shown = "12 | grid = (cols // BLOCK,)\n   |         ^^^^^^^^^^^^^"
    assert found.frame == shown
    page = class_page.render(gradebook(*entries), EXERCISES)
    assert f'<pre class="code" tabindex="0">{shown}</pre>' in page


def test_the_same_words_in_another_variant_are_another_mistake():
    cuda = RMSNORM.variants["cuda_matrix"]
    made = attempt("a", [variant_evidence(RMSNORM, v, {("*", "*"): failure()})
                         for v in (TRITON, cuda)])  # fmt: skip
    assert [each.kind.variant for each in found_in(entry("Ada", made))] == ["cuda_matrix", "triton"]


def test_a_group_counts_once_and_all_of_it_is_named():
    shared = failing("group", failure())
    alone = failing("c", failure())
    [found] = found_in(entry("Ada", shared), entry("Bob", shared), entry("Cyd", alone))
    assert found.sentence.startswith("2 submissions fail")
    assert len(found.entries) == 3


def test_a_group_whose_attempt_was_read_twice_still_counts_once():
    shared = failing("group", failure())
    copy = replace(shared, evidence=replace(shared.evidence), grade=replace(shared.grade))
    [found] = found_in(entry("Ada", shared), entry("Bob", copy))
    assert found.count == 1


def test_two_hand_ins_of_one_name_are_two_where_their_files_are_not_at_hand():
    first, second = failing("sub", failure()), failing("sub", failure())
    entries = []
    for name, made in (("Ada", first), ("Bob", second)):
        seen = replace(made.evidence.variants[0], sha256=name)
        handin = replace(made.handin, files={})
        made = replace(made, handin=handin, evidence=replace(made.evidence, variants=(seen,)))
        entries.append(entry(name, made))
    [found] = found_in(*entries)
    assert found.count == 2


def test_only_the_attempt_that_counts_is_looked_at():
    early = failing("first", failure())
    last = attempt("second", [variant_evidence(RMSNORM, TRITON)])
    assert found_in(entry("Ada", early, last)) == ()


def test_a_submission_counts_once_for_a_mistake_in_many_parts():
    [found] = found_in(entry("Ada", failing("a", failure())))
    assert found.count == 1
    assert found.sentence == "1 submission fails only where cols > 1024"


def test_dtypes_tell_mistakes_apart_only_where_no_condition_does():
    bare = Failure(Status.not_finite, "rows=1 cols=3 dtype=float16 seed=7", "out[0, 0] is inf")
    everywhere = failure(condition="always", what="out[0] is 3.5, expected 4", tried=(6, 0))
    [half] = found_in(entry("Ada", failing("a", bare, ("*", "float16"))))
    assert half.sentence == "1 submission fails for float16 only"
    [all_cases] = found_in(entry("Bob", failing("b", everywhere)))
    assert all_cases.sentence == "1 submission fails on every case"
    [told] = found_in(entry("Cyd", failing("c", failure(), ("*", "float16"))))
    assert told.sentence == "1 submission fails only where cols > 1024"


def test_without_a_condition_what_happened_is_compared_without_its_numbers():
    def race(thread: int, line: str) -> Failure:
        what = f"thread ({thread},0,0) writes 4 bytes of tile at t.cu:{thread} (`{line}`)"
        return Failure(Status.data_race, "rows=32", what, where=f"t.cu:{thread}")

    def of(name: str, found: Failure) -> Entry:
        made = variant_evidence(EXERCISES["transpose"], V3, {("*", "*"): found})
        return entry(name, attempt(name, [made]))

    other = Failure(Status.data_race, "rows=32", "two blocks write the same element of out")
    found = found_in(
        of("Ada", race(8, "tile[i] = x;")), of("Bob", race(16, "t[k] = y;")), of("Cyd", other)
    )
    assert [each.count for each in found] == [2, 1]


@pytest.mark.parametrize("status", [Status.not_measured, Status.grader_error, Status.passed])
def test_what_is_not_the_students_fault_is_no_mistake(status):
    assert found_in(entry("Ada", failing("a", status))) == ()


def test_what_was_not_attempted_is_no_mistake():
    assert found_in(entry("Ada", attempt("a", [untouched(RMSNORM, TRITON)]))) == ()
    assert found_in(Entry(entry("Bob").student, (Attempt(Handin("b", problem="torn")),))) == ()


def test_right_but_slow_comes_last_and_is_said_as_such():
    slow = [
        entry(f"S{n}", attempt(f"s{n}", [variant_evidence(RMSNORM, TRITON, ratios=ratios)]))
        for n, ratios in enumerate([{"copy": 0.5, "torch": 0.9}, {"copy": 0.2, "torch": 0.4}])
    ]
    first, last = found_in(*slow, entry("Ada", failing("a", failure())))
    assert first.kind.condition == "cols > 1024"
    assert last.sentence == "2 submissions right, but too slow for any points"
    assert last.kind.is_slow


def test_a_memory_target_that_is_missed_is_compared_without_its_numbers():
    def short(name: str, bytes_used: float) -> Entry:
        made = variant_evidence(EXERCISES["transpose"], V3)
        assert made.memory is not None
        metrics = tuple(
            replace(each, value=bytes_used) if each.name.startswith("useful_bytes") else each
            for each in made.memory.metrics
        )
        made = replace(made, memory=replace(made.memory, metrics=metrics))
        return entry(name, attempt(name, [made]))

    [found] = found_in(short("Ada", 4.0), short("Bob", 8.0))
    assert found.sentence == "2 submissions right, but short of the memory target"


def test_the_most_frequent_comes_first():
    entries = [entry(f"S{n}", failing(f"s{n}", failure())) for n in range(3)]
    alone = entry("Bob", failing("b", failure(status=Status.not_finite)))
    assert [each.count for each in found_in(alone, *entries)] == [3, 1]


def test_a_made_up_class_is_the_same_every_time():
    first, second = make(8), make(8)
    assert first == second
    assert len(first.entries) == 8
    graded = [each.counted for each in first.entries if each.counted]
    assert all(each.grade == score(each.evidence, EXERCISES) for each in graded)
