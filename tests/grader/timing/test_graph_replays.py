"""Replays of one worker: new sets in a new order each time, every output judged, two clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from grader.sandbox.worker_process import Cause, Death
from grader.status import Status
from grader.timing import contenders, graph_replays
from grader.timing.failures import TimingFailed
from grader.timing.graph_replays import DECOYS, FEWEST_CALLS, SLACK_SECONDS, TARGET_SECONDS, Replays
from grader.worker.protocol import Code, Operation, Reply
from tests.grader.timing.test_buffer_sets import Bench
from tests.support import clocked
from tests.support.clocked import BESIDE, MadeUp, Time

SETS = 24
clock = clocked.clock


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench("silu", "triton", "float32", SETS)
    yield made
    made.arena.close()


@pytest.fixture
def of(bench: Bench, clock: Time) -> Callable[..., tuple[MadeUp, Replays]]:
    """A worker that computes what is asked, unless it's given other work; and its replays."""

    def make(work=bench.compute, **options: float) -> tuple[MadeUp, Replays]:
        worker: Any = MadeUp(clock, work, **options)
        return worker, Replays(worker, bench.sets)

    return make


def test_a_worker_gets_the_arguments_of_every_set_before_the_first_replay(of, bench):
    worker, _ = of()
    assert worker.placed == {number: bench.sets.arguments(number) for number in range(SETS)}
    assert worker.asked == [Operation.place] * SETS


def test_replays_are_over_random_sets_in_random_order(of):
    worker, timed = of(seconds=2e-4)
    timed.settle()
    assert timed.calls == 10
    del worker.orders[:]
    for _ in range(40):
        timed.seconds()
    assert all(len({*order}) == 10 for order in worker.orders)
    assert len({*worker.orders}) == 40
    assert {number for order in worker.orders for number in order} == {*range(SETS)}
    firsts = Counter(order[0] for order in worker.orders)
    assert len(firsts) > SETS / 3  # of 24 sets, 40 draws leave out 4 as a rule
    assert any(list(order) != sorted(order) for order in worker.orders)


def test_a_replay_that_was_begun_is_arranged_once(of):
    worker, timed = of(seconds=2e-4)
    worker.asked.clear()
    timed.begin()
    assert worker.asked == [Operation.arrange]
    timed.settle()
    assert worker.asked == [Operation.arrange, Operation.replay, Operation.replay] * 2


def test_a_baseline_in_python_is_arranged_anew_only_for_another_number_of_calls(bench, clock):
    worker: Any = MadeUp(clock, bench.compute, seconds=2e-4)
    timed = Replays(worker, bench.sets, keeps_order=True)
    timed.settle()
    worker.asked.clear()
    timed.seconds()
    timed.seconds()
    assert worker.asked == [Operation.arrange, *[Operation.replay] * 4]
    assert len(worker.orders[-1]) == timed.calls == 10


def test_a_worker_that_ends_as_a_replay_is_begun_is_told_when_it_is_prepared(of):
    worker, timed = of()
    worker.post = lambda *_, **__: Death(Cause.exited, "exit status 1")
    timed.begin()
    timed.abandon()
    with pytest.raises(TimingFailed):
        timed.prepare()


def test_a_call_takes_its_share_of_the_time_that_the_device_tells(of):
    _, timed = of(seconds=1.5e-4)
    assert timed.settle() == pytest.approx(1.5e-4)
    assert timed.seconds() == pytest.approx(1.5e-4)


@pytest.mark.parametrize(
    ("seconds", "calls"),
    [(1e-6, SETS - DECOYS), (TARGET_SECONDS / 10, 10), (TARGET_SECONDS, FEWEST_CALLS), (1.0, 1)],
)
def test_a_replay_is_long_against_what_requests_differ_by_but_not_too_long(of, seconds, calls):
    _, timed = of(seconds=seconds)
    timed.settle()
    assert timed.calls == calls


def test_what_is_slow_has_time_for_its_replays(of):
    _, timed = of(seconds=30.0)
    timed.settle()
    assert timed._limits.cpu_seconds >= 10 * 30.0


def test_inputs_are_drawn_once_the_calls_are_arranged_and_nothing_runs_on_them_before(of, bench):
    """An arranged graph could be launched: on what was there before, which is of no use."""
    seen: list[tuple] = []

    def note(order) -> None:
        seen.append(tuple(bench.tensors(number)[0]["x"].clone() for number in order))
        bench.compute(order)

    worker, timed = of(work=note)
    worker.asked.clear()
    own_ask, arranged = worker.ask, []

    def ask(operation, *given, **more):
        answer = own_ask(operation, *given, **more)
        if operation is Operation.arrange:
            arranged.append([bench.tensors(number)[0]["x"].clone() for number in worker._order])
        return answer

    worker.ask = ask
    for _ in range(3):
        timed.seconds()
    assert worker.asked == [Operation.arrange, Operation.replay, Operation.replay] * 3
    for before, then in zip(arranged, seen, strict=True):
        assert all((a == b).float().mean() < 0.001 for a, b in zip(before, then, strict=True))


