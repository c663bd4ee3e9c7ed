"""What the tests students run share with the grader's own."""

from __future__ import annotations

import pytest

collect_ignore_glob = ["submissions/*"]  # a pytest of tests/ takes a file of theirs for tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none."""
    from grader.gpu.machine import gpu_name

    if any(item.get_closest_marker("gpu") for item in items) and gpu_name() is None:
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU; there is none here"))
