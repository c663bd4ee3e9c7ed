"""`grader serve`: requests from standard input, answers to standard output."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from grader.cli.console import (
    INTERRUPTED,
    GpusOption,
    JobsOption,
    have_oracles,
    refuse,
    right_exercises,
)
from grader.gpu import locks, machine
from grader.grading import process_pool
from grader.service.server import Interrupted, Server, Settings, ended_by_signals


def command(
    jsonl: Annotated[bool, typer.Option("--jsonl", help="One request a line, as JSON.")] = False,
    jobs: JobsOption = None,
    queue: Annotated[
        int, typer.Option(min=0, help="Requests that wait at most, before no more are read.")
    ] = 16,
    require_sandbox: Annotated[
        bool,
        typer.Option("--require-sandbox", help="Refuse to run without bubblewrap or Landlock."),
    ] = False,
    gpus: GpusOption = None,
) -> None:
    """Answer requests from standard input on standard output, to its end: docs/rl.md has them."""
    if not jsonl:
        refuse("expected --jsonl: requests and answers are lines of JSON")
    if gpus is not None:
        locks.choose(gpus)
    exercises = right_exercises()
    have_oracles(exercises, [])
    many = jobs or process_pool.default_jobs(machine.gpu_bytes(), len(locks.visible()))
    settings = Settings(many, queue, machine.device(), require_sandbox)
    # The answers alone are written there: whatever else is printed goes to standard error.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)

        def write(line: str) -> None:
            try:
                answers.write(line)
                answers.flush()
            except BrokenPipeError:  # nobody reads any more: the server ends as by SIGTERM
                os.dup2(os.open(os.devnull, os.O_WRONLY), answers.fileno())
                os.kill(os.getpid(), signal.SIGTERM)

        try:
            with ended_by_signals(), Server(exercises, write, settings) as server:
                server.serve(sys.stdin.buffer)
        except Interrupted:
            raise typer.Exit(INTERRUPTED) from None
