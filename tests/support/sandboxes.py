"""Sandboxes that tests share, and one thread for torch in a process of tests.

A conftest.py takes the fixtures from here.
"""

import os
import threading
from collections.abc import Iterator
from typing import Literal

import pytest
import torch

from grader.executors import registry
from grader.gpu.devices import DeviceName
from grader.grading import session
from grader.sandbox import Sandbox, allowed_paths, preloader
from grader.sandbox.confinement import Level

__all__ = [  # for every conftest.py
    "lasting_programs",
    "lasting_sandbox",
    "python_sandbox",
    "sessions_in_one_sandbox",
    "shared_sandbox",
]
# The tensors are small, and tests run side by side: threads would spin for a core that another has.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_sandbox() -> Iterator[Sandbox]:
    """One for plans of submissions that mean no harm: to start it takes longer than they run."""
    with Sandbox("cpu", kind="plans") as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def python_sandbox() -> Iterator[Sandbox]:
    """One for baselines, Python of ours that is timed, on the CPU."""
    with Sandbox("cpu") as sandbox:
        yield sandbox


class Lasting(Sandbox):
    """A sandbox that a session owns and closes, and that the next session takes over.

    Closing it ends all workers and removes all files, as between two requests of `grader serve`.
    What can't be emptied is closed for good, and starts anew.
    """

    is_lent = False
    _surroundings: tuple[object, ...] = ()  # in which it was started

    def __enter__(self) -> "Lasting":
        self.is_lent = True
        super().__enter__()
        return self

    def instead_of(self, own: Sandbox) -> Sandbox:
        """This one, started, or a session's `own` where the two differ, or where it is lent.

        A fork server ends with the thread that starts it, so other threads keep their own.
        """
        in_another = threading.current_thread() is not threading.main_thread()
        has_begun, differs = own._server is not None, own.confinement != self.confinement
        if has_begun or differs or in_another or self.is_lent:
            return own
        surroundings = os.environ.get("PATH"), *allowed_paths.readable(self.device)
        if surroundings != self._surroundings:
            super().close()
            self._surroundings = surroundings
        self.is_lent = True
        return self

    def close(self) -> None:
        """Empty it, and take it back."""
        self.is_lent = False
        if not self.empty():
            super().close()


@pytest.fixture(scope="session")
def lasting_sandbox() -> Iterator[Lasting]:
    sandbox = Lasting("cpu", kind="plans")
    yield sandbox
    Sandbox.close(sandbox)


@pytest.fixture(scope="session")
def lasting_programs() -> Iterator[Lasting]:
    """One for programs of CUDA C++ in the emulator."""
    sandbox = Lasting("emulator", kind="native")
    yield sandbox
    Sandbox.close(sandbox)


@pytest.fixture(scope="module")
def sessions_in_one_sandbox(lasting_sandbox: Lasting, lasting_programs: Lasting) -> Iterator[None]:
    """Sessions of a module's tests have one sandbox of plans in turn: each start imports torch.

    They have one of programs, too, which imports what compiles CUDA C++. A session inside another
    one, in another thread or with other confinement has its own. Where Landlock confines, as for a
    pool's processes, one process imports torch and forks those of plans.
    """
    preloader.begin()
    plans = session._plan_sandbox

    def programs(
        device: DeviceName, level: Level | None, required: bool, kind: Literal["native"]
    ) -> Sandbox:
        own = Sandbox(device, level, required, kind)
        return lasting_programs.instead_of(own) if device == "emulator" else own

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "_plan_sandbox", lambda o: lasting_sandbox.instead_of(plans(o)))
        patch.setattr(registry, "Sandbox", programs)
        yield
