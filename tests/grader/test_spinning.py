"""Waiting awake: how long, and when not."""

import os
import select
import time

import pytest

from grader.worker import spinning


@pytest.fixture
def pipe():
    """A poller on the reading end of a pipe, and the writing end."""
    reading, writing = os.pipe()
    poller = select.poll()
    poller.register(reading, select.POLLIN)
    yield poller, writing
    os.close(reading)
    os.close(writing)


@pytest.fixture
def yields(monkeypatch):
    """How often the core was offered, on a machine with two; nobody takes it."""
    count = []
    monkeypatch.setattr(spinning, "_cores", 2)
    monkeypatch.setattr(spinning, "TAKEN", 60.0)
    monkeypatch.setattr(os, "sched_yield", lambda: count.append(1))
    return count


def test_what_is_there_is_found_at_the_first_look(pipe, yields) -> None:
    poller, writing = pipe
    os.write(writing, b"x")
    assert spinning.soon(poller, 60.0)
    assert not yields


def test_it_ends_when_nothing_comes(pipe, yields) -> None:
    before = time.monotonic()
    assert spinning.soon(pipe[0], 0.002) == []
    assert 0.002 <= time.monotonic() - before < 1.0
    assert yields


def test_it_ends_at_once_when_the_core_is_wanted(pipe, yields, monkeypatch) -> None:
    monkeypatch.setattr(spinning, "TAKEN", 0.0002)
    monkeypatch.setattr(os, "sched_yield", lambda: (yields.append(1), time.sleep(0.001)))
    assert spinning.soon(pipe[0], 60.0) == []
    assert len(yields) == 1


def test_on_a_single_core_nobody_spins(pipe, yields, monkeypatch) -> None:
    monkeypatch.setattr(spinning, "_cores", 1)
    os.write(pipe[1], b"x")
    assert spinning.soon(pipe[0], 60.0) == []  # who sleeps is woken by it
    assert not yields
