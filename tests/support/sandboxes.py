"""Sandboxes that tests share, and one thread for torch in a process of tests.

A conftest.py takes the fixtures from here by name.
"""

from collections.abc import Iterator

import pytest
import torch

from grader.sandbox import Sandbox

# The tensors are small, and tests run side by side: threads would spin for a core that another has.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_sandbox() -> Iterator[Sandbox]:
    """One for plans of submissions that mean no harm: to start it takes longer than they run."""
    with Sandbox("interpreter", plans=True) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def python_sandbox() -> Iterator[Sandbox]:
    """One for baselines, Python of ours that is timed, on the CPU."""
    with Sandbox("interpreter") as sandbox:
        yield sandbox
