"""Changes that are tried: told where failing cases become right, and passing ones stay so."""

import re
from dataclasses import replace

import pytest

from grader.cases import Case, Space
from grader.cases.compare import Verdict
from grader.evidence import VariantEvidence
from grader.executors.cuda import cuda_build
from grader.executors.cuda.native_runner import PlannedNativeRunner
from grader.executors.runner import CaseResult, Coming
from grader.executors.source_text import Change
from grader.grading import causes, repairs, source_reading
from grader.grading.causes import Causes, Failed
from grader.grading.check import check_case, check_parts
from grader.grading.edits.edit_scope import Edit
from grader.grading.repairs import Repairs, failing_of
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.report.message import merged_messages
from grader.spec.task import Task
from grader.status import Status
from tests.support.planned import SPECS
from tests.support.small_exercise import ROOT

SOURCE = """
import triton
import triton.language as tl

@triton.jit
def k(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < rows)
    tl.store(out_ptr + offs, x, mask=offs < rows)


def silu(x, out):
    k[(1,)](x, out, 1, 2, BLOCK=64)
"""
TASK = Task(SPECS["silu"], SPECS["silu"].variants["triton"])
CASES = [Case((("n", n),), "float32", 7) for n in (3, 5, 9, 70)]
SPACE = Space(TASK, "float32", "ragged", 7)
LINE = SOURCE.split("\n").index("    tl.store(out_ptr + offs, x, mask=offs < rows)") + 1


class Runner:
    """A submission whose cases pass where `is_right` says so of its text and the case.

    It may give another status than wrote_out_of_bounds.
    """

    on_gpu = False
    queue = 0
    task = TASK

    def __init__(self, source, is_right, opened=None):
        self.source = source
        self.is_right = is_right
        self.opened = [] if opened is None else opened
        self.closed = self.has_run = False

    def run(self, case):
        self.has_run = True
        answer = self.is_right(self.source, case.size("n"))
        status = Status.passed if answer else Status.wrote_out_of_bounds
        status = answer if isinstance(answer, Status) else status
        return CaseResult(case, Verdict(status), LINE)

    once = run

    def advice(self, result):
        return ""

    def moved(self, case, kinds=("load", "store")):
        if kinds == ("store",):
            return self.stored(self.source) if self.stored else None
        return self.bytes(self.source) if self.bytes else None

    bytes = None  # of global memory, by the text
    programs = 0
    stored = None  # of those, by stores

    def altered(self, copies, entries):
        return Coming(lambda: self.made(copies))

    def made(self, copies):
        runners = [Runner(copy, self.is_right, self.opened) for copy in copies]
        self.opened += runners
        for each in runners:
            each.bytes, each.stored = self.bytes, self.stored
        return runners

    def close(self):
        self.closed = True


def failure(runner):
    results = [runner.run(case) for case in CASES]
    first = next(each for each in results if not each.verdict.passed)
    return failing_of(first, results, None)


def stores_in(column):
    return lambda source, n: n <= 3 or bool(re.search(rf"x, mask=offs < {column}\)", source))


def test_a_change_that_makes_all_cases_right_is_told_with_its_line():
    runner = Runner(SOURCE, stores_in("cols"))
    cause = Repairs().cause_of(runner, failure(runner))
    assert cause.what == "`offs < rows` stands where `offs < cols` belongs"
    [line] = cause.code
    assert line.line == LINE and line.text[line.start : line.start + line.length] == "rows"
    assert sum(not each.closed for each in runner.opened) == 1


def test_a_text_that_takes_too_long_to_read_is_read_once(monkeypatch):
    """Each further part would wait as long for the same."""
    asked = []

    def limited(*_):
        asked.append(1)
        raise source_reading.TooInvolved("reading it takes longer than 1.5 s")

    monkeypatch.setattr(source_reading, "limited", limited)
    runner, repairs = Runner(SOURCE, stores_in("cols")), Repairs()
    assert [repairs.cause_of(runner, failure(runner)) for _ in range(3)] == [None] * 3
    assert len(asked) == 1


