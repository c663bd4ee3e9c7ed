"""What `grader serve` answers under fire, and how fast: requests of which every tenth misbehaves.

    python -m benchmarks.serve [--requests 2000] [--jobs 2] [--limit 5] [--timed]
    python -m benchmarks.serve --speed 20      only the speed: a kernel's requests, cold and again

With the speed comes where its CPU time goes: in the grader's process, and in those of each kind
that it starts, with how many they are. What a process takes to end isn't seen.

Each line of requests has a known answer. A wrong one is counted, and so is a neighbour touched: an
honest request that isn't graded as passed. Memory is that of the server and its pool's processes,
without sandboxes, at each tenth of the way.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import psutil

from grader.gpu import machine
from grader.sandbox import Sandbox
from grader.sandbox.worker_process import Worker
from grader.service import warm
from grader.service.single import exercises_of, task_named

ROOT = Path(__file__).resolve().parents[1]
TRITON = (ROOT / "reference" / "silu.py").read_text()
CUDA = (ROOT / "reference" / "silu.cu").read_text()
ATTACKS = {
    "crash": "import ctypes\nctypes.string_at(0)\n",
    "hang": "while True:\n    pass\n",
    "fork bomb": (
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    ),
    "memory hog": "hog = []\nwhile True:\n    hog.append(bytearray(1 << 24))\n",
}
WRONG = {
    "silu/triton": TRITON.replace("tl.exp(-x)", "tl.exp2(-x)"),
    "silu/cuda": CUDA.replace("expf(-x)", "exp2f(-x)"),
}
EVERY = 10


def requests(count: int, common: dict[str, Any], is_cold: bool = True) -> Iterator[dict[str, Any]]:
    """Requests with what is expected of them, as `expected`: "passed", "failed" or an attack."""
    attacks = list(ATTACKS)
    for index in range(count):
        name = ("silu/triton", "silu/cuda")[index % 2]
        source = TRITON if index % 2 == 0 else CUDA
        expected = "passed"
        if index % EVERY == EVERY - 1:
            name, expected = "silu/triton", attacks[index // EVERY % len(attacks)]
            source = ATTACKS[expected] + TRITON
        elif index % 5 == 3:
            source, expected = WRONG[name], "failed"
        comment = ("#" if name == "silu/triton" else "//") + f" {index}\n"
        source = source + comment if is_cold else source
        request = {"schema": 1, "id": index, "exercise": name, "source": source, **common}
        yield {"expected": expected, "request": request}


def is_right(expected: str, answer: dict[str, Any]) -> bool:
    """Whether an answer is the expected one. A wrong kernel and an attack lose points."""
    result = answer["result"]
    if expected == "passed":
        return result is not None and result["status"] == "passed"
    is_a_failure = result is not None and result["status"] not in ("passed", "grader_error")
    return is_a_failure or (expected != "failed" and answer["outcome"] == "time_limit")


def run(asked: list[dict[str, Any]], jobs: int) -> dict[str, Any]:
    """Send requests through a server, and say what came back."""
    line = [sys.executable, "-m", "grader", "serve", "--jsonl", "--jobs", str(jobs)]
    expected = {each["request"]["id"]: each["expected"] for each in asked}
    wrong: Counter[str] = Counter()
    memory: list[int] = []
    answered = 0
    with subprocess.Popen(
        line, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        threading.Thread(target=_send, args=(asked, server.stdin)).start()
        began = time.monotonic()
        first = 0.0
        for text in server.stdout:
            answer = json.loads(text)
            answered += 1
            first = first or time.monotonic()
            kind = expected.pop(answer["id"])
            if not is_right(kind, answer):
                wrong[kind] += 1
                print(kind, text[:600], file=sys.stderr)
            if answered % max(1, len(asked) // 10) == 0:
                memory.append(_megabytes(server.pid))
    seconds = time.monotonic() - began
    warm = (answered - 1) / (time.monotonic() - first) if answered > 1 else 0.0
    return {
        "requests": len(asked),
        "answers": answered,
        "wrong": sum(count for kind, count in wrong.items() if kind != "passed"),
        "neighbours touched": wrong["passed"],
        "missing": len(expected),
        "seconds": round(seconds, 1),
        "per second": round(warm, 2),  # from the first answer on
        "per second and process": round(warm / jobs, 2),
        "megabytes": memory,
        "load": [round(each, 1) for each in os.getloadavg()],
    }


def _send(asked: list[dict[str, Any]], stream: IO[str]) -> None:
    with stream:
        for each in asked:
            stream.write(json.dumps(each["request"]) + "\n")


def _megabytes(pid: int) -> int:
    """Memory of the server and its processes, each page once; without what sandboxes hold."""
    total = 0
    server = psutil.Process(pid)
    for each in (server, *server.children(recursive=True)):
        try:
            if "bwrap" not in each.name() and "-I" not in each.cmdline():
                total += each.memory_full_info().pss
        except psutil.Error:
            continue
    return total >> 20


def speed(count: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Requests per second of CPU time in one process, on a small kernel of each language.

    "Cold" is a new text each time, "again" the same text. The first request isn't counted. CPU time
    is that of all processes, so that other work on the machine doesn't show.
    """
    exercises = exercises_of(None)
    spent = _Spent()
    for comment, name, source in (("#", "silu/triton", TRITON), ("//", "silu/cuda", CUDA)):
        for way in ("cold", "again"):
            seconds: list[float] = []
            own: list[float] = []
            for index in range(count + 1):
                text = source + f"{comment} {index}\n" if way == "cold" else source
                task = task_named(exercises, name)
                asked = (options.effort, options.timed, 60.0, machine.device(), False)
                before, own_before = warm.cpu_seconds(), time.process_time()
                if index == 1:
                    spent.begin()
                result = warm.answer(warm.Work(task, text, index, *asked))
                assert result.passed, result.message
                seconds.append(warm.cpu_seconds() - before)
                own.append(time.process_time() - own_before)
            median = statistics.median(seconds[1:])
            yield {
                "what": f"{name}, {way}",
                "CPU seconds": round(median, 3),
                "per second": round(1 / median, 2),
                "grader": round(statistics.median(own[1:]), 3),
                **spent.each(count),
            }


