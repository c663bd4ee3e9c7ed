"""Exceptions for a timed call that failed, with the status that follows from it."""

from __future__ import annotations

from grader.sandbox import untrusted
from grader.sandbox.worker_process import Cause, Death
from grader.status import Status
from grader.worker.protocol import Code, Reply


class TimingFailed(Exception):
    """A worker failed a request; the message says how."""

    def __init__(self, message: str, status: Status) -> None:
        super().__init__(message)
        self.status = status


class TooLittleMemory(Exception):
    """The device can't hold the buffers that a case needs."""


def expect_ok(answer: Reply | Death) -> Reply:
    """The answer if it is `ok`. Raises TimingFailed for any other.

    The status is `not_measured` where memory ran out, since that is the machine's fault.
    """
    if isinstance(answer, Death):
        status = Status.timed_out if answer.cause is Cause.timed_out else Status.crashed
        raise TimingFailed(f"the timed run ended: {answer.description}", status)
    if answer.code is Code.ok:
        return answer
    if answer.code is Code.out_of_memory:
        raise TimingFailed("the GPU has too little memory for it", Status.not_measured)
    fields = untrusted.fields(answer)
    texts = [untrusted.text(fields, name) for name in ("type", "message")]
    words = untrusted.brief(": ".join(filter(None, texts)) or untrusted.clean(answer.text))
    raise TimingFailed(f"the timed run failed: {words}", Status.crashed)