def test_what_nvcc_alone_refuses_is_not_repaired():
    """The emulator, in which changes are tried, takes the file as it is: each would seem right."""
    runner = Runner(SOURCE, stores_in("cols"))
    refused = failure(runner)
    verdict = Verdict(Status.compile_error, 'identifier "uintptr_t" is undefined', "nvcc")
    refused = replace(refused, result=replace(refused.result, verdict=verdict))
    assert Repairs().cause_of(runner, refused) is None and not runner.opened
    compiled = replace(refused.result, verdict=replace(verdict, pattern="compile"))
    assert Repairs().cause_of(runner, replace(refused, result=compiled)) is not None


def test_behind_a_right_change_few_others_are_tried(monkeypatch):
    def tried(most):
        monkeypatch.setattr(repairs, "MOST_BESIDE", most)
        monkeypatch.setattr(repairs, "ABOUT_AS_LIKELY", 20)
        runner = Runner(SOURCE, stores_in("cols"))
        assert Repairs().cause_of(runner, failure(runner)) is not None
        return sum(each.has_run for each in runner.opened)

    none, few = tried(0), tried(8)
    assert few <= none + 8 and none < few < tried(1000)


def test_the_next_changes_are_made_while_others_are_tried(monkeypatch):
    monkeypatch.setattr(repairs, "AT_FIRST", 1)
    monkeypatch.setitem(repairs.AT_ONCE, "triton", 1)
    events = []

    class Watched(Runner):
        def run(self, case):
            events.append("run")
            return super().run(case)

        once = run

        def altered(self, copies, entries):
            events.append("begun")
            made = [Watched(each, self.is_right) for each in copies]
            return Coming(lambda: events.append("taken") or made, lambda: events.append("closed"))

    runner = Watched(SOURCE, stores_in("cols"))
    failing = failure(runner)
    events.clear()
    assert Repairs().cause_of(runner, failing) is not None
    assert events[:4] == ["begun", "begun", "taken", "run"]
    assert events.count("begun") == events.count("taken") + events.count("closed")


def test_a_change_that_fails_at_larger_sizes_as_the_mistake_does_is_not_told():
    runner = Runner(SOURCE, lambda source, n: n <= 3 or (n < 4000 and "offs < cols" in source))
    failing = failure(runner)
    assert Repairs().cause_of(runner, failing) is not None
    beyond = [Case((("n", 4097),), "float32", 7)]
    assert Repairs().cause_of(runner, replace(failing, beyond=beyond)) is None


def test_a_change_with_which_programs_do_each_others_work_is_not_told():
    runner = Runner(SOURCE, stores_in("cols"))
    runner.stored = lambda source: 1 << 20
    assert Repairs().cause_of(runner, failure(runner)) is None
    runner.stored = lambda source: 70 * 4
    assert Repairs().cause_of(runner, failure(runner)) is not None


def test_memory_that_needs_to_be_cleared_is_told_though_kernels_store_to_scratch():
    text = SOURCE.replace("    k[(1,)]", "    sums = torch.empty(64)\n    k[(1,)]")
    runner = Runner(text, lambda source, n: n <= 3 or "torch.zeros(64)" in source)
    runner.stored = lambda source: 1 << 20
    failing = failure(runner)
    result = replace(failing.result, verdict=Verdict(Status.wrong_values))
    cause = Repairs().cause_of(runner, replace(failing, result=result))
    assert cause.what == "Nothing sets the memory of `torch.empty` before the kernel adds to it"


@pytest.mark.parametrize("right", ["elsewhere", "passing"])
def test_a_change_that_does_more_where_all_is_right_without_it_is_not_told(monkeypatch, right):
    """A loop that visits everything is right, too, and not what is meant."""
    runner = Runner(SOURCE, stores_in("cols"))
    runner.bytes = lambda source: 240 if stores_in("cols")(source, 70) else 200
    cases = [Case((("n", n),), "float32", 7) for n in (2, 3)]
    failing = replace(failure(runner), **{"elsewhere": [], right: cases})
    assert Repairs().cause_of(runner, failing) is None
    runner.bytes = lambda source: 200
    assert Repairs().cause_of(runner, failing) is not None
    more = property(lambda self: 8 if "x, mask=offs < cols)" in self.source else 1)
    monkeypatch.setattr(Runner, "programs", more)
    assert Repairs().cause_of(runner, failing) is None


