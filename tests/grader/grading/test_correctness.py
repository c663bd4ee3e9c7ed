"""The correctness loop, over a fake runner: what it runs, keeps, shrinks and says."""

import contextlib
import random
import textwrap
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from grader import spec
from grader.cases import Space, parse
from grader.cases.compare import Verdict
from grader.executors.runner import CaseResult
from grader.executors.source_text import numbers_of
from grader.grading import by_source, search
from grader.grading.causes import Causes
from grader.grading.diagnosis import Cause
from grader.grading.search import Effort, one_case, reproduce_line, search_part
from grader.spec import SizeRule
from grader.spec.task import Task
from grader.status import Status
from tests.support import warm_python, work

ROOT = Path(__file__).resolve().parents[3]
EXERCISES = spec.load_all()
BRIEF = Effort(drawn=8)
PASSED = Verdict(Status.passed)


def wrong(status=Status.wrong_values, pattern="all"):
    return Verdict(status, f"this is {status.value}.", pattern)


class FakeRunner:
    """Answers with what `verdict_of` says of a case, and remembers what it was asked."""

    on_gpu = False
    starts_in = None
    advised = ""
    source = ""

    def will_be_refused(self):
        return False

    def __init__(self, verdict_of):
        self.verdict_of = verdict_of
        self.asked = []
        self.fresh = []  # how many runs there were before each fresh worker
        self.expected = []  # what it was told to expect

    def expect(self, cases):
        self.expected.append([*cases])

    def run(self, case):
        self.asked.append(case)
        return self.once(case)

    def once(self, case):
        return CaseResult(case, self.verdict_of(case))

    def fresh_worker(self):
        self.fresh.append(len(self.asked))

    def advice(self, result):
        return self.advised

    def compile_in_background(self):
        return None


def failing(condition, status=Status.wrong_values):
    """A runner whose kernel fails where the condition holds."""
    return FakeRunner(lambda case: wrong(status) if condition(case) else PASSED)


def test_what_nvcc_will_refuse_is_not_explained():
    runner = failing(lambda case: True)
    runner.will_be_refused = lambda: True
    part = search_part(space_of(), runner, Effort(edges=3, drawn=0))
    assert part.status.is_failure
    assert len(runner.asked) == 3  # the edge cases: nothing is run again, shrunk or probed


def space_of(name="rmsnorm", size_class="ragged", dtype="float16", seed=7):
    exercise = EXERCISES[name]
    return Space(Task(exercise, exercise.variants["triton"]), dtype, size_class, seed)


def case_of(space, text):
    return parse(f"{text} dtype={space.dtype} seed={space.seed}", space.task, 0)


# --- what is run ---------------------------------------------------------------------------------


def test_edge_cases_come_first_then_drawn_ones():
    space, runner = space_of(), FakeRunner(lambda case: PASSED)
    part = search_part(space, runner, Effort(drawn=10))
    edges = space.edges()
    assert runner.asked[: len(edges)] == edges
    drawn = runner.asked[len(edges) :]
    assert 3 <= len(drawn) <= 10
    assert all(space.allows(dict(case.sizes)) for case in drawn)
    assert len(set(runner.asked)) == len(runner.asked) == part.cases_run
    assert (part.status, part.cases_failed, part.failures, part.reason) == (
        Status.passed, 0, (), "",
    )  # fmt: skip
    assert (part.dtype, part.size_class) == ("float16", "ragged")


@pytest.mark.parametrize("most", [1, 2, 5, 1000])
def test_fewer_edge_cases_are_spread_over_all_of_them(most):
    space, runner = space_of(), FakeRunner(lambda case: PASSED)
    edges = space.edges()
    search_part(space, runner, Effort(edges=most, drawn=1))
    tried = [case for case in runner.asked if case in edges][:most]
    assert tried == sorted(tried, key=edges.index)
    assert tried[0] == edges[0]
    assert most == 1 or edges[-1] in tried
    assert len(runner.asked) <= min(most, len(edges)) + 1


