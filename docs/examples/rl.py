"""An RL environment: rewards for kernels that a model wrote, from one server that stays warm.

    python docs/examples/rl.py silu/triton attempts/*.py

`rewards` sends a batch of attempts to `grader serve` and has the answers by id, in any order.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

LIMIT_S = 20.0


class Environment:
    """A running server. One batch at a time."""

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests, self._answers = requests, answers

    def rewards(self, exercise: str, attempts: Sequence[str]) -> list[float]:
        """A reward from 0 to 1 for each attempt: its share of the points that can be had here."""
        sender = threading.Thread(target=self._send, args=(exercise, attempts))
        sender.start()  # the server reads no further while answers wait to be read
        rewards = [0.0] * len(attempts)
        for _ in attempts:
            answer = json.loads(self._answers.readline())
            rewards[answer["id"]] = reward(answer)
        sender.join()
        return rewards

    def _send(self, exercise: str, attempts: Sequence[str]) -> None:
        for index, source in enumerate(attempts):
            request = {"schema": 1, "id": index, "exercise": exercise, "source": source}
            self._requests.write(json.dumps({**request, "limit_s": LIMIT_S}) + "\n")
        self._requests.flush()


def reward(answer: dict[str, Any]) -> float:
    """The reward of one answer. An attempt that runs out of time has none.

    What an attempt does that no executor models isn't decided, and earns nothing: else a model
    would learn to leave only the easiest sizes to be judged. Speed counts where it was timed.
    """
    if answer["outcome"] == "time_limit":
        return 0.0
    if answer["outcome"] != "graded":  # no verdict on the attempt: not its fault
        raise RuntimeError(f"{answer['outcome']}: {answer['error']}")
    result = answer["result"]
    counted = [c for c in result["checks"] if c["gradable"] or c["name"] != "performance"]
    possible = sum(check["max_score"] for check in counted)
    return float(result["score"] / possible) if possible else 0.0


@contextmanager
def environment(jobs: int = 2) -> Iterator[Environment]:
    """A server for the course around here; it ends with the block."""
    line = [sys.executable, "-m", "grader", "serve", "--jsonl", "--jobs", str(jobs)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        yield Environment(server.stdin, server.stdout)
        server.stdin.close()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} EXERCISE FILE...")
    with environment() as started:
        sources = [Path(name).read_text() for name in sys.argv[2:]]
        print(started.rewards(sys.argv[1], sources))