@pytest.mark.parametrize(
    ("name", "is_told"), [("odd_index", True), ("index", True), ("loop", False)]
)
def test_an_index_is_told_though_the_elements_at_it_are_more_bytes(monkeypatch, name, is_told):
    """All weights are more bytes than the one of a row, where x is 0 and either is right."""
    runner = Runner(SOURCE, stores_in("cols"))
    runner.bytes = lambda source: 240 if stores_in("cols")(source, 70) else 200
    failing = failure(runner)
    edit = next(e for e in repairs.proposals(runner, failing) if "cols" in e.changes[0].new)
    monkeypatch.setattr(repairs, "proposals", lambda *_: [replace(edit, name=name)])
    cases = [Case((("n", n),), "float32", 7) for n in (2, 3)]
    assert bool(Repairs().cause_of(runner, replace(failing, passing=cases))) is is_told


@pytest.mark.parametrize(("advice", "lines"), [("", [1, 2]), (repairs.EITHER, [1])])
def test_of_two_changes_of_which_one_is_meant_a_message_shows_one_line(advice, lines):
    source = "a = x\nb = y\n"
    changes = (Change(4, 5, "y"), Change(10, 11, "x"))
    edit = Edit("exchanged", changes, 1, "`x` and `y` are exchanged", advice, 1)
    assert [each.line for each in repairs._cause(edit, source).code] == lines


def test_of_a_statement_that_moves_the_line_that_it_leaves_is_shown():
    moved = Edit("order", (Change(0, 0, "b = y\n"), Change(6, 11, "")), 2, "too late", "", 1)
    [line] = repairs._cause(moved, "a = x\nb = y\n").code
    assert (line.line, line.start, line.length) == (2, 0, 5)


def test_what_something_is_put_behind_is_marked():
    edit = Edit("unread", (Change(12, 12, " * w"),), 1, "`x[c]` lacks `* w`", "", 1)
    [line] = repairs._cause(edit, "y = r + x[c] + b\n").code
    assert line.text[line.start : line.start + line.length] == "x[c]"


@pytest.mark.parametrize(
    ("names", "new", "is_more"),
    [
        (("unread", "unread"), (" * w", " * w"), False),  # factors of one product
        (("rounded_down", "stop"), ("cdiv(n, 4)", "n // 4 + 1"), False),
        (("past_filled", "past_filled"), ("w < 8", "w < (n + 31) / 32"), False),
        (("name", "name"), ("rows", "cols"), True),
    ],
)
def test_another_change_of_a_line_is_told_only_if_it_is_about_something_else(names, new, is_more):
    edits = [
        Edit(name, (Change(at, at, text),), 1, f"{name} {at}", "", 1)
        for at, (name, text) in enumerate(zip(names, new, strict=True))
    ]
    assert repairs._says_more(*edits) is is_more


def test_the_place_of_a_known_mistake_is_looked_for_among_the_likeliest(monkeypatch):
    runner = Runner(SOURCE, stores_in("cols"))
    known = replace(failure(runner), is_known=True)
    assert Repairs().cause_of(runner, known) is not None
    monkeypatch.setattr(repairs, "MOST_TO_PLACE", 0)
    assert Repairs().cause_of(runner, known) is None


@pytest.mark.parametrize(
    "is_right",
    [
        lambda source, n: n <= 3,  # nothing helps
        lambda source, n: n <= 3 or (n < 70 and "offs < cols" in source),  # not all cases
        lambda source, n: ("offs < cols" in source) == (n > 3),  # what passed fails then
    ],
)
def test_a_change_that_is_right_in_some_cases_only_is_not_told(is_right):
    runner = Runner(SOURCE, is_right)
    tries = Repairs()
    assert tries.cause_of(runner, failure(runner)) is None
    assert all(each.closed for each in runner.opened)
    tried = len(runner.opened)
    assert tries.cause_of(runner, failure(runner)) is None and len(runner.opened) == tried


def test_a_change_has_to_be_right_in_cases_of_other_size_classes():
    seen = []

    def is_right(source, n):
        seen.append(n)
        return n <= 3 or (n != 4096 and "offs < cols" in source)

    runner = Runner(SOURCE, is_right)
    failing = failure(runner)
    assert Repairs().cause_of(runner, failing) is not None
    elsewhere = [Case((("n", 4096),), "float32", 7)]
    assert Repairs().cause_of(runner, replace(failing, elsewhere=elsewhere)) is None
    assert 4096 in seen


