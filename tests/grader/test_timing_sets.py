"""Sets of buffers for the clock: every output of a timed call is graded, and must be in time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grader import oracle
from grader.arena import Arena, Slot
from grader.cases import Case
from grader.spec import Scalar, load_all
from grader.status import Status
from grader.timing.graded_sets import GradedSets
from grader.timing.sets import PATCHED, SAMPLED, UNIT, Layout, Sets, elements, sets_that_fit

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
    if each.performance is not None
    for dtype in each.dtypes
]
COUNT = 4


class Bench:
    """Sets in memory of this process, and a worker that is simply torch."""

    def __init__(self, name: str, variant: str, dtype: str, count: int = COUNT) -> None:
        self.exercise = EXERCISES[name]
        self.variant = self.exercise.variants[variant]
        scalars = tuple(
            (each.name, each.values[0])
            for each in self.exercise.signature(self.variant)
            if isinstance(each, Scalar)
        )
        case = Case(tuple(SIZES[name].items()), dtype, 7, "normal", scalars=scalars)
        self.layout = Layout.of(self.exercise, self.variant, case)
        self.arena = Arena(*self.layout.bytes(count))
        self.sets = GradedSets(self.arena, self.exercise, self.variant, case, count)
        self.own = oracle.load(self.exercise.oracle).own

    def tensors(self, number: int) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
        """Inputs by name, and outputs, of a set."""
        given = dict(self.sets._views(number, "input"))
        outputs = [view for _, view in self.sets._views(number, "output")]
        return {slot.name: view for slot, view in given.items()}, outputs

    def compute(self, *numbers: int) -> None:
        for number in numbers:
            inputs, outputs = self.tensors(number)
            results = self.own(inputs, self.layout.inputs.scalars)
            for output, result in zip(outputs, results, strict=True):
                output.copy_(result)


@pytest.fixture
def bench():
    made = Bench("rmsnorm", "triton", "float32")
    yield made
    made.arena.close()


@pytest.mark.parametrize(("name", "variant", "dtype"), TIMED)
def test_what_torch_computes_in_time_passes(name, variant, dtype):
    bench = Bench(name, variant, dtype)
    for first, count in ((0, COUNT), (1, 2), (COUNT - 1, 1)):
        bench.sets.fill(first, count)
        bench.sets.patch()
        bench.compute(*range(first, first + count))
        verdict = bench.sets.judge(bench.sets.read_sample())
        assert verdict.status is Status.passed, verdict


@pytest.mark.parametrize(("name", "variant", "dtype"), TIMED)
def test_what_was_computed_before_the_request_is_wrong_and_the_sample_shows_it(
    name, variant, dtype
):
    bench = Bench(name, variant, dtype)
    bench.sets.fill(0, COUNT)
    bench.compute(*range(COUNT))
    bench.sets.patch()
    early = bench.sets.read_sample()
    assert bench.sets.judge(early).status is Status.wrong_values
    bench.compute(*range(COUNT))  # mended while nobody looks
    assert bench.sets.judge(early).status is Status.not_written
    late = bench.sets.read_sample()
    assert bench.sets.judge(late).status is Status.passed
    assert (early != late).float().mean() > 0.25  # a sample of places that hang on the patch


def test_elements_to_be_patched_are_different_ones_and_may_be_any(bench):
    weight, view = next(each for each in bench.sets._views(1, "input") if each[0].name == "weight")
    seen = set()
    for _ in range(60):
        patches = bench.sets._draw_patches(weight, view, 2)
        for places in patches.places:
            assert len(set(places.tolist())) == len(places) == min(PATCHED, 130)
            seen |= set(places.tolist())
    assert seen == set(range(130))


def test_patches_say_where_in_the_buffer_they_belong(bench):
    views = list(bench.sets._views(1, "input"))
    following = list(bench.sets._views(2, "input"))
    buffer = bench.arena.inputs.view(UNIT)
    for (slot, view), (_, after) in zip(views, following, strict=True):
        view.copy_(torch.arange(view.numel()).reshape(view.shape))
        after.copy_(-torch.arange(view.numel()).reshape(view.shape))
        patches = bench.sets._draw_patches(slot, view, 2)
        there = buffer[patches.units].view(torch.float32).reshape(patches.places.shape)
        assert there[0].tolist() == patches.places[0].tolist()
        assert there[1].tolist() == (-patches.places[1]).tolist()
        values = view.clone()
        bits = patches.apply(values, 0)
        changed = (values != view).flatten().nonzero()[:, 0].tolist()
        assert changed == sorted(patches.places[0].tolist())
        buffer[patches.units.reshape(2, -1)[0]] = bits
        assert torch.equal(view, values)


@pytest.mark.parametrize("strides", [(40, 1), (44, 1), (1, 30)])
def test_an_elements_offset_is_where_its_slot_has_it(strides):
    slot = Slot("x", "float32", (30, 40), strides)
    places = torch.randint(1200, (2, 50))
    offsets = elements(places, slot)
    memory = torch.zeros(slot.extent)
    memory.as_strided(slot.shape, strides).copy_(torch.arange(1200.0).reshape(30, 40))
    assert torch.equal(memory[offsets].to(torch.int64), places)


def test_what_torch_gives_back_as_it_is_still_shows_what_a_patch_changes(bench):
    bench.sets._oracle = replace(bench.sets._oracle, torch_own=lambda x, eps: x.t())
    x = torch.zeros(40, 130)
    before = bench.sets._own({"x": x})
    x[3, 4] = 1.0
    assert (before[0] != bench.sets._own({"x": x})[0]).nonzero().tolist() == [[4, 3]]


def test_a_set_that_was_left_out_is_seen(bench):
    bench.sets.fill(0, COUNT)
    bench.sets.patch()
    bench.compute(0, 1, 3)
    sample = bench.sets.read_sample()
    verdict = bench.sets.judge(sample)
    assert verdict.status is Status.not_written
    bench.compute(2)
    verdict = bench.sets.judge(sample)
    assert verdict.status is Status.not_written and "clock had stopped" in verdict.what


def test_one_wrong_element_of_one_set_is_seen(bench):
    bench.sets.fill(0, COUNT)
    bench.sets.patch()
    bench.compute(*range(COUNT))
    bench.tensors(2)[1][0][17, 5] += 1.0
    assert bench.sets.judge(bench.sets.read_sample()).status is Status.wrong_values


@pytest.mark.parametrize("beside", [-1, 40 * 130])
def test_what_is_written_beside_an_output_is_seen(bench, beside):
    bench.sets.fill(0, COUNT)
    bench.sets.patch()
    bench.compute(*range(COUNT))
    output = bench.tensors(1)[1][0]
    beside += output.storage_offset()
    output.as_strided((1,), (1,), beside).fill_(1.0)
    verdict = bench.sets.judge(bench.sets.read_sample())
    assert verdict.status is Status.wrote_out_of_bounds


def test_no_run_has_the_inputs_or_the_poison_of_another(bench):
    seen = []
    for _ in range(2):
        bench.sets.fill(0, COUNT)
        bench.sets.patch()
        for number in range(COUNT):
            inputs, outputs = bench.tensors(number)
            seen.append(inputs["x"].clone())
        seen_poison = outputs[0].view(torch.int32).clone()
        assert outputs[0].isnan().all()
        bench.compute(*range(COUNT))
    assert not any(a.equal(b) for i, a in enumerate(seen) for b in seen[:i])
    bench.sets.fill(0, COUNT)
    assert not bench.tensors(0)[1][0].view(torch.int32).equal(seen_poison)


def test_a_short_run_is_sampled_at_as_many_places_as_a_long_one(bench):
    lengths = set()
    for count in (1, 2, COUNT):
        bench.sets.fill(0, count)
        bench.sets.patch()
        lengths.add(len(bench.sets.read_sample()))
    assert lengths == {SAMPLED}


def test_inputs_of_our_own_stay_and_every_place_may_be_sampled(bench):
    ours = Sets(bench.arena, bench.layout, COUNT)
    ours.fill(0, COUNT)
    before = bench.arena.inputs.clone()
    assert before.any()
    ours.patch()
    ours.fill(1, 2)
    ours.patch()
    assert bench.arena.inputs.equal(before)
    assert len(ours.read_sample()) == SAMPLED


def test_what_is_read_and_written_or_lies_in_host_memory_is_refused():
    exercise = EXERCISES["copy_first_column"]
    variant = exercise.variants["cuda"]
    case = Case((("rows", 4), ("cols", 5)), "float32", 7)
    with pytest.raises(ValueError, match="in host memory can't be timed"):
        Layout.of(exercise, variant, case)


def test_as_many_sets_as_fit():
    layout = Bench("silu", "triton", "float32").layout
    one = sum(layout.bytes(1))
    assert sets_that_fit(layout, 9 * one, (16, 8, 4)) == 8
    assert sets_that_fit(layout, one - 1, (4, 1)) == 0
