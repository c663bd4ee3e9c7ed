"""Replays of one worker: one call for each of several buffer sets, timed together.

The worker first makes a CUDA graph: the L2 cache is overwritten, an event is recorded, the calls
run one after another, a second event is recorded. For each replay, every input is drawn anew, every
output is poisoned, the graph is launched, and every output is judged. So no call repeats another
one's work or finds its inputs in the cache, and the time between the events holds the calls alone.

Device code can reach all buffer sets, so a call could do the work of later ones in one launch. So
some sets are decoys, drawn anew for each replay: they are prepared like the others, and no call
uses them. A kernel that works ahead writes to their outputs, which is detected.

A baseline in Python keeps its graph, and its inputs. Capturing its calls takes much longer than the
calls do, and a GPU that is idle before each replay ran small kernels slower.

The worker reports the events' times, and device code may share memory with it. So the grader also
times each request by its own clock and subtracts the time of a request without calls. The rest has
to agree with the reported time (`apart`).
"""

from __future__ import annotations

import math
import random
import statistics
import struct
import time
from collections.abc import Sequence
from dataclasses import replace

from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death, Limits, Worker
from grader.status import Status
from grader.timing.buffer_sets import BufferSets
from grader.timing.failures import TimingFailed, expect_ok
from grader.worker.protocol import Operation, Reply

TARGET_SECONDS = 0.002  # of a replay: long against SLACK_SECONDS
SLACK_SECONDS = 20e-6  # that requests differ by, apart from their calls
FEWEST_CALLS = 4
DECOYS = 2  # sets that are prepared and used by no call
FIRST_LIMITS = Limits(cpu_seconds=20.0, memory_bytes=16 << 30)  # of a first call: 60 s of wall time
LIMITS = Limits(cpu_seconds=10.0, memory_bytes=16 << 30)
TIMES_EXPECTED = 50.0  # a replay that takes so many times its expected duration has hung