@pytest.mark.parametrize("is_before", [True, False])
def test_what_fails_elsewhere_in_another_way_with_and_without_a_change_is_a_second_mistake(
    is_before,
):
    def is_right(source, n):
        is_changed = "offs < cols" in source
        if n == 4096:
            return Status.invalid_read if is_changed or is_before else Status.passed
        return n <= 3 or is_changed

    runner = Runner(SOURCE, is_right)
    elsewhere = [Case((("n", 4096),), "float32", 7)]
    cause = Repairs().cause_of(runner, replace(failure(runner), elsewhere=elsewhere))
    assert (cause is not None) == is_before


def test_a_repair_is_tried_on_edge_cases_of_every_size_class():
    chosen = causes._elsewhere(SPACE)
    for size_class in TASK.variant.size_classes:
        edges = Space(TASK, "float32", size_class, 7).edges()
        assert {edges[0], edges[-1]} <= set(chosen)
    assert 16385 in {case.size("n") for case in chosen}  # a rest that small cases don't show


def two_ways(source, n):
    """Whether a load or the store has another size, either of which makes all cases right."""
    return n <= 3 or source.count("offs < cols") == 1


def test_of_changes_that_are_right_the_one_that_moves_least_is_told():
    runner = Runner(SOURCE, two_ways)
    runner.bytes = lambda text: 8 if "x_ptr + offs, mask=offs < cols" in text else 16
    cause = Repairs().cause_of(runner, failure(runner))
    assert cause.code[0].line == LINE - 1 and "or, at line" not in cause.what
    assert sum(not each.closed for each in runner.opened) == 1


def test_of_changes_that_are_as_good_two_places_are_told():
    runner = Runner(SOURCE, two_ways)
    runner.bytes = lambda text: 8
    cause = Repairs().cause_of(runner, failure(runner))
    assert f"or, at line {LINE - 1}, `offs < rows` stands" in cause.what
    assert cause.advice == repairs.EITHER
    assert sum(not each.closed for each in runner.opened) == 1


def test_two_masks_of_one_access_are_told_as_one():
    text = SOURCE.replace("x, mask=offs < rows)", "x)")
    runner = Runner(text, lambda source, n: n <= 3 or source.count("mask=offs") > 1)
    runner.bytes = lambda text: 8
    cause = Repairs().cause_of(runner, failure(runner))
    assert "mask" in cause.what and "; or" not in cause.what
    assert cause.advice != repairs.EITHER


def test_of_three_changes_that_are_as_good_all_places_are_told():
    source = SOURCE.replace(
        "    tl.store(", "    y = tl.load(x_ptr, mask=offs < rows)\n    tl.store("
    )
    runner = Runner(source, two_ways)
    runner.bytes = lambda text: 8
    cause = Repairs().cause_of(runner, failure(runner))
    assert cause.what.count("or, at line") == 2


def test_what_outputs_show_is_told_with_the_change_that_mends_it():
    shown = causes.Cause("from_zero", "The maximum begins at 0", "Begin at -inf.", is_unplaced=True)
    placed = causes.Cause("number", "`0.0` stands where `-inf` belongs", "", ())
    told = causes._at_place(shown, placed)
    assert (told.what, told.advice) == (shown.what, f"{placed.what}.")
    assert causes._at_place(replace(shown, name="factor"), placed) is placed


def test_a_repair_is_tried_where_one_size_is_large_beside_the_others():
    chosen = causes._elsewhere(SPACE)
    for name in TASK.exercise.sizes_names:
        edges = SPACE.edges()
        largest = max(causes._share_of(name, case) for case in edges)
        assert any(causes._share_of(name, case) == largest for case in chosen)
    [beyond] = causes._beyond(SPACE, chosen)
    assert beyond.size("n") > causes.TIMES * max(case.size("n") for case in chosen)


def test_a_change_that_gives_up_the_lesson_is_told_only_where_no_other_is_right(monkeypatch):
    runner = Runner(SOURCE, two_ways)
    runner.bytes = lambda text: 8
    load = "x_ptr + offs, mask=offs < cols"
    monkeypatch.setattr(
        repairs.memory_use, "keeps_its_lesson", lambda runner, seed: load not in runner.source
    )
    cause = Repairs().cause_of(runner, failure(runner))
    assert cause.code[0].line == LINE and "or, at line" not in cause.what
    monkeypatch.setattr(repairs.memory_use, "keeps_its_lesson", lambda runner, seed: False)
    assert Repairs().cause_of(runner, failure(runner)) is not None


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_return_before_a_barrier_is_weak_only_where_something_else_is_wrong(
    monkeypatch, is_whole
):
    monkeypatch.setattr(repairs.memory_use, "keeps_its_lesson", lambda runner, seed: True)
    runner = Runner(SOURCE, lambda source, n: is_whole or n <= 3)
    edit = Edit(repairs.WEAK, (), 1, "Threads return here", "", 1)
    failed = failure(Runner(SOURCE, lambda source, n: n <= 3))
    assert repairs._is_weak(runner, failed, edit) is not is_whole


