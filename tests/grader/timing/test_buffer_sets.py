"""Buffer sets for the clock: new inputs and poison for each replay, every output judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch

from grader.cases import Case, oracle
from grader.sandbox.memfd import Memfds
from grader.spec import Scalar, load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing.buffer_sets import BufferSets, GradedBufferSets, Layout, buffer_sets_that_fit

EXERCISES = load_all()
SIZES = {
    "silu": {"n": 5000},
    "softmax": {"rows": 40, "cols": 130},
    "rmsnorm": {"rows": 40, "cols": 130},
    "transpose": {"rows": 70, "cols": 90},
    "gemm": {"M": 33, "N": 47, "K": 65},
    "flash_attention": {"Z": 1, "H": 2, "N_CTX": 40, "N_KV": 50, "HEAD_DIM": 32},
}
TIMED = [
    pytest.param(name, variant, dtype, id=f"{name}-{variant}-{dtype}")
    for name, exercise in EXERCISES.items()
    for variant, each in exercise.variants.items()
    if each.is_graded_on_speed
    for dtype in each.dtypes
]
COUNT = 4
ALL = range(COUNT)


class Bench:
    """Buffer sets in memory of this process, and a worker that is simply torch."""

    def __init__(self, name: str, variant: str, dtype: str, count: int = COUNT) -> None:
        self.exercise = EXERCISES[name]
        self.variant = self.exercise.variants[variant]
        task = Task(self.exercise, self.variant)
        scalars = tuple(
            (each.name, each.values[0]) for each in task.signature if isinstance(each, Scalar)
        )
        case = Case(tuple(SIZES[name].items()), dtype, 7, "normal", scalars=scalars)
        self.layout = Layout.of(task, case)
        self.arena = Memfds(*self.layout.bytes(count))
        self.sets = GradedBufferSets(self.arena, task, case, count)
        self.own = oracle.load(self.exercise.oracle).own

    def tensors(self, number: int) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
        """Inputs by name, and outputs, of a set."""
        given = dict(self.sets._views(number, "input"))
        outputs = [view for _, view in self.sets._views(number, "output")]
        return {slot.name: view for slot, view in given.items()}, outputs

    def compute(self, order: Sequence[int] = ALL) -> None:
        for number in order:
            inputs, outputs = self.tensors(number)
            results = self.own(inputs, self.layout.inputs.scalars)
            for output, result in zip(outputs, results, strict=True):
                output.copy_(result)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench("rmsnorm", "triton", "float32")
    yield made
    made.arena.close()


@pytest.mark.parametrize(("name", "variant", "dtype"), TIMED)
def test_what_torch_computes_passes_in_any_sets_and_order(name, variant, dtype):
    bench = Bench(name, variant, dtype)
    for order in ([3, 0, 2, 1], [2, 1], [3]):
        bench.sets.fill(order)
        bench.compute(order)
        verdict = bench.sets.judge(order)
        assert verdict.status is Status.passed, verdict


@pytest.mark.parametrize(("name", "variant", "dtype"), TIMED)
def test_what_was_computed_in_an_earlier_replay_is_no_result_of_this_one(name, variant, dtype):
    bench = Bench(name, variant, dtype)
    bench.sets.fill(ALL)
    bench.compute()
    kept = [[out.clone() for out in bench.tensors(number)[1]] for number in ALL]
    assert bench.sets.judge(ALL).status is Status.passed
    bench.sets.fill(ALL)
    assert bench.sets.judge(ALL).status is Status.not_written
    for number in ALL:
        for out, earlier in zip(bench.tensors(number)[1], kept[number], strict=True):
            out.copy_(earlier)
    assert bench.sets.judge(ALL).status is Status.wrong_values


def test_no_value_of_an_input_is_left_from_the_replay_before(bench):
    """A kernel may keep what it likes: every element is drawn anew, in every set of the order."""
    bench.sets.fill(ALL)
    before = [{n: v.clone() for n, v in bench.tensors(number)[0].items()} for number in ALL]
    bench.sets.fill(ALL)
    for number in ALL:
        for name, values in bench.tensors(number)[0].items():
            for earlier in before:
                same = (values == earlier[name]).float().mean()
                assert same < 0.001, (number, name)


def test_outputs_hold_poison_of_their_own_before_each_replay(bench):
    seen = []
    for _ in range(2):
        bench.sets.fill(ALL)
        outputs = bench.tensors(0)[1]
        assert outputs[0].isnan().all()
        seen.append(outputs[0].view(torch.int32).clone())
        bench.compute()
    assert not seen[0].equal(seen[1])


def test_sets_that_are_not_in_the_order_are_left_alone(bench):
    bench.sets.fill(ALL)
    before = bench.tensors(3)[0]["x"].clone()
    bench.sets.fill([1])
    assert bench.tensors(3)[0]["x"].equal(before)


def test_a_set_that_was_left_out_is_seen(bench):
    bench.sets.fill(ALL)
    bench.compute([0, 1, 3])
    verdict = bench.sets.judge(ALL)
    assert verdict.status is Status.not_written and verdict.what.startswith("in a timed call: ")


@pytest.mark.parametrize("last", ALL)
def test_one_wrong_element_of_one_set_is_seen(bench, last):
    for _ in range(2):  # the first set of all is what the first looks learn from
        bench.sets.fill(ALL)
        bench.compute()
        bench.tensors(last)[1][0][17, 5] += 1.0
        assert bench.sets.judge(ALL).status is Status.wrong_values


@pytest.mark.parametrize("beside", [-1, 40 * 130])
def test_what_is_written_beside_an_output_is_seen(bench, beside):
    bench.sets.fill(ALL)
    bench.compute()
    output = bench.tensors(1)[1][0]
    beside += output.storage_offset()
    output.as_strided((1,), (1,), beside).fill_(1.0)
    verdict = bench.sets.judge(ALL)
    assert verdict.status is Status.wrote_out_of_bounds


@pytest.mark.parametrize("wrong", [(), (1,), (3,), (1, 2)])
def test_only_the_sets_in_doubt_are_judged_in_float64(bench, monkeypatch, wrong):
    """After the first replay: here each set with an element far off, until the first is wrong."""
    bench.sets.fill(ALL)
    bench.compute()
    assert bench.sets.judge(ALL).passed
    asked = []
    judge_set = bench.sets._judge_set
    monkeypatch.setattr(
        bench.sets,
        "_judge_set",
        lambda number, *more: [asked.append(number), judge_set(number, *more)][1],
    )
    bench.sets.fill(ALL)
    bench.compute()
    for number in wrong:
        bench.tensors(number)[1][0][3, 4] += 1.0
    verdict = bench.sets.judge(ALL)
    assert verdict.passed == (not wrong) and asked == [*wrong[:1]]


def test_inputs_of_our_own_are_drawn_once_and_nobody_judges(bench):
    ours = BufferSets(bench.arena, bench.layout, COUNT)
    ours.fill([2])
    before = bench.arena.inputs.clone()
    assert all(view.any() for number in ALL for _, view in ours._views(number, "input"))
    ours.fill(ALL)
    assert bench.arena.inputs.equal(before)
    assert ours.judge(ALL).passed


def test_what_is_read_and_written_or_lies_in_host_memory_is_refused():
    exercise = EXERCISES["copy_first_column"]
    variant = exercise.variants["cuda"]
    case = Case((("rows", 4), ("cols", 5)), "float32", 7)
    with pytest.raises(ValueError, match="in host memory can't be timed"):
        Layout.of(Task(exercise, variant), case)


def test_as_many_sets_as_fit():
    layout = Bench("silu", "triton", "float32").layout
    one = sum(layout.bytes(1))
    assert buffer_sets_that_fit(layout, 9 * one, (16, 8, 4)) == 8
    assert buffer_sets_that_fit(layout, one - 1, (4, 1)) == 0
