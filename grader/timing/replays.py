"""Replays of one worker: a call for each of some buffer sets, timed together.

The worker makes a CUDA graph of the calls beforehand: the L2 cache is overwritten, an event is
recorded, the calls run one after another, a second event is recorded. Then every input is drawn
anew, whole, and every output poisoned; the graph is launched; and every output is judged. So no
call computes what another one has computed, none finds its inputs in the cache, and the time
between the events holds the calls and nothing else, whatever the processor does meanwhile.

Device code can reach the other buffer sets, too: a call might do the work of later ones in one
launch, as no honest kernel can. So some are decoys: they are made ready like the others, and no
call uses them. They are drawn anew for each replay. A kernel that works ahead writes to their
outputs, which is detected.

The worker reports the events' times, and device code may share memory with it. So the grader's own
clock runs as well, from the request to the answer. By that clock, a replay's time beyond that of
the same request without calls has to agree with the reported one (`apart`).
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
from grader.sandbox.worker_process import Limits, Worker
from grader.status import Status
from grader.timing.buffer_sets import BufferSets
from grader.timing.failures import TimingFailed, expect_ok
from grader.worker.protocol import Operation, Reply

TARGET_SECONDS = 0.002  # of a replay: long against SLACK_SECONDS
SLACK_SECONDS = 20e-6  # by which a request's way there and back differs from another's
FEWEST_CALLS = 4
DECOYS = 2  # sets that are made ready as well, and that no call is made for
FIRST_LIMITS = Limits(cpu_seconds=20.0, memory_bytes=16 << 30)  # of a first call: 60 s by the clock
LIMITS = Limits(cpu_seconds=10.0, memory_bytes=16 << 30)
TIMES_EXPECTED = 50.0  # a replay that takes so many times as long as it should has hung


class Replays:
    """One worker and its buffer sets. A context manager, which ends the worker."""

    def __init__(self, worker: Worker, sets: BufferSets) -> None:
        """The worker has its code; every set's arguments are handed to it now.

        Raises TimingFailed.
        """
        self._worker = worker
        self._sets = sets
        self._random = random.SystemRandom()
        self._limits = FIRST_LIMITS
        self._seconds: list[float] = []  # of whole replays, by the device's clock
        self._own: list[float] = []  # the same by ours
        self._order: Sequence[int] = ()  # of the sets in the last replay
        self._decoys: Sequence[int] = ()  # those that were ready besides
        self.calls = 1
        for number in range(sets.count):
            expect_ok(worker.ask(Operation.place, sets.arguments(number), repeat=number))

    def __enter__(self) -> Replays:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        self._worker.close()

    def adopt(self, document: bytes) -> None:
        """Have an executor take a plan; nothing is known of its speed then. Raises TimingFailed."""
        expect_ok(self._worker.ask(Operation.adopt, document=document, limits=FIRST_LIMITS))
        self.forget()
        self.calls, self._limits = 1, FIRST_LIMITS

    def settle(self) -> float:
        """Warm up, and choose how many calls a replay has; seconds of one of them.

        Raises TimingFailed.
        """
        self.calls = 1
        self.seconds()  # which may compile
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

    def prepare(self) -> None:
        """Make a replay ready: its calls, in a random order of random sets, and their inputs.

        Raises TimingFailed.
        """
        most = min(self.calls + DECOYS, self._sets.count)
        chosen = self._random.sample(range(self._sets.count), most)
        self._order, self._decoys = chosen[: self.calls], chosen[self.calls :]
        self._arrange(self._order)
        self._sets.fill(chosen)

    def replay(self) -> float:
        """Replay what is ready; seconds by the device's clock. Raises TimingFailed.

        Before it, a replay without calls brings the worker back to the GPU, which this process has
        just worked on. Its time is that of a request beside the calls.
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

        An output of a decoy that was written is wrong, too: a call that does others' work ahead of
        them can't know which of them there will be.
        """
        verdict = self._sets.judge(self._order)
        if verdict.passed:
            verdict = self._sets.judge_decoys(self._decoys)
        if not verdict.passed:
            raise TimingFailed(verdict.what, verdict.status)

    @property
    def apart(self) -> float:
        """By how much replays took longer by the grader's clock than by the device's, as a share.

        What requests differ by is taken off. Negative where they took less. Raises StatisticsError
        before there is a replay.
        """
        off = statistics.median(self._own) - statistics.median(self._seconds)
        off = math.copysign(max(abs(off) - SLACK_SECONDS, 0.0), off)
        return off / statistics.median(self._seconds)

    def forget(self) -> None:
        """Leave what was timed until now out of `apart`."""
        self._seconds, self._own = [], []

    def _arrange(self, order: Sequence[int]) -> None:
        document = struct.pack(f"<{1 + len(order)}I", len(order), *order)
        answer = self._worker.ask(Operation.arrange, document=document, limits=self._limits)
        expect_ok(answer)

    def _timed(self, calls: int) -> tuple[float, float]:
        """A replay with or without its calls: seconds by the grader's clock, and the device's."""
        started = time.perf_counter()
        answer = self._worker.ask(Operation.replay, repeat=calls, limits=self._limits)
        own = time.perf_counter() - started
        nanoseconds = untrusted.fields(_without_head(expect_ok(answer))).get("nanoseconds")
        if type(nanoseconds) is not int or not 0 <= nanoseconds < 1 << 62:
            raise TimingFailed("its process tells of no time", Status.crashed)
        return own, nanoseconds * 1e-9


def _without_head(answer: Reply) -> Reply:
    """An answer without its length, which stands on a line of its own where Python answers."""
    return replace(answer, text=answer.text.rpartition("\n")[2])
