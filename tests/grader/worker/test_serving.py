"""A process that serves answers ends quietly once its socket is gone."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from grader.worker import serving
from grader.worker.protocol import Code, Operation, Reply, Request


@pytest.mark.parametrize("instead", [os.devnull, ""], ids=["replaced", "closed"])
def test_a_socket_that_a_submission_takes_away_ends_the_process_without_a_word(
    instead: str, capfd: pytest.CaptureFixture[str]
) -> None:
    grader, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def takes_it_away(request: Request, document: bytes) -> Any:
        if instead:
            with Path(instead).open() as other:
                os.dup2(other.fileno(), worker.fileno())
        else:
            os.close(worker.fileno())
        return {}

    with grader:
        grader.send(Request(Operation.plan, 1, ()).pack())
        serving.serve(worker, {Operation.plan: takes_it_away})
        assert Reply.unpack(grader.recv(1000)).code is Code.ok  # that it is ready
        assert grader.recv(1000) == b""
    worker.detach()
    assert capfd.readouterr() == ("", "")