@pytest.mark.parametrize("most", [1, 3])
def test_a_plain_effort_has_other_edges_in_each_dtype_and_draws_by_its_seed(most):
    def asked(dtype, seed=7):
        runner = FakeRunner(lambda case: PASSED)
        space = space_of(dtype=dtype, seed=seed)
        search_part(space, runner, Effort(edges=most, drawn=2, plain=True))
        assert all(space.allows(dict(case.sizes)) for case in runner.asked)
        return [case.sizes for case in runner.asked]

    dtypes = EXERCISES["rmsnorm"].variants["triton"].dtypes
    each = [asked(dtype) for dtype in dtypes]
    assert [len(sizes) for sizes in each] == [most + 2] * len(dtypes)
    assert len({sizes for part in each for sizes in part[:most]}) > most
    assert asked(dtypes[0]) == each[0]
    again = asked(dtypes[0], seed=8)
    assert again[:most] == each[0][:most] and again[most:] != each[0][most:]


def test_after_enough_failures_no_more_are_looked_for():
    always = failing(lambda case: True)
    assert search_part(space_of(), always, Effort(enough=4, shrink_runs=0)).cases_failed == 4
    sometimes = failing(lambda case: case.size("rows") > 1)
    part = search_part(space_of(), sometimes, Effort(enough=4, shrink_runs=0))
    assert part.cases_failed == 4 < part.cases_run < len(space_of().edges())
    assert search_part(space_of(), always, Effort(shrink_runs=0)).cases_failed == 12
    without_end = Effort(enough=None, shrink_runs=0)
    assert search_part(space_of(), always, without_end).cases_run == len(space_of().edges())


@pytest.mark.parametrize(("explains", "most"), [(True, 3), (False, 12)])
def test_of_a_part_that_fails_as_another_one_does_few_cases_are_run(explains, most, monkeypatch):
    known = Cause("name", "`n` stands where `m` belongs", "")
    causes = Causes(explained={known.what})
    monkeypatch.setattr(Causes, "again", lambda self, failed: known if explains else None)
    runner = failing(lambda case: True)
    part = search_part(space_of(), runner, Effort(shrink_runs=0, repair_seconds=0), causes=causes)
    assert part.cases_failed == most
    assert (part.failures[0].cause == known.what) == explains


@pytest.mark.parametrize("reruns", [3, 10])
def test_the_smallest_failing_case_is_run_again_so_many_times(reruns):
    runner = failing(lambda case: True)
    part = search_part(space_of(), runner, Effort(shrink_runs=0, probe_seconds=0, reruns=reruns))
    smallest = [case for case in runner.asked if str(case) == part.failures[0].case]
    # Once in the search, once before it is shrunk, and the rest afterwards.
    assert len(smallest) == 2 + reruns - 1


def test_what_only_drawn_cases_show_is_found():
    space = space_of(size_class="aligned")
    edges = {case.sizes for case in space.edges()}
    runner = failing(lambda case: case.sizes not in edges)
    assert search_part(space, runner, Effort(drawn=20)).status is Status.wrong_values


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("if (cols % 96 == 48) --cols;", 48),
        ("if (cols == 900 + 77) --cols;", 977),
        ("constexpr int STEP = 1'100;", 1101),
        ("#define FEW 5 << 4", 80),
        ("enum { MOST = 0x5DC };", 1499),
        ("if (cols == 4.81e2f) --cols;", 481),
        ('const char* hides = "/*"; if (cols == 481) --cols;', 481),
    ],
)
def test_a_size_that_the_text_names_is_tried_and_so_is_the_one_beside_it(text, size):
    task = Task(EXERCISES["rmsnorm"], EXERCISES["rmsnorm"].variants["cuda_vector"])
    space = replace(space_of(size_class="row_ragged"), task=task)
    for named in (True, False):
        runner = FakeRunner(lambda case: PASSED)
        runner.source = text if named else f"// {text}"
        search_part(space, runner)
        assert any(case.size("cols") == size for case in runner.asked) == named


