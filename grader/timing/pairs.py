"""Long and short runs of one worker: what a call takes, without what a request costs.

The time of a call is the slope between a long run and a short one, (t(n) - t(m)) / (n - m): what
is paid once per request (the way there and back, the first launch, the sample) cancels. A worker
that sleeps in its short runs would make its slope small, so the time credited is never less than
what the long run took beyond the fixed cost of a request as a trusted worker pays it (and a little
more, which an honest one may need); and a pair whose own fixed cost is far beyond that is void.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

from grader.compare import Verdict
from grader.gpu_memory import reset_persisting_l2
from grader.race import Void
from grader.supervision import Death
from grader.timing.sets import Sets
from grader.timing.worker import Run, TimedWorker, TimingFailed
from grader.worker.protocol import Code, Reply

TARGET_SECONDS = 0.004  # of a long run: long against its fixed cost, short against drift
FEWEST_CALLS = 4  # of a long run
SHORT = 8  # a short run has an eighth of a long one's calls: most of what is computed is measured
# By how much an honest worker's fixed cost may be beyond a trusted one's: a kernel that wasn't
# launched for a while, buffers that were filled. On an H100 it was 50 us. A worker that sleeps in
# its short runs can hide so much there, and gain as much in a long run of 4 ms.
HONEST_SECONDS = 60e-6
# And by how much it may be in a single pair, noise and all: it is mostly the short run's, whose few
# launches wait for a processor. This gains a worker that sleeps there nothing, since what it is
# credited with allows for HONEST_SECONDS alone. (Honest ones on two H100s: nearly all up to 280 us
# and 360.)
SLACK_SECONDS = 150e-6
SLACK_SHARE = 0.05  # of the long run
TIMES_EXPECTED = 50.0  # a run that takes so many times as long as it should has hung
SHORTEST_LIMIT_SECONDS = 10.0
FIRST_LIMIT_SECONDS = 60.0  # of the first call, which may compile and tune


@dataclass(frozen=True)
class Pair:
    """Seconds of a long run and a short one, and how many calls they had."""

    long_seconds: float
    short_seconds: float
    long_calls: int
    short_calls: int
    inside_seconds: float = 0.0  # of the long run, by the worker's own word

    @property
    def slope(self) -> float:
        """Seconds per call."""
        calls = self.long_calls - self.short_calls
        return (self.long_seconds - self.short_seconds) / calls

    @property
    def fixed(self) -> float:
        """Seconds that a request costs beside its calls."""
        return self.long_seconds - self.slope * self.long_calls


class FixedCost:
    """What a request costs a trusted worker: the median of its pairs so far, in seconds."""

    def __init__(self) -> None:
        self._seen: list[float] = []

    def add(self, pair: Pair) -> None:
        """Take a trusted worker's pair into account."""
        self._seen.append(pair.fixed)

    @property
    def seconds(self) -> float:
        """Never negative. Raises StatisticsError before the first pair."""
        return max(0.0, statistics.median(self._seen))


def credited(pair: Pair, fixed: float) -> float | Void:
    """Seconds per call that a pair is worth, where a trusted worker's request costs `fixed`."""
    slack = SLACK_SECONDS + SLACK_SHARE * pair.long_seconds
    if pair.fixed > fixed + slack:
        return Void("its requests cost more beside their calls than a trusted worker's")
    if pair.slope <= 0:
        return Void("a long run took no longer than a short one")
    return seconds_per_call(pair, fixed)


def seconds_per_call(pair: Pair, fixed: float) -> float:
    """The larger of the slope and what the long run took beyond what a request may cost.

    That is `fixed`, a trusted worker's, and HONEST_SECONDS.
    """
    beyond = pair.long_seconds - fixed - HONEST_SECONDS
    return max(pair.slope, beyond / pair.long_calls)


class TimedPairs:
    """One worker and its sets, from which it takes pairs."""

    def __init__(self, worker: TimedWorker, sets: Sets) -> None:
        self._worker = worker
        self._sets = sets
        self._random = random.SystemRandom()
        self._seconds_per_call = math.inf  # unknown yet
        self._first_limit = FIRST_LIMIT_SECONDS
        self.calls = min(FEWEST_CALLS, sets.count)

    @property
    def most_calls(self) -> int:
        """How many calls a run can have: one for each set of buffers."""
        return self._sets.count

    def first_call(self, limit_seconds: float = FIRST_LIMIT_SECONDS) -> None:
        """A call that nobody times: it compiles, and may tune. Raises TimingFailed."""
        self._first_limit = limit_seconds
        self._run(1)

    def settle(self) -> None:
        """Warm up, and choose how many calls a long run has. Raises TimingFailed."""
        self.first_call()
        one, few = self._run(1).seconds, self._run(self.calls).seconds
        # Without what a request costs, which may be more than the calls; but noise isn't to make
        # it nothing.
        difference = (few - one) / max(self.calls - 1, 1)
        self._seconds_per_call = max(difference, few / self.calls / 10)
        wanted = math.ceil(TARGET_SECONDS / self._seconds_per_call)
        self.calls = min(max(wanted, FEWEST_CALLS), self._sets.count)

    def pair(self) -> Pair:
        """A long run and a short one, in a random order.

        Raises TimingFailed where one of them fails, and where an output of it is wrong.
        """
        short_calls = max(1, self.calls // SHORT)
        counts = [self.calls, short_calls]
        self._random.shuffle(counts)
        runs = {count: self._run(count) for count in counts}
        long, short = runs[self.calls], runs[short_calls]
        return Pair(long.seconds, short.seconds, self.calls, short_calls, long.inside_seconds)

    def profiled(self) -> Reply | Death:
        """The answer to one more call, untimed, in which the kernels that ran are listed.

        After it there are no more pairs. Raises TimingFailed where its outputs are wrong.
        """
        self._sets.fill(0, 1)
        self._sets.patch()
        answer = self._worker.profile(self._sets.arguments(0))
        if isinstance(answer, Reply) and answer.code is Code.ok:
            self._expect_right(self._sets.judge(self._sets.read_sample()))
        return answer

    def prepare(self, count: int) -> Callable[[], Run[torch.Tensor]]:
        """Make a run of `count` calls ready. What is returned is the run: call it at once."""
        first = self._random.randint(0, self._sets.count - count)
        self._sets.fill(first, count)
        if self._sets.on_gpu:
            reset_persisting_l2()
        limit = self._limit(count)
        self._worker.wake(limit)
        self._sets.patch()
        return lambda: self._worker.run(first, count, self._sets.read_sample, limit)

    def expect_right(self, run: Run[torch.Tensor]) -> None:
        """Judge the outputs of the run that was last. Raises TimingFailed for one that is wrong."""
        self._expect_right(self._sets.judge(run.sample))

    def _run(self, count: int) -> Run[torch.Tensor]:
        run = self.prepare(count)()
        self.expect_right(run)
        return run

    def _expect_right(self, verdict: Verdict) -> None:
        if not verdict.passed:
            raise TimingFailed(verdict.what, verdict.status)

    def _limit(self, count: int) -> float:
        if math.isinf(self._seconds_per_call):
            return self._first_limit
        return max(SHORTEST_LIMIT_SECONDS, TIMES_EXPECTED * self._seconds_per_call * count)