@pytest.mark.parametrize(("padding", "kept"), [("TILE + 1", True), ("TILE", False)])
def test_a_lesson_is_kept_if_memory_is_used_as_the_spec_asks(tmp_path, padding, kept):
    source = (SPECS["transpose"].reference / "transpose.cu").read_text()
    place = source.index("// --- v4")
    assert "[TILE + 1]" in source[place:]
    (tmp_path / "transpose.cu").write_text(
        source[:place] + source[place:].replace("[TILE + 1]", f"[{padding}]")
    )
    task = Task(SPECS["transpose"], SPECS["transpose"].variants["cuda_v4"])
    with Session(tmp_path, SPECS, Options(device="cpu")) as session:
        runner = session.runners.planned(task)
        assert repairs.memory_use.keeps_its_lesson(runner, 7) is kept


def test_what_explained_one_part_is_tried_first_on_the_next():
    runner = Runner(SOURCE, stores_in("cols"))
    tries = Repairs()
    first = tries.cause_of(runner, failure(runner))
    tried = len(runner.opened)
    assert tries.again(runner, failure(runner)) == first
    assert len(runner.opened) == tried  # nothing was built anew
    tries.close()
    assert all(each.closed for each in runner.opened)


def test_a_part_with_a_known_cause_isnt_explained_again():
    runner = Runner(SOURCE, stores_in("cols"))
    results = [runner.run(case) for case in CASES]
    known = Causes()
    failed = Failed(SPACE, runner, results, results[1])
    assert known.again(failed) is None
    cause = known.of(failed)
    assert known.again(failed) == cause


@pytest.mark.parametrize(
    ("first", "other", "apart", "is_tried"),
    [
        ("quotients", "name", repairs.ABOUT_AS_LIKELY_EXCHANGED, True),
        ("quotients", "name", repairs.ABOUT_AS_LIKELY_EXCHANGED + 1, False),
        ("quotients", "number", repairs.ABOUT_AS_LIKELY + 1, False),
        ("number", "exchanged", repairs.ABOUT_AS_LIKELY + 1, False),
        ("number", "exchanged", repairs.ABOUT_AS_LIKELY, True),
    ],
)
def test_what_undoes_an_exchange_elsewhere_is_tried_though_it_is_less_likely(
    first, other, apart, is_tried
):
    right = [(Edit(first, (Change(0, 1, "x"),), 1, "", "", 4), Runner("", None))]
    edit = Edit(other, (Change(5, 6, "y"),), 2, "", "", 4 + apart)
    assert repairs._may_be_meant(edit, right) == is_tried


def test_of_changes_by_name_those_behind_others_are_proposed_too(monkeypatch):
    runner = Runner(SOURCE, stores_in("cols"))
    failing = failure(runner)
    every = repairs.proposals(runner, failing)
    last = next(each.name for each in reversed(every) if each.name != every[0].name)
    monkeypatch.setitem(repairs.MOST_TRIED, "triton", 1)
    assert [each.name for each in repairs.proposals(runner, failing)] == [every[0].name]
    only = replace(failing, only=frozenset({last}))
    assert [each.name for each in repairs.proposals(runner, only)] == [last]


def test_one_case_alone_proves_nothing():
    runner = Runner(SOURCE, lambda source, n: "offs < cols" in source)
    result = runner.run(CASES[0])
    assert Repairs().cause_of(runner, failing_of(result, [result], None)) is None


def test_a_source_that_is_too_long_is_left_alone(monkeypatch):
    monkeypatch.setattr(repairs, "MOST_CHARACTERS", 100)
    runner = Runner(SOURCE, stores_in("cols"))
    assert Repairs().cause_of(runner, failure(runner)) is None and not runner.opened


# --- end to end --------------------------------------------------------------------------------

