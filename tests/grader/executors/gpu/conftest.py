"""What the tests of the executor on a GPU share: the program, the driver, and kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.sandbox import Sandbox
from tests.grader.executors.gpu.plans import Kernels
from tests.support import fake_gpu
from tests.support.fake_gpu import FakeGpu


@pytest.fixture(scope="session")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> FakeGpu:
    return fake_gpu.built(tmp_path_factory.mktemp("fake_gpu"))


@pytest.fixture(scope="session")
def kernels(gpu: FakeGpu) -> Kernels:
    return Kernels(gpu.cubin(Path(__file__).with_name("kernels.cpp")))


@pytest.fixture(scope="module")
def sandbox(gpu: FakeGpu) -> Iterator[Sandbox]:
    with pytest.MonkeyPatch.context() as patched, fake_gpu.sandbox(gpu, patched) as opened:
        yield opened