@pytest.mark.parametrize("text", ['"' + "/*" * 500_000 + '"', '"\\' * 500_000, "1'" * 500_000])
@pytest.mark.parametrize("is_triton", [False, True])
def test_reading_the_numbers_of_an_untrusted_text_takes_no_time(text, is_triton):
    with work.ending():
        assert len(numbers_of(text, is_triton)) <= 2


def test_numbers_in_the_text_take_the_place_of_a_third_of_the_drawn_cases():
    def asked(source):
        runner = FakeRunner(lambda case: PASSED)
        runner.source = source
        search_part(space_of(), runner, Effort(drawn=12))
        assert all(space_of().allows(dict(case.sizes)) for case in runner.asked)
        return runner.asked[len(space_of().edges()) :]

    unnamed, powers = asked(""), asked("BLOCK = 1024")
    many = asked(" ".join(str(number) for number in range(300, 400)))
    assert unnamed == powers
    assert len(many) == len(unnamed)
    assert sum(299 <= case.size("cols") <= 400 for case in many[:4]) == 4
    assert many[4:] == unnamed[4:]


def test_the_same_seed_draws_the_same_cases_and_another_one_others():
    def asked(seed):
        runner = FakeRunner(lambda case: PASSED)
        search_part(space_of(seed=seed), runner, Effort(drawn=15))
        return [case.sizes for case in runner.asked]

    assert asked(1) == asked(1)
    assert asked(1) != asked(2)


def test_progress_is_told_for_every_case_of_the_search():
    told = []
    part = search_part(
        space_of(), FakeRunner(lambda c: PASSED), BRIEF, on_case=lambda: told.append(1)
    )
    assert len(told) >= part.cases_run


DRAWING = """
import importlib, pathlib, sys
from grader import spec
from grader.cases.case import Space
from grader.cases.compare import Verdict
from grader.grading.search import Effort, search_part
from grader.executors.runner import CaseResult
from grader.executors.source_text import numbers_of
from grader.spec.task import Task
from grader.status import Status

class Runner:
    on_gpu = False
    source = ""
    def expect(self, cases):
        pass
    def run(self, case):
        asked.append(str(case))
        return CaseResult(case, Verdict(Status.passed))

exercise = spec.load_all()["silu"]
space = Space(Task(exercise, exercise.variants["triton"]), "float32", "ragged", 3)
seen = []
for turn in range(2):
    asked = []
    search_part(space, Runner(), Effort(drawn=300))
    seen.append(asked)
    pathlib.Path("numbers_of_mine.py").write_text(f"NUMBERS = {[*range(500, 1500, 3)]}")
    sys.path.insert(0, ".")
    importlib.import_module("numbers_of_mine")
assert len(seen[0]) > 200
assert seen[0] == seen[1], "what is drawn depends on which modules are loaded"
assert not pathlib.Path(".hypothesis").exists(), "hypothesis left its folder behind"
"""


def test_drawing_leaves_nothing_behind_and_ignores_other_modules(tmp_path):
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = warm_python.run(["-c", textwrap.dedent(DRAWING)], tmp_path, environment)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / ".hypothesis").exists()


# --- what is kept --------------------------------------------------------------------------------


def test_a_loop_that_another_part_was_in_is_waited_for_shortly(monkeypatch):
    space, seconds = space_of(), []
    runner = failing(lambda case: True, Status.timed_out)
    hurried = lambda _, most: contextlib.nullcontext(seconds.append(most))  # noqa: E731
    monkeypatch.setattr(search, "hurried", hurried)
    runner.task = space.task
    run = FakeRunner.run
    monkeypatch.setattr(FakeRunner, "run", lambda self, case: replace(run(self, case), line=12))
    effort = Effort(shrink_timeouts=0)
    part = search_part(space, runner, effort, causes=Causes(endless=12))
    assert (part.status, len(runner.asked)) == (Status.timed_out, 1) and seconds == [0.5]
    assert "another part's case" in part.failures[0].what
    runner.asked.clear()
    search_part(space, runner, effort, causes=Causes(endless=13))
    assert runner.asked[0] == runner.asked[1]  # with all its time: it is another loop


