"""What holds for all of the grader's own tests."""

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
    """One whose workers do on the CPU what those of a GPU do there: host code beside kernels."""
    with Sandbox("interpreter") as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def shared_gpu_sandbox() -> Iterator[Sandbox]:
    """The same for workers on a GPU, each of which is a process with a CUDA context of its own."""
    with Sandbox("cuda") as sandbox:
        yield sandbox
