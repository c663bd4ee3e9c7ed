"""The fork server waits for room to fork."""

from __future__ import annotations

import os

import pytest

from grader.worker import fork_server


def test_a_fork_waits_until_processes_that_have_ended_are_reaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zombies = [1, 2, 3]

    def fork() -> int:
        if zombies:
            raise BlockingIOError
        return 17

    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(fork_server, "_REAP_MILLISECONDS", 1)
    assert fork_server._forked(zombies.pop) == 17


def test_a_fork_for_which_there_is_never_room_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(fork_server, "_REAP_MILLISECONDS", 0)
    with pytest.raises(BlockingIOError):
        fork_server._forked(lambda: None)
