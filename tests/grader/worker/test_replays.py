"""Prepared calls: what they return on a GPU has memory of its own."""

from __future__ import annotations

import pytest
import torch

from grader.worker.replays import on


@pytest.mark.gpu
def test_no_call_of_a_replay_writes_where_another_one_did():
    """A freed output would be the next call's, which would find its memory in the cache."""
    written = []

    def entry(x: torch.Tensor) -> torch.Tensor:
        out = torch.add(x, 1)
        written.append(out.data_ptr())
        return out

    calls = [[torch.ones(1 << 20, device="cuda")] for _ in range(6)]
    replayed = on("cuda")
    replayed.arrange(entry, calls)
    assert len(set(written[-len(calls) :])) == len(calls)
    assert replayed.replay() > 0
