"""`pytest --submission DIR`: which folder the tests students run look at.

Loaded by name (`-p`, in pyproject.toml), because an option of a conftest.py is known too late:
pytest would take DIR for a folder of tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--submission",
        metavar="DIR",
        default=str(ROOT / "assignment"),
        help="the folder to test (default: assignment)",
    )
