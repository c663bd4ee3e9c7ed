"""Imports are sooner without the collector, which is back when they are done."""

from __future__ import annotations

import gc

import pytest

from grader.startup import importing


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_is_afterwards_as_it_was(is_on, fails):
    was_on = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        with pytest.raises(ImportError) if fails else importing(), importing():
            assert not gc.isenabled()
            kept = [[] for _ in range(100)]
            if fails:
                raise ImportError
        assert gc.isenabled() is is_on
        assert gc.get_freeze_count() > len(kept)
    finally:
        (gc.enable if was_on else gc.disable)()
