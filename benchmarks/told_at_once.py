"""A plugin for pytest: what failed is printed when it fails, also by tests that run side by side.

`-p benchmarks.told_at_once`: where a run is cut off, what was seen until then is not lost.
"""

from __future__ import annotations

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Called for every phase of a test, by the process that others report to as well."""
    if report.failed:
        print(f"\n{report.nodeid} ({report.when})\n{report.longreprtext}\n", flush=True)