LITTLE = Effort(edges=8, drawn=0, shrink_runs=8, shrink_seconds=4, probe_seconds=1, reruns=2)
TRITON = """
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, x / (1 + tl.exp(-x)), mask=offs <= n)


def silu(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
"""
CUDA = """
#include <cuda_runtime.h>
__global__ void silu_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[threadIdx.x] = x[i] / (1.0f + expf(-x[i]));
}
extern "C" void silu(const float* x, float* out, int n) {
    silu_kernel<<<(n + 63) / 64, 64>>>(x, out, n);
}
"""


@pytest.mark.parametrize(
    ("variant", "text", "told", "place"),
    [
        ("triton", TRITON, "`offs <= n` stands where `offs < n` belongs", "<="),
        ("cuda", CUDA, "`out[threadIdx.x]` stands where `out[i]` belongs", "out[threadIdx.x]"),
    ],
)
def test_a_mistake_is_told_once_for_all_parts(tmp_path, variant, text, told, place):
    task = Task(SPECS["silu"], SPECS["silu"].variants[variant])
    (tmp_path / task.variant.file).write_text(text)
    parts = [("float32", "ragged"), ("float32", "aligned")]
    with Session(tmp_path, SPECS, Options(device="cpu", effort=LITTLE)) as session:
        found = check_parts(session, task, parts)
    [message] = merged_messages(VariantEvidence("silu", variant, task.variant.file, parts=found))
    assert message.headline.startswith(f"silu/{variant}: `") and told in message.headline
    assert place in message.frame and "^" * len(place) in message.frame


def test_a_change_with_which_no_large_size_can_be_launched_is_not_told(tmp_path):
    """With as many threads as blocks and blocks as threads, small sizes are right."""
    task = Task(SPECS["silu"], SPECS["silu"].variants["cuda"])
    wrong = CUDA.replace("64", "256").replace("63", "255").replace("out[threadIdx.x]", "out[i]")
    wrong = wrong.replace("void silu_kernel", "void __launch_bounds__(128) silu_kernel")
    end = "(x, out, n);\n    cudaError_t error = cudaGetLastError();\n"
    (tmp_path / "silu.cu").write_text(wrong.replace("(x, out, n);\n", end))
    with Session(tmp_path, SPECS, Options(device="cpu", effort=LITTLE)) as session:
        found = check_parts(session, task, [("float32", "ragged")])
    [message] = merged_messages(VariantEvidence("silu", "cuda", "silu.cu", parts=found))
    assert found[0].status is Status.launch_error and "exchanged" not in message.headline
    assert "promises at most 128" in message.headline + message.body


def test_a_sum_that_is_0_is_told_by_what_makes_it_so(tmp_path):
    task = Task(SPECS["rmsnorm"], SPECS["rmsnorm"].variants["cuda_matrix"])
    right = (ROOT / "reference" / "rmsnorm.cu").read_text()
    assert right.count("block_sum(sum) / cols") == 1
    wrong = right.replace("block_sum(sum) / cols", "block_sum(sum) * (1 / cols)")
    (tmp_path / "rmsnorm.cu").write_text(wrong)
    with Session(tmp_path, SPECS, Options(device="cpu", effort=LITTLE)) as session:
        found = check_parts(session, task, [("float32", "ragged")])
    [message] = merged_messages(
        VariantEvidence("rmsnorm", "cuda_matrix", "rmsnorm.cu", parts=found)
    )
    assert "of whole numbers is 0 for every n above 1" in message.headline
    assert "1 / cols" in message.frame


def test_parameters_in_another_order_are_told_before_what_follows_from_it(tmp_path):
    task = Task(SPECS["silu"], SPECS["silu"].variants["triton"])
    given = TRITON.replace("silu(x, out):", "silu(out, x):").replace("<= n", "< n")
    (tmp_path / "silu.py").write_text(given)
    with Session(tmp_path, SPECS, Options(device="cpu", effort=LITTLE)) as session:
        found = check_parts(session, task, [("float32", "ragged")])
    [message] = merged_messages(VariantEvidence("silu", "triton", "silu.py", parts=found))
    assert "The parameters of `silu` stand in another order than in the stub" in message.headline


