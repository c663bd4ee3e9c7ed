"""Which process of `make test` gets which tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.scheduling import ONE_BY_ONE, ByFile

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("file", ONE_BY_ONE)
def test_a_long_files_tests_are_given_out_one_by_one_and_anothers_together(file):
    assert (TESTS / file).is_file()
    scheduler: Any = ByFile.__new__(ByFile)
    one, other = f"tests/{file}::test_a[x::y]", "tests/grader/test_layers.py::test_b[1]"
    assert scheduler._split_scope(one) == one
    assert scheduler._split_scope(other) == "tests/grader/test_layers.py"