@pytest.mark.parametrize(
    ("loop", "is_sure"),
    [
        ("while start < n_cols:\n    x = x + 1\n", True),
        ("while start < n_cols:\n    start += 1\n", False),
        ("while seen[0] < n_cols:\n    x = x + 1\n", False),
        ("for k in range(9):\n    x = k\n", False),
    ],
)
def test_a_loop_that_cannot_end_is_waited_for_shortly_in_the_first_part(monkeypatch, loop, is_sure):
    space, seconds = space_of(), []
    runner = failing(lambda case: True, Status.timed_out)
    hurried = lambda _, most: contextlib.nullcontext(seconds.append(most))  # noqa: E731
    monkeypatch.setattr(search, "hurried", hurried)
    runner.task, runner.source = space.task, loop
    run = FakeRunner.run
    monkeypatch.setattr(FakeRunner, "run", lambda self, case: replace(run(self, case), line=1))
    part = search_part(space, runner, Effort(shrink_timeouts=0))
    assert part.status is Status.timed_out
    assert seconds == ([0.5] if is_sure else [])
    assert len(runner.asked) == 1 or not is_sure


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("for (int half = 8; half >= 0; half /= 2) x += half;", 1),
        ("__shared__ int half;\nwhile (half > 0) { x += 1; }", 0),
        ("int half = 4;\nwhile (half > 0) { x += 1; }", 2),
        ("while (*half > 0) { x += 1; }", 0),
        ("while (half) { x += 1; }", 0),
        ("auto f = [&] { half--; };\nwhile (half > 0) { f(); }", 0),
        ("while (i < n) { x += --i; }", 0),
        ("while (i < n) { i <<= 1; }", 0),
        ("while (i < n) { step(&i); }", 0),
        ("while (i < n) { x = i == 1; }", 1),
    ],
)
def test_a_loop_never_ends_for_sure_where_only_its_own_variables_count(text, line):
    assert by_source.line_without_end(text, is_triton=False) == line


def test_many_names_and_many_words_about_variables_from_afar_take_no_time():
    names = " + ".join(f"a{number}" for number in range(600))
    text = f"while ({names} < 1) {{ x += 1; }}\n// {'static ' * 8000}"
    with work.ending():
        assert by_source.line_without_end(text, is_triton=False) == 1


def test_a_case_in_which_every_size_is_above_one_is_run_before_a_cause_is_told():
    space = space_of()  # of the first edge cases, each has a size of 1
    assert all(min(dict(case.sizes).values()) == 1 for case in space.edges()[:2])
    runner = failing(lambda case: True)
    search_part(space, runner, Effort(drawn=0, enough=2, repair_seconds=0))
    assert any(min(dict(case.sizes).values()) > 1 for case in runner.asked)


def test_explaining_has_more_seconds_on_a_busy_machine(monkeypatch):
    for load, longer in ((0.1, 1), (2, 2), (100, search.MOST_PATIENCE)):
        monkeypatch.setattr(search.os, "getloadavg", lambda load=load: (load, 0, 0))
        monkeypatch.setattr(search.os, "cpu_count", lambda: 1)
        assert Effort(probe_seconds=3).on_a_busy_machine().probe_seconds == 3 * longer


@pytest.mark.parametrize("status", [Status.wrong_values, Status.not_finite])
def test_what_a_runner_knows_of_wrong_values_is_the_hint(status):
    runner = failing(lambda case: True, status)
    runner.advised = "It is TF32."
    [failure] = search_part(space_of(), runner, Effort(drawn=0)).failures
    assert (failure.hint == "It is TF32.") == (status is Status.wrong_values)


