"""The base of what asks a process of Triton's compilers, which the first request starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from grader.executors.compile.kept_builds import KeptBuilds
from grader.sandbox.worker_process import Death, Limits, Worker
from grader.worker.protocol import Operation, Reply


class Compiler:
    """Asks one process at a time, which answers one request after another."""

    def __init__(
        self, spawn: Callable[[Limits], Worker], limits: Limits, kept: KeptBuilds | None
    ) -> None:
        """`spawn` starts a process whose requests have `limits`, unless they name others; results
        of earlier runs are taken from `kept`."""
        self._spawn = spawn
        self._limits = limits
        self._kept = kept or KeptBuilds(None)
        self._worker: Worker | None = None

    def _ask_process(
        self, operation: Operation, request: dict[str, Any], limits: Limits | None = None
    ) -> Reply | Death:
        """Send a request as JSON and wait for its answer; after its end a process is replaced."""
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
