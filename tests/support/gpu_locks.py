"""Locks for one test, on a GPU that doesn't exist."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from grader.gpu import locks


def own_locks(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have one GPU, "0", whose locks lie in a folder; this process has chosen none yet."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(folder))
    monkeypatch.setattr(locks, "_mine", None)
    monkeypatch.setattr(locks, "_held", locks._Held())
    monkeypatch.setenv(locks.VISIBLE, "0")