class _Spent:
    """CPU seconds of workers by their kind, seen when they are ended."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._workers: Counter[str] = Counter()
        self._kinds: dict[Worker, str] = {}
        self._forked, self._kill = Sandbox._forked, Worker._kill
        Sandbox._forked = self._fork()  # type: ignore[method-assign]
        Worker._kill = self._end()  # type: ignore[method-assign]

    def begin(self) -> None:
        """Forget what was seen."""
        self._seconds.clear()
        self._workers.clear()

    def each(self, requests: int) -> dict[str, list[float]]:
        """Seconds of a request and its workers, by their kind."""
        return {
            kind: [round(self._seconds[kind] / requests, 3), round(number / requests, 1)]
            for kind, number in sorted(self._workers.items())
        }

    def _fork(self) -> Any:
        def fork(sandbox: Sandbox, request: Any, *given: Any) -> Worker:
            worker = self._forked(sandbox, request, *given)
            kind = request.get("role") or f"program on {sandbox.device}"
            build = request.get("build")
            self._kinds[worker] = f"build {build['backend']}" if build else kind
            return worker

        return fork

    def _end(self) -> Any:
        def end(worker: Worker) -> None:
            kind = self._kinds.pop(worker, "other")
            self._workers[kind] += 1
            with contextlib.suppress(psutil.Error):
                self._seconds[kind] += sum(psutil.Process(worker.pid).cpu_times()[:4])
            self._kill(worker)

        return end


def main() -> None:
    """Print a line of JSON for each run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit", type=float, default=5.0)
    parser.add_argument("--effort", choices=["full", "quick"], default="quick")
    parser.add_argument("--speed", type=int, default=0)
    parser.add_argument("--timed", action="store_true")
    options = parser.parse_args()
    common = {"limit_s": options.limit, "effort": options.effort, "timed": options.timed}
    if options.speed:
        for measured in speed(options.speed, options):
            print(json.dumps(measured), flush=True)
        return
    result = run(list(requests(options.requests, common)), options.jobs)
    print(json.dumps({"what": "every tenth misbehaves", **result}))


if __name__ == "__main__":
    main()