class Replays:
    """One worker and its buffer sets."""

    def __init__(self, worker: Worker, sets: BufferSets, keeps_order: bool = False) -> None:
        """The worker has its code; every set's arguments are sent to it now.

        With `keeps_order` calls are arranged anew only where their number changes. Raises
        TimingFailed.
        """
        self._keeps_order = keeps_order
        self._worker = worker
        self._sets = sets
        self._random = random.SystemRandom()
        self._limits = FIRST_LIMITS
        self._seconds: list[float] = []  # of whole replays, by the device's clock
        self._own: list[float] = []  # of the same, by the grader's clock
        self._order: Sequence[int] = ()  # the sets of the last replay
        self._decoys: Sequence[int] = ()  # its decoys
        self._is_begun = False  # the next replay
        self._death: Death | None = None  # of the worker, when it was begun
        self.calls = 1
        for number in range(sets.count):
            expect_ok(worker.ask(Operation.place, sets.arguments(number), repeat=number))

    def adopt(self, document: bytes) -> None:
        """Make an executor adopt a plan, whose speed is unknown then. Raises TimingFailed."""
        expect_ok(self._worker.ask(Operation.adopt, document=document, limits=FIRST_LIMITS))
        self.forget()
        self.calls, self._limits = 1, FIRST_LIMITS

    def settle(self) -> float:
        """Warm up, choose the number of calls in a replay, and return the seconds of one call.

        Raises TimingFailed.
        """
        self.calls = 1
        self.seconds()  # a warm-up, which may compile
        took = self.seconds()
        wanted = math.ceil(TARGET_SECONDS / took)
        self.calls = max(1, min(max(wanted, FEWEST_CALLS), self._sets.count - DECOYS))
        if took * self.calls > LIMITS.wall_seconds / TIMES_EXPECTED:
            self.calls = 1
        expected = TIMES_EXPECTED * took * self.calls
        self._limits = Limits(max(LIMITS.cpu_seconds, expected), LIMITS.memory_bytes)
        self.forget()
        return took

    def seconds(self) -> float:
        """Seconds of a call, from one replay. Raises TimingFailed, also for a wrong output."""
        self.prepare()
        took = self.replay()
        self.finish()
        return took / self.calls

    def begin(self) -> None:
        """Have the next replay's calls arranged, without waiting: random sets in random order.

        Calls of a new shape may be compiled meanwhile.
        """
        if self._keeps_order and len(self._order) == self.calls:
            return
        most = min(self.calls + DECOYS, self._sets.count)
        chosen = self._random.sample(range(self._sets.count), most)
        self._arrange(chosen[: self.calls], chosen[self.calls :])

    def abandon(self) -> None:
        """Wait for what was begun, so that the worker can serve another case."""
        if self._is_begun and self._death is None:
            self._worker.wait(self._limits)
        self._is_begun = False

    def prepare(self) -> None:
        """Prepare a replay, which may have been begun: arranged calls, and new inputs.

        Raises TimingFailed.
        """
        if not self._is_begun:
            self.begin()
        if self._is_begun:
            self._is_begun = False
            expect_ok(self._death or self._worker.wait(self._limits))
        self._sets.fill([*self._order, *self._decoys])

    def replay(self) -> float:
        """Run the prepared replay; seconds by the device's clock. Raises TimingFailed.

        A replay without calls runs first: it returns the GPU from this process to the worker, and
        its time is that of a bare request.
        """
        beside, _ = self._timed(0)
        own, seconds = self._timed(1)
        if seconds <= 0:
            raise TimingFailed("its process tells of a time that isn't above 0", Status.crashed)
        self._seconds.append(seconds)
        self._own.append(own - beside)
        return seconds

    def finish(self) -> None:
        """Judge every output of the last replay. Raises TimingFailed where one is wrong.

        A decoy's output that was written is wrong, too. A call that works ahead can't tell decoys
        from other sets.
        """
        verdict = self._sets.judge(self._order)
        if verdict.passed:
            verdict = self._sets.judge_decoys(self._decoys)
        if not verdict.passed:
            raise TimingFailed(verdict.what, verdict.status)

    @property
    def apart(self) -> float:
        """By which share replays took longer by the grader's clock than by the device's.

        SLACK_SECONDS are subtracted. Negative where they took less. Raises StatisticsError before
        the first replay.
        """
        off = statistics.median(self._own) - statistics.median(self._seconds)
        off = math.copysign(max(abs(off) - SLACK_SECONDS, 0.0), off)
        return off / statistics.median(self._seconds)

    @property
    def least_seconds(self) -> float:
        """Seconds of a call of the last replay by the grader's clock, less SLACK_SECONDS."""
        return max(self._own[-1] - SLACK_SECONDS, 0.0) / self.calls

    def forget(self) -> None:
        """Exclude earlier replays from `apart`."""
        self._seconds, self._own = [], []

    def _arrange(self, order: Sequence[int], decoys: Sequence[int]) -> None:
        self._order, self._decoys = order, decoys
        document = struct.pack(f"<{1 + len(order)}I", len(order), *order)
        self._death = self._worker.post(Operation.arrange, document=document)
        self._is_begun = True

    def _timed(self, calls: int) -> tuple[float, float]:
        """Run a replay of `calls` calls; seconds by the grader's clock, and by the device's."""
        started = time.perf_counter()
        answer = self._worker.ask(Operation.replay, repeat=calls, limits=self._limits)
        own = time.perf_counter() - started
        nanoseconds = untrusted.fields(_without_head(expect_ok(answer))).get("nanoseconds")
        if type(nanoseconds) is not int or not 0 <= nanoseconds < 1 << 62:
            raise TimingFailed("its process tells of no time", Status.crashed)
        return own, nanoseconds * 1e-9


def _without_head(answer: Reply) -> Reply:
    """An answer without the length prefix that workers in Python write on a line of its own."""
    return replace(answer, text=answer.text.rpartition("\n")[2])