def test_there_is_one_failure_per_status_the_worst_first_each_the_smallest():
    def verdict(case):
        if case.size("cols") > 1500:
            return wrong(Status.crashed)
        if case.size("cols") > 900:
            return wrong(Status.not_finite)
        return wrong() if case.size("cols") > 100 else PASSED

    part = search_part(space_of(), FakeRunner(verdict), BRIEF)
    assert part.status is Status.crashed
    assert [f.status for f in part.failures] == [
        Status.crashed, Status.not_finite, Status.wrong_values,
    ]  # fmt: skip
    assert part.failures[0].case == "rows=1 cols=1501 dtype=float16 seed=7"
    space = space_of()
    for failure, low, high in zip(part.failures[1:], (900, 100), (1500, 900), strict=True):
        found = parse(failure.case, space.task, 0)
        assert low < found.size("cols") <= high
        for edge in space.edges():
            if low < edge.size("cols") <= high:
                assert found.complexity <= edge.complexity
    assert 0 < part.cases_failed < part.cases_run


def test_a_failure_has_its_four_parts():
    part = search_part(
        space_of(), failing(lambda case: case.size("cols") > 1024), BRIEF, submission="a b"
    )
    (failure,) = part.failures
    assert failure.what == "this is wrong_values."
    assert failure.pattern.startswith("Every case with cols > 1024 fails (")
    assert "every case with cols <= 1024 passes (" in failure.pattern
    assert failure.hint.startswith("Is every block of 1024 along cols visited, ")
    assert failure.reproduce == (
        "grader check rmsnorm/triton --case 'rows=1 cols=1025 dtype=float16 seed=7' "
        "--submission 'a b'"
    )
    assert failure.occurrences == ""


def test_the_line_to_paste_needs_no_submission_where_it_is_the_usual_one():
    space = space_of("silu")
    case = case_of(space, "n=3")
    assert reproduce_line(space, case) == (
        "grader check silu/triton --case 'n=3 dtype=float16 seed=7'"
    )


# --- shrinking -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "name", "size_class", "smallest"),
    [
        (lambda c: c.size("cols") > 1024, "rmsnorm", "ragged", "rows=1 cols=1025"),
        (lambda c: c.size("cols") > 1000, "rmsnorm", "ragged", "rows=1 cols=1001"),
        (lambda c: c.size("cols") > 1337 and c.size("rows") > 5, "rmsnorm", "ragged",
         "rows=6 cols=1338"),
        (lambda c: c.size("cols") > 1200, "rmsnorm", "aligned", "rows=1 cols=1216"),
        (lambda c: c.size("cols") > 1024, "rmsnorm", "degenerate", "rows=1 cols=1025"),
        (lambda c: c.size("rows") > 1, "rmsnorm", "degenerate", "rows=2 cols=1"),
        (lambda c: c.size("n") > 5000, "silu", "aligned", "n=5120"),
        (lambda c: c.size("n") % 8 != 0, "silu", "ragged", "n=1"),
        (lambda c: bool(c.scalars), "rmsnorm", "ragged", "rows=1 cols=1 eps=1e-05"),
        (lambda c: c.data == "tiny", "rmsnorm", "ragged", "rows=1 cols=1 data=tiny"),
        (lambda c: dict(c.layouts).get("x") == "row_padded" and c.size("rows") > 1, "rmsnorm",
         "ragged", "rows=2 cols=1 x.layout=row_padded"),
    ],
)  # fmt: skip
def test_a_failure_shrinks_to_the_smallest_and_plainest(condition, name, size_class, smallest):
    space = space_of(name, size_class)
    part = search_part(space, failing(condition), Effort(drawn=20, shrink_runs=200))
    assert part.failures[0].case == str(case_of(space, smallest))


@pytest.mark.parametrize("seed", range(5))
def test_where_it_shrinks_to_does_not_depend_on_the_seed(seed):
    space = space_of(seed=seed)
    part = search_part(space, failing(lambda c: c.size("cols") > 1024), Effort(drawn=8))
    assert part.failures[0].case == str(case_of(space, "rows=1 cols=1025"))


def test_shrinking_is_bounded():
    space, runner = space_of(), failing(lambda c: c.size("cols") > 1337)
    search_part(space, runner, Effort(drawn=0 + 1, shrink_runs=3, probe_seconds=0))
    reruns = 1 + 9
    assert len(runner.asked) <= len(space.edges()) + 1 + 3 + reruns