def test_the_cause_of_one_given_case_is_tried_on_others(tmp_path):
    task = Task(SPECS["silu"], SPECS["silu"].variants["triton"])
    (tmp_path / task.variant.file).write_text(TRITON)
    case = Case((("n", 5),), "float32", 7)
    with Session(tmp_path, SPECS, Options(device="cpu", effort=LITTLE)) as session:
        part = check_case(session, task, case)
    assert (part.cases_run, part.failures[0].case) == (1, str(case))
    [message] = merged_messages(VariantEvidence("silu", "triton", "silu.py", parts=(part,)))
    assert "`offs <= n` stands where `offs < n` belongs" in message.headline


class Seen:
    """A sieve's word on edits, by their places."""

    def __init__(self, right=(), refused=()):
        self._word = dict.fromkeys(refused, False) | dict.fromkeys(right, True)

    def words(self, places):
        return {place: self._word.get(place) for place in places}


@pytest.mark.parametrize(
    ("seen", "wanted", "built"),
    [
        (Seen(), 8, [[[0, 1, 2]], [[3, 4, 5]], [[6, 7]]]),  # nothing is known: as they come
        (Seen(refused=[1, 2, 3, 4]), 8, [[[0], [5]], [[6, 7]]]),  # three at once, at most
        (Seen(refused=[1, 2, 4, 5], right=[3]), 8, [[[0], [3]], [[6, 7]]]),  # up to a right one
        (Seen(refused=range(8)), 8, []),
        (Seen(), 4, [[[0, 1, 2]], [[3]]]),  # the others are too unlikely
    ],
)
def test_what_a_sieve_leaves_is_built_in_order_and_stays_in_its_batch(seen, wanted, built):
    left = repairs._left(range(8), seen, 3, lambda edit: edit < wanted)
    some = [[batch for batch in each if batch] for each in left]
    assert [each for each in some if each] == built


class Made:
    """What a sieve was asked to do."""

    def __init__(self):
        self.events = []

    def begin(self, edits):
        self.events.append("begun")

    def close(self):
        self.events.append("closed")


@pytest.mark.parametrize(
    ("wanted", "events", "built"),
    [
        (range(20), ["begun"], []),
        (range(5), ["begun"], []),
        (range(4), ["begun", "closed"], [[0, 1, 2, 3]]),
        ([], ["begun", "closed"], []),
    ],
)
def test_few_edits_that_are_still_wanted_are_built_without_the_sieve(
    monkeypatch, wanted, events, built
):
    made = []
    monkeypatch.setattr(repairs, "_altered", lambda _, edits: made.append(edits) or Coming(tuple))
    file = repairs._File(None, range(20), sieve := Made(), 12, True)
    kept = file.of_wanted(lambda edit: edit in wanted, 4)
    assert (sieve.events, made) == (events, built)
    assert (kept is None) == (not wanted)
    assert kept is None or [*kept.edits] == ([*wanted] if built else [*range(20)])


IN_CUDA = Task(SPECS["silu"], SPECS["silu"].variants["cuda"])


@pytest.mark.skipif(bool(cuda_build.why_not("emulator")), reason="needs g++")
def test_edits_of_cuda_that_a_sieve_refuses_are_not_built(tmp_path, monkeypatch):
    source = (SPECS["silu"].reference / "silu.cu").read_text()
    assert "1.0f + expf(-x)" in source
    (tmp_path / "silu.cu").write_text(source.replace("1.0f + expf(-x)", "1.0f + expf(x)"))
    monkeypatch.setitem(repairs.AT_ONCE, "cuda", 3)
    monkeypatch.setitem(repairs.IN_ONE_FILE, "cuda", 3)
    built = []
    altered = PlannedNativeRunner.altered

    def counted(self, copies, entries):
        built.append(len(copies))
        return altered(self, copies, entries)

    monkeypatch.setattr(PlannedNativeRunner, "altered", counted)
    with Session(tmp_path, SPECS, Options(device="cpu")) as session:
        runner = session.runners.planned(IN_CUDA)
        cases = [Case((("n", n),), "float32", 7) for n in (5, 70, 300)]
        failing = failing_of(runner.once(cases[0]), [runner.once(each) for each in cases], None)
        proposed = repairs.proposals(runner, failing)
        place = [edit.what for edit in proposed].index("`x` stands where `-x` belongs")
        cause = Repairs().cause_of(runner, replace(failing, seconds=600.0))
    assert cause.what == "`x` stands where `-x` belongs"
    assert sum(built) < place / 2
