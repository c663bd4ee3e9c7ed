"""A pytest plugin that prints each failure at once, so that a run that is cut off loses none.

pytest -p benchmarks.failures_at_once
"""

from __future__ import annotations

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failed phase of a test; pytest calls this in the main process."""
    if report.failed:
        print(f"\n{report.nodeid} ({report.when})\n{report.longreprtext}\n", flush=True)