def test_smaller_sizes_stay_within_the_rule_and_reach_its_ends():
    sizes = search._smaller_sizes
    steps = SizeRule(low=64, high=2048, multiple_of=64)
    candidates = [size for size in sizes([steps], 1984) if steps.contains(size)]
    assert {64, 128, 192, 1984 - 64, 1984 - 15 * 64} <= {*candidates}
    assert sizes([SizeRule(low=2, high=16, choices=(2, 8, 16))], 16) == [2, 8]
    assert sizes([SizeRule(low=1, high=9)], 1) == []


# --- time ----------------------------------------------------------------------------------------


class Clock:
    """Time that passes only while a case runs."""

    def __init__(self, monkeypatch, seconds_per_case):
        self.now = 100.0
        self.step = seconds_per_case
        monkeypatch.setattr(search.time, "monotonic", lambda: self.now)

    def tick(self, verdict):
        self.now += self.step
        return verdict


@pytest.mark.parametrize("seconds", [5.0, 40.0])
def test_when_time_is_over_the_search_ends_and_says_so_and_nothing_fails(monkeypatch, seconds):
    clock = Clock(monkeypatch, 1.0)
    space, runner = space_of(), FakeRunner(lambda case: clock.tick(PASSED))
    part = search_part(space, runner, Effort(drawn=100, seconds=seconds))
    assert part.status is Status.passed
    assert len(runner.asked) == 1 + seconds + 1  # the first one is not counted
    assert part.reason == f"stopped after {int(seconds) + 2} cases: {seconds:g} s were over"


def test_a_first_case_that_has_to_wait_for_its_worker_costs_the_others_nothing(monkeypatch):
    clock = Clock(monkeypatch, 1.0)
    delays = iter([60.0])

    def answer(case):
        clock.now += next(delays, 0.0)
        return clock.tick(PASSED)

    part = search_part(space_of(), FakeRunner(answer), Effort(drawn=100, seconds=5.0))
    assert part.cases_run == 1 + 5 + 1


def test_one_case_runs_however_little_time_there_is(monkeypatch):
    clock = Clock(monkeypatch, 60.0)
    runner = FakeRunner(lambda case: clock.tick(PASSED))
    assert search_part(space_of(), runner, Effort(seconds=-1.0)).cases_run == 1


def test_shrinking_and_probing_end_when_their_time_is_over(monkeypatch):
    clock = Clock(monkeypatch, 1.0)
    runner = FakeRunner(lambda c: clock.tick(wrong() if c.size("cols") > 1024 else PASSED))
    effort = Effort(seconds=500.0, shrink_seconds=4.0, probe_seconds=3.0)
    part = search_part(space_of(), runner, effort)
    assert part.status is Status.wrong_values
    extra = len(runner.asked) - len(space_of().edges())
    assert extra <= 1 + (4 + 1) + (4 + 1) + (3 + 1)


# --- timeouts, memory, files that can't be loaded ------------------------------------------------


def test_a_timeout_ends_the_search_and_is_shrunk_at_most_three_times():
    runner = failing(lambda c: c.size("cols") > 6, Status.timed_out)
    part = search_part(space_of(), runner, BRIEF)
    timeouts = [case for case in runner.asked if case.size("cols") > 6]
    assert part.status is Status.timed_out
    assert len(timeouts) <= 1 + 3
    assert Counter(runner.asked).most_common(1)[0][1] == 1  # none is run twice


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_shrinking_stops_after_so_many_timeouts(limit):
    """A condition with many smaller cases that meet it too."""
    runner = failing(lambda c: c.elements > 5000, Status.timed_out)
    search_part(space_of(), runner, Effort(shrink_timeouts=limit))
    assert sum(case.elements > 5000 for case in runner.asked) == 1 + limit
    assert Effort().shrink_timeouts == 3


def test_a_kernel_that_never_ends_costs_four_timeouts():
    runner = failing(lambda c: True, Status.timed_out)
    part = search_part(space_of(), runner, BRIEF)
    assert part.status is Status.timed_out and len(runner.asked) <= 4


