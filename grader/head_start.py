"""A sandbox that is begun before this process imports torch, so that both import it side by side.

    head_start.begin()                 at a command's start, where a session is to come
    sandbox = head_start.take(...)     the session's, which owns it from there on; or None

It is one for kernels without a GPU. On a machine that may have a GPU nothing is begun: only torch
knows, and a session there needs another kind.
"""

from __future__ import annotations

import atexit
from pathlib import Path

from grader.confinement import ConfinementError
from grader.sandbox import Sandbox
from grader.supervision import SandboxError

_GPU_FILES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # of NVIDIA's driver, and under WSL

_begun: Sandbox | None = None


def begin() -> None:
    """Begin the sandbox of the next session; where that fails, the session will say why."""
    global _begun
    if _begun is not None or any(each.exists() for each in _GPU_FILES):
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
