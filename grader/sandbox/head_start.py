"""A sandbox launched before this process imports torch, so that both import it in parallel.

    head_start.begin()                 at the start of a command that opens a session
    sandbox = head_start.take(...)     the session's sandbox, which it owns from then on; or None

It is the sandbox of plans, which has no GPU.
"""

from __future__ import annotations

import atexit

from grader.sandbox.confinement import ConfinementError
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.worker_process import SandboxError

_begun: Sandbox | None = None


def begin() -> None:
    """Begin the next session's sandbox; the session reports a failure."""
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
