"""Distinct integers are those of `np.unique`, found by sorting."""

from __future__ import annotations

import numpy as np
import pytest

from grader.worker.ttir.distinct import distinct


@pytest.mark.parametrize(
    "values",
    [[], [5], [3, 1, 3, -2, 1], [[4, 4], [-1, 2**62]], list(range(100, 0, -1)), [7] * 50],
)
def test_each_value_comes_once_and_in_order(values: list) -> None:
    given = np.array(values, dtype=np.int64)
    found = distinct(given)
    assert found.dtype == given.dtype
    assert found.tolist() == sorted({*given.reshape(-1).tolist()})
    assert given.tolist() == values