@pytest.mark.parametrize("which", [0, -1])
def test_every_timed_output_is_judged_and_a_wrong_one_ends_it(of, bench, which):
    def left_out(order) -> None:
        kept = list(order)
        del kept[which]
        bench.compute(kept)

    _, timed = of(work=left_out)
    timed.calls = 8
    with pytest.raises(TimingFailed, match="in a timed call") as caught:
        timed.seconds()
    assert caught.value.status is Status.not_written


def test_a_call_that_does_the_work_of_others_ahead_of_them_is_found_out(of, bench):
    """One launch for all sets has no end of a launch for each: it would look faster."""

    def all_at_once(order) -> None:
        bench.compute(range(SETS))

    _, timed = of(work=all_at_once)
    timed.calls = 8
    with pytest.raises(TimingFailed, match="the output of another call was written") as caught:
        timed.seconds()
    assert caught.value.status is Status.wrote_out_of_bounds
    _, honest = of()
    honest.calls = 8
    honest.seconds()
    assert len(honest._decoys) == DECOYS and not {*honest._decoys} & {*honest._order}


def test_a_result_that_was_kept_from_an_earlier_replay_is_wrong(of, bench):
    """Inputs are of the same sizes at the same place: to remember results would pay off."""
    kept: dict[int, object] = {}

    def remembers(order) -> None:
        for number in order:
            out = bench.tensors(number)[1][0]
            if number in kept:
                out.copy_(kept[number])
            else:
                bench.compute([number])
                kept[number] = out.clone()

    _, timed = of(work=remembers)
    timed.calls = SETS
    timed.seconds()
    with pytest.raises(TimingFailed, match="in a timed call") as caught:
        timed.seconds()
    assert caught.value.status is Status.wrong_values


def test_what_a_replay_computes_only_while_it_is_judged_does_not_count(of, bench):
    """prepare, replay and finish may lie apart: what counts is what was there at the judging."""
    _, timed = of(work=lambda order: None)
    timed.prepare()
    timed.replay()
    with pytest.raises(TimingFailed) as caught:
        timed.finish()
    assert caught.value.status is Status.not_written


# --- two clocks -----------------------------------------------------------------------------------


def test_an_honest_worker_and_the_graders_clock_agree(of):
    _, timed = of()
    timed.settle()
    for _ in range(5):
        timed.seconds()
    assert timed.apart == 0.0


@pytest.mark.parametrize("told", [0.5, 0.9, 0.94])
def test_a_worker_that_tells_of_less_time_than_it_took_is_seen(of, told):
    worker, timed = of(told=told)
    timed.settle()
    for _ in range(5):
        timed.seconds()
    took = timed.calls * worker.seconds
    # By its own words it took `told` of that, and requests may differ by a little.
    off = took - told * took - SLACK_SECONDS
    assert timed.apart == pytest.approx(off / (told * took))
    # The time that counts then is, but for the slack, what the replay took.
    assert told * took * (1 + timed.apart) == pytest.approx(took - SLACK_SECONDS)


def test_a_worker_that_tells_of_more_time_than_it_took_is_seen_too(of):
    _, timed = of(told=1.2)
    timed.settle()
    for _ in range(5):
        timed.seconds()
    assert timed.apart < -0.1


@pytest.mark.parametrize("later", [0.5, -0.5])
def test_what_requests_differ_by_is_nobodys_lie(of, clock, bench, later):
    def late(order) -> None:
        bench.compute(order)
        clock.now += later * SLACK_SECONDS

    _, timed = of(work=late)
    timed.settle()
    for _ in range(5):
        timed.seconds()
    assert timed.apart == pytest.approx(0.0, abs=1e-12)


def test_one_late_answer_is_no_lie(of, clock, bench):
    late = iter([0.0, 0.0, 0.0, 5e-3, 0.0, 0.0, 0.0])

    def now_and_then(order) -> None:
        bench.compute(order)
        clock.now += next(late)

    _, timed = of(work=now_and_then)
    timed.settle()
    for _ in range(5):
        timed.seconds()
    assert timed.apart == 0.0


