"""Texts that are compiled again without their parts that don't compile.

A text holds many changes of a submission, and some of them are no valid C++. The compiler refuses
such a text soon, and takes far longer for one that it accepts. So the rest is compiled as soon as
the refusal is known, also while another text is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from grader.executors.cuda import cuda_build
from grader.executors.cuda.cuda_build import Building, Order, Program
from grader.executors.runner import Text, Without
from grader.sandbox import Sandbox
from grader.sandbox.worker_process import answered

MOST_BUILDS = 6  # of one text
UNWATCHED_SECONDS = 2.0  # until a compiler that is waited for is held to its limits
STEP_SECONDS = 0.1


class Rebuilding:
    """A text on its way through the compiler. Its owner calls `take` or `close`, once."""

    def __init__(
        self,
        sandbox: Sandbox,
        order: Callable[[str, Sequence[str]], Order],
        text: Text,
        without: Without,
        together: list[Rebuilding],
    ) -> None:
        """Begin with a text. `order` has a text and its entries compiled; `without` is asked with
        the lines of the file that don't compile. While a text in the list `together` is waited
        for, the others in it go on; one thread uses them.

        Raises as cuda_build.begin does.
        """
        self._sandbox, self._order, self._without = sandbox, order, without
        self._together = together
        self._builds = 0
        self._building: Building | None = None
        self._program: Program | None = None
        self.entries: Sequence[str] = ()  # of the last text
        self._begin(text)
        together.append(self)

    def take(self) -> Program | None:
        """Wait for the program; None where there is none. Raises as cuda_build.program does."""
        unwatched_until = time.monotonic() + UNWATCHED_SECONDS
        while self._building is not None:
            if time.monotonic() > unwatched_until or self._building.died:
                self._go_on()
                continue
            busy = {
                each._building.worker: each
                for each in self._together
                if each._building is not None and each._building.died is None
            }
            for worker in answered(list(busy), STEP_SECONDS):
                busy[worker]._go_on()
        self._together.remove(self)
        return self._program

    def close(self) -> None:
        """End the compiler."""
        self._together.remove(self)
        if self._building is not None:
            self._building.close()

    def _begin(self, text: Text) -> None:
        self._builds += 1
        self.entries = text[1]
        self._building = cuda_build.begin(self._sandbox, self._order(*text))

    def _go_on(self) -> None:
        """Take the compiler's answer; after a refusal, begin with what is left."""
        assert self._building is not None
        building, self._building = self._building, None
        program = cuda_build.program(self._sandbox, building)
        if program.path is not None:
            self._program = program
        elif self._builds < MOST_BUILDS:
            text = self._without([each.line or 0 for each in program.problems])
            if text is not None and text[1]:
                self._begin(text)
