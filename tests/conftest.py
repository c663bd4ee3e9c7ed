"""What the tests students run share with the grader's own."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """A folder that isn't there is one line, before anything is collected."""
    folder = config.getoption("--submission")
    if not Path(folder).is_dir():
        raise pytest.UsageError(f"--submission: expected a folder like assignment/, got {folder}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none."""
    from grader.gpu.machine import gpu_name

    if any(item.get_closest_marker("gpu") for item in items) and gpu_name() is None:
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU; there is none here"))