def test_a_new_plan_is_timed_anew(of):
    worker, timed = of(told=0.5)
    timed.settle()
    timed.seconds()
    worker.told = 1.0
    timed.adopt(b"another")
    assert timed.calls == 1 and worker.documents == [b"another"]
    timed.settle()
    timed.seconds()
    assert timed.apart == 0.0


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"nanoseconds": true}', '{"nanoseconds": 1.5}', '{"nanoseconds": -1}',
     '{"nanoseconds": "9"}', f'{{"nanoseconds": {1 << 62}}}', '{"nanoseconds": NaN}', "\x00"],
)  # fmt: skip
def test_an_impossible_time_is_an_error_of_the_worker(of, text):
    worker, timed = of()
    worker.answers[Operation.replay] = Reply(9, Code.ok, text)
    with pytest.raises(TimingFailed, match="tells of no time") as caught:
        timed.seconds()
    assert caught.value.status is Status.crashed


def test_a_replay_of_no_time_at_all_is_none(of):
    worker, timed = of()
    worker.answers[Operation.replay] = Reply(9, Code.ok, '{"nanoseconds": 0}')
    with pytest.raises(TimingFailed, match="isn't above 0"):
        timed.seconds()


def test_an_answer_may_have_its_length_on_a_line_of_its_own(of, bench):
    worker, timed = of()
    text = '{"nanoseconds": 250000}'
    worker.answers[Operation.replay] = Reply(9, Code.ok, f"{len(text):016x}\n{text}")
    timed.prepare()
    assert timed.replay() == pytest.approx(250e-6)


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        (Death(Cause.timed_out, "timed out"), Status.timed_out, "the timed run ended: timed out"),
        (Death(Cause.signalled, "killed by SIGSEGV"), Status.crashed, "killed by SIGSEGV"),
        (Reply(1, Code.out_of_memory), Status.not_measured, "too little memory"),
        (
            Reply(1, Code.device_failed, '{"type": "CUDA_ERROR", "message": "an\\n\\u001b[2Jill"}'),
            Status.crashed,
            "the timed run failed: CUDA_ERROR: an ",
        ),
    ],
)
@pytest.mark.parametrize("operation", [Operation.arrange, Operation.replay])
def test_what_ends_a_replay_has_its_status(of, operation, answer, status, told):
    worker, timed = of()
    worker.answers[operation] = answer
    with pytest.raises(TimingFailed) as caught:
        timed.seconds()
    assert caught.value.status is status
    assert told in str(caught.value) and "\x1b" not in str(caught.value)


# --- tuning ---------------------------------------------------------------------------------------


class Tuned(MadeUp):
    """An executor that takes as long as its plan says, in microseconds."""

    def ask(self, operation, *given, document=b"", **more):
        if operation is Operation.adopt:
            self.seconds = float(document) * 1e-6
        return super().ask(operation, *given, document=document, **more)


def test_tuning_takes_the_fastest_configuration_and_tries_each(bench, clock):
    worker = Tuned(clock, bench.compute)
    timed = Replays(worker, bench.sets)
    contenders.tune(timed, [b"300", b"100", b"200"])
    assert worker.documents == [b"300", b"100", b"200", b"100"]
    assert timed.settle() == pytest.approx(1e-4)


def test_where_there_is_nothing_to_tune_nothing_is_tried(bench, clock):
    worker = Tuned(clock, bench.compute)
    contenders.tune(Replays(worker, bench.sets), [b"100"])
    assert worker.documents == [b"100"] and not worker.orders


def test_trials_run_before_the_inputs_of_a_timed_replay_are_drawn(bench, clock):
    """What a configuration has seen in its trial is gone when the clock counts."""
    seen: list = []

    def note(order) -> None:
        seen.extend(bench.tensors(number)[0]["x"].clone() for number in order)
        bench.compute(order)

    worker = Tuned(clock, note)
    timed = Replays(worker, bench.sets)
    contenders.tune(timed, [b"300", b"100"])
    trials = len(seen)
    assert trials == 2 * (1 + contenders.TRIALS)
    timed.settle()
    timed.seconds()
    for late in seen[trials:]:
        assert all((late == early).float().mean() < 0.001 for early in seen[:trials])


def test_a_configuration_that_is_wrong_ends_it_though_another_may_be_right(bench, clock):
    worker = Tuned(clock, lambda order: None if worker.seconds < 2e-4 else bench.compute(order))
    with pytest.raises(TimingFailed) as caught:
        contenders.tune(Replays(worker, bench.sets), [b"300", b"100"])
    assert caught.value.status is Status.not_written


def test_requests_without_calls_bring_the_worker_back_before_each_replay(of, clock):
    _, timed = of()
    before = clock.now
    timed.seconds()
    assert clock.now - before == pytest.approx(2 * BESIDE + 1e-4)
    assert graph_replays.SLACK_SECONDS < BESIDE
