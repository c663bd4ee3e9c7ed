"""A sandbox launched before this process imports torch, so that both import it at the same time.

    head_start.begin()                 at a command's start, where a session is to come
    sandbox = head_start.take(...)     the session's, which owns it from there on; or None

It is the one of plans, which has no GPU, on a machine with one too.
"""

from __future__ import annotations

import atexit

from grader.sandbox.confinement import ConfinementError
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.worker_process import SandboxError

_begun: Sandbox | None = None


def begin() -> None:
    """Begin the sandbox of the next session; where that fails, the session will say why."""
    global _begun
    if _begun is not None:
        return
    try:
        sandbox = Sandbox("interpreter", plans=True)
        sandbox.begin()
    except (ConfinementError, SandboxError):
        return
    _begun = sandbox
    atexit.register(_close_what_nobody_took)


def take() -> Sandbox | None:
    """The sandbox that was begun, once; None where there is none."""
    global _begun
    taken, _begun = _begun, None
    return taken


def _close_what_nobody_took() -> None:
    if (left := take()) is not None:
        left.close()