@pytest.mark.parametrize("status", sorted(search.COSTLY))
def test_a_few_of_what_costs_a_worker_each_are_enough(status):
    runner = failing(lambda c: True, status)
    part = search_part(space_of(), runner, Effort(shrink_runs=0, probe_seconds=-1))
    assert part.status is status
    assert len(set(runner.asked)) == search.ENOUGH_COSTLY


def test_exhausted_memory_ends_the_search_and_shrinks():
    runner = failing(lambda c: c.size("cols") > 1024, Status.out_of_memory)
    part = search_part(space_of(), runner, BRIEF)
    assert part.status is Status.out_of_memory
    assert part.failures[0].case == "rows=1 cols=1025 dtype=float16 seed=7"


@pytest.mark.parametrize("status", [Status.import_error])
def test_what_is_the_same_for_every_case_is_run_once(status):
    runner = failing(lambda c: True, status)
    part = search_part(space_of(), runner, BRIEF)
    assert part.status is status and len(runner.asked) == 1
    assert part.failures[0].pattern == ""


def test_what_was_not_decided_is_not_explained_and_loses_nothing():
    runner = failing(lambda c: True, Status.not_measured)
    part = search_part(space_of(), runner, BRIEF)
    assert part.status is Status.not_measured and not part.status.is_failure
    assert part.reason == "this is not_measured."
    assert Counter(runner.asked).most_common(1)[0][1] == 1
    assert part.failures[0].pattern == ""


def test_a_failure_beside_what_was_not_measured_is_a_failure():
    def verdict(case):
        return wrong() if case.size("cols") > 1024 else wrong(Status.not_measured)

    part = search_part(space_of(), FakeRunner(verdict), BRIEF)
    assert part.status is Status.wrong_values


# --- kernels that answer differently each time ---------------------------------------------------


def whim(seed, share, condition=lambda case: True):
    """A runner whose kernel fails at random where the condition holds."""
    draw = random.Random(seed)
    return failing(lambda case: condition(case) and draw.random() < share)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_kernel_that_fails_at_random_is_nondeterministic(seed, share):
    runner = whim(seed, share)
    part = search_part(space_of(seed=seed), runner, BRIEF)
    assert part.status is Status.nondeterministic
    failure = part.failures[0]
    assert failure.status is Status.nondeterministic
    failed = int(failure.occurrences.split()[2])
    assert failure.occurrences == f"wrong in {failed} of 10 runs" and 1 <= failed <= 9
    assert failure.what == (
        f"The same case was wrong in {failed} of 10 runs (wrong values: this is wrong_values)"
    )
    assert failure.pattern == "" and "changes between runs" in failure.hint


def test_runs_are_counted_as_they_were():
    """The first run and two of the nine others fail."""
    space = space_of("silu", "degenerate")
    answers = iter([True, False, False, True, False, True, False, False, False, False])
    smallest = space.edges()[0]
    runner = failing(lambda case: case == smallest and next(answers))
    part = search_part(space, runner, BRIEF)
    assert part.failures[0].occurrences == "wrong in 3 of 10 runs"
    assert next(answers, None) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_kernel_that_fails_at_random_on_drawn_cases_only_is_too(seed):
    space = space_of(size_class="aligned", seed=seed)
    edges = {case.sizes for case in space.edges()}
    runner = whim(seed, 0.5, lambda case: case.sizes not in edges)
    part = search_part(space, runner, Effort(drawn=60))
    assert part.status is Status.nondeterministic


def test_plans_that_differed_once_are_no_kernel_that_fails_now_and_then():
    """They are compared in one run of a dtype, so that any other passes."""
    differ = Verdict(
        Status.nondeterministic, "a.py:3 launches k in one plan and j in another.", "plans"
    )
    space = space_of("silu", "degenerate")
    runner = FakeRunner(lambda case: PASSED if len(runner.asked) > 1 else differ)
    again = FakeRunner(lambda case: PASSED if len(again.asked) > 1 else differ)
    for part in (search_part(space, runner, BRIEF), one_case(space, again, space.edges()[0])):
        assert part.failures[0].what == differ.what
        assert part.failures[0].occurrences == ""
    assert max(Counter(runner.asked).values()) == 1


