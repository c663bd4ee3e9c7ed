"""Shows the progress of a class's grading: a bar for people, a line per submission for logs."""

from __future__ import annotations

import threading
import time
from collections import Counter

from rich import progress as bars
from rich.console import Console
from rich.table import Column

from grader.batch.run.finished import Finished
from grader.evidence import VariantEvidence
from grader.grading.session import Step
from grader.report import narrow, one_line
from grader.status import Status


class Watcher:
    """Receives a run's progress and shows nothing. Another thread calls `step`."""

    def begin(self, done: int, total: int) -> None: ...
    def step(self, step: Step) -> None: ...
    def finished(self, finished: Finished, observed: list[VariantEvidence], done: int) -> None: ...
    def measured(self, finished: Finished, left: int) -> None: ...
    def say(self, line: str) -> None: ...
    def close(self) -> None: ...


class Lines(Watcher):
    """A line per submission, as it is done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = 0
        self._began = time.monotonic()
        self._done_before = 0

    def begin(self, done: int, total: int) -> None:
        self._total, self._done_before = total, done
        self.say(f"{done} of {total} submissions are graded already, or can't be read")

    def finished(self, finished: Finished, observed: list[VariantEvidence], done: int) -> None:
        counts = _in_words(Counter(each.correctness for each in observed))
        name = one_line(finished.job.handin.handin.id)
        left = _as_duration(self._seconds_left(done))
        self.say(f"{done}/{self._total} {name}: {counts}{f'; about {left} left' if left else ''}")
        if finished.trouble:
            self.say(f"{name}: THE GRADER FAILED: {_last_line(finished.trouble)}")

    def measured(self, finished: Finished, left: int) -> None:
        names = ", ".join(wanted.name for wanted in finished.job.wanted)
        self.say(f"timed {one_line(finished.job.handin.handin.id)}: {names}; {left} to go")

    def say(self, line: str) -> None:
        narrow.say(line, self._console)

    def _seconds_left(self, done: int) -> float:
        graded = done - self._done_before
        if graded <= 0:
            return 0.0
        return (time.monotonic() - self._began) / graded * (self._total - done)


class Bar(Lines):
    """One line that is drawn anew: done, running, failed by status, time left."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        fits = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._bar = bars.Progress(
            bars.SpinnerColumn(),
            bars.BarColumn(bar_width=20),
            bars.MofNCompleteColumn(),
            bars.TextColumn("{task.description}", markup=False, table_column=fits),
            bars.TextColumn("{task.fields[left]}", markup=False),
            console=console,
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("starting", total=None, left="")
        self._counts: Counter[Status] = Counter()
        self._running: dict[str, None] = {}
        self._lock = threading.Lock()
        self._bar.start()

    def begin(self, done: int, total: int) -> None:
        self._total, self._done_before = total, done
        self._bar.update(self._task, total=total, completed=done)

    def step(self, step: Step) -> None:
        with self._lock:
            name = one_line(f"{step.exercise}/{step.variant}")
            self._running.pop(name, None)
            self._running[name] = None
            while len(self._running) > 2:
                del self._running[next(iter(self._running))]
            self._bar.update(self._task, description=self._described())

    def finished(self, finished: Finished, observed: list[VariantEvidence], done: int) -> None:
        with self._lock:
            self._counts.update(each.correctness for each in observed)
            left = _as_duration(self._seconds_left(done))
            self._bar.update(
                self._task,
                completed=done,
                description=self._described(),
                left=f"{left} left" if left else "",
            )
        if finished.trouble:
            name = one_line(finished.job.handin.handin.id)
            self.say(f"{name}: THE GRADER FAILED: {_last_line(finished.trouble)}")

    def measured(self, finished: Finished, left: int) -> None:
        with self._lock:
            self._bar.update(self._task, description=f"timing; {left} to go")

    def close(self) -> None:
        self._bar.stop()

    def _described(self) -> str:
        parts = (" ".join(self._running), _in_words(self._counts))
        return "; ".join(part for part in parts if part)


def watcher(console: Console, plain: bool) -> Watcher:
    """A bar where somebody watches, lines elsewhere and where they are asked for."""
    return Lines(console) if plain or not console.is_terminal else Bar(console)


def _in_words(counts: Counter[Status]) -> str:
    """How often there was each status: passed first, then the most frequent."""
    ordered = sorted(counts.items(), key=lambda each: (each[0] is not Status.passed, -each[1]))
    return ", ".join(f"{count} {status.headline}" for status, count in ordered)


def _as_duration(seconds: float) -> str:
    if seconds < 1:
        return ""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min" if minutes else f"{seconds} s"


def _last_line(text: str) -> str:
    return one_line(text.strip().splitlines()[-1])
