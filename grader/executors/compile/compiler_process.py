"""A process of Triton's compilers, started for the first request and again after its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from grader.sandbox.worker_process import Death, Limits, Worker
from grader.worker.protocol import Operation, Reply


class CompilerProcess:
    """One process at a time, which answers one request after another."""

    def __init__(self, spawn: Callable[[Limits], Worker], limits: Limits) -> None:
        """`spawn` starts a process whose requests have `limits`, unless they name others."""
        self._spawn = spawn
        self._limits = limits
        self._worker: Worker | None = None

    def ask(
        self, operation: Operation, request: dict[str, Any], limits: Limits | None = None
    ) -> Reply | Death:
        """Send a request as JSON and wait for its answer."""
        if self._worker is None:
            self._worker = self._spawn(self._limits)
        document = json.dumps(request).encode()
        answer = self._worker.ask_at_length(operation, limits=limits, document=document)
        if isinstance(answer, Death):
            self._worker = None
        return answer

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
