"""Sandboxes that tests share, and one thread for torch in a process of tests.

A conftest.py takes the fixtures from here by name.
"""

import threading
from collections.abc import Iterator

import pytest
import torch

from grader.grading import session
from grader.grading.session import Options
from grader.sandbox import Sandbox

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

    def __enter__(self) -> "Lasting":
        self.is_lent = True
        super().__enter__()
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


@pytest.fixture(scope="module")
def sessions_in_one_sandbox(lasting_sandbox: Lasting) -> Iterator[None]:
    """Sessions of a module's tests have one sandbox of plans in turn: each start imports torch.

    A session inside another one, in another thread or with other confinement has its own.
    """
    new = session._plan_sandbox

    def lent(options: Options) -> Sandbox:
        own = new(options)  # which starts nothing yet
        in_another = threading.current_thread() is not threading.main_thread()
        others = own._server is not None or own.confinement != lasting_sandbox.confinement
        if others or in_another or lasting_sandbox.is_lent:
            return own
        lasting_sandbox.is_lent = True
        return lasting_sandbox

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "_plan_sandbox", lent)
        yield