def test_what_depends_on_earlier_calls_shows_in_a_fresh_worker():
    """A kernel that is wrong from its second call on in each process."""
    space = space_of("silu", "degenerate")
    runner = FakeRunner(None)
    runner.verdict_of = lambda case: (
        wrong() if len(runner.asked) - (runner.fresh or [0])[-1] > 1 else PASSED
    )
    part = search_part(space, runner, BRIEF)
    assert part.status is Status.nondeterministic


def test_what_only_fresh_processes_get_right_is_told_so_and_no_change_is_tried(monkeypatch):
    monkeypatch.setattr(Causes, "_mended", lambda self, failed: Cause("name", "x", "y"))
    space = space_of("silu", "degenerate")
    runner = FakeRunner(lambda case: PASSED if runner.fresh else wrong())
    [failure] = search_part(space, runner, BRIEF).failures
    assert failure.status is Status.nondeterministic and not failure.cause
    assert failure.what.startswith("The case is right in a fresh process, and wrong after others")
    assert "keeps from one call to the next" in failure.hint
    once = FakeRunner(lambda case: PASSED if len(once.fresh) == 1 else wrong())
    [failure, *_] = search_part(space, once, BRIEF).failures
    assert failure.what.startswith("The same case was wrong in ") and failure.cause == "x"


def test_a_kernel_that_always_fails_is_run_ten_times_and_called_wrong():
    space = space_of("silu", "degenerate")
    runner = failing(lambda case: True)
    part = search_part(space, runner, BRIEF)
    assert part.status is Status.wrong_values
    smallest = parse(part.failures[0].case, space.task, 0)
    assert Counter(runner.asked)[smallest] >= 10
    assert part.failures[0].occurrences == ""


# --- seeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verdict_of",
    [
        lambda c: wrong() if c.size("cols") > 1024 else PASSED,
        lambda c: wrong(Status.not_written) if c.size("cols") % 8 else PASSED,
        lambda c: wrong(Status.not_finite) if c.data == "large" else PASSED,
        lambda c: wrong() if dict(c.layouts).get("x") and c.size("rows") > 1 else PASSED,
        lambda c: wrong(Status.crashed) if c.scalars else wrong(),
    ],
)
def test_ten_seeds_agree_on_the_status(verdict_of):
    parts = [search_part(space_of(seed=s), FakeRunner(verdict_of), BRIEF) for s in range(10)]
    assert len({part.status for part in parts}) == 1
    assert parts[0].status is not Status.passed
    assert len({tuple(f.status for f in part.failures) for part in parts}) == 1


# --- one given case ------------------------------------------------------------------------------


def test_one_given_case_passes_or_fails_by_itself():
    space = space_of()
    case = case_of(space, "rows=2 cols=1030")
    runner = failing(lambda c: c.size("cols") > 1024)
    part = one_case(space, runner, case)
    assert (part.status, part.cases_run, part.size_class) == (Status.wrong_values, 1, "case")
    assert part.cases_failed == 1 and part.cases_failed is not True
    assert part.failures[0].case == str(case)
    part = one_case(space, FakeRunner(lambda c: PASSED), case)
    assert (part.status, part.cases_failed, part.failures) == (Status.passed, 0, ())


def test_one_given_case_that_fails_at_random_is_nondeterministic():
    space = space_of()
    answers = iter([True, True, True, False] * 5)
    part = one_case(space, failing(lambda c: next(answers)), case_of(space, "rows=2 cols=3"))
    assert part.status is Status.nondeterministic
    assert part.failures[0].occurrences == "wrong in 8 of 10 runs"


def test_the_runner_is_told_the_edges_and_then_what_is_drawn():
    runner = FakeRunner(lambda case: PASSED)
    search_part(space_of(), runner, Effort(edges=4, drawn=6))
    edges, drawn = runner.expected
    assert [*edges, *drawn] == runner.asked
    assert len(edges) == 4 and len(drawn) > 1
