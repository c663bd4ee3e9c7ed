"""The distinct values of a sequence of integers."""

from __future__ import annotations

import numpy as np


def distinct(values: np.ndarray) -> np.ndarray:
    """The values in order, each once; the result of `np.unique`.

    That hashes integers from numpy 2.3 on, which takes far longer than sorting where they are many.
    """
    ordered = np.sort(values, axis=None)
    is_new = np.ones(ordered.size, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]
