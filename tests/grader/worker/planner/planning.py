"""Plans of small submissions in tests: a process with a planner installed forks for each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grader.plan import read

ROOT = Path(__file__).parents[4]
ALLOCATION = 1 << 16  # bytes of each argument's memory
BEFORE = 4096  # of it that lie before the tensor


def tensor(*shape: int, dtype: str = "float32", offset: int = 0, **more: Any) -> dict:
    """A tensor argument; `offset` in bytes, `strides` in elements, `space` device or host."""
    return {"shape": shape, "dtype": dtype, "offset": offset, **more}


class Server:
    """The process that forks; it answers one job at a time."""

    def __init__(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.grader.worker.planner.planning"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, job: dict) -> dict:
        """The answer to a job."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the planning process has ended"
        return json.loads(line)

    def plan(self, folder: Path, text: str | bytes, arguments: list, **more: Any) -> dict:
        """The plan of a submission's text, or {"code": ..., "message": ...} where it is refused."""
        path = folder / "submission.py"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        job = {"path": str(path), "entry": "f", "folder": str(folder), "arguments": arguments}
        plan = self.ask({"do": "plan", **job, **more})
        if "calls" in plan:
            sizes = [ALLOCATION if isinstance(each, dict) else None for each in arguments]
            read(json.dumps(plan), sizes)  # the grader takes it
        return plan

    def frontend(self, folder: Path, specialisation: dict) -> dict:
        """What the frontend makes of a specialisation, in a process that planned nothing."""
        return self.ask({"do": "frontend", "folder": str(folder), "specialisation": specialisation})

    def backend(self, ttir: str, options: dict) -> dict:
        """What the backend makes of TTIR."""
        return self.ask({"do": "backend", "ttir": ttir, "options": options})

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


def steps(plan: dict, do: str, call: int = 0) -> list[dict]:
    """The steps of one kind."""
    assert "calls" in plan, plan
    return [step for step in plan["calls"][call] if step["do"] == do]


def serve() -> None:
    """Answer jobs, each in a process of its own."""
    import gc

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from grader.worker import plan_processes

    plan_processes.prepare()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            if status:
                answers.write(json.dumps({"code": "died", "status": status}) + "\n")
                answers.flush()
            continue
        try:
            answer = _DO[job.pop("do")](**job)
        except BaseException:
            answer = {"code": "crashed", "message": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        os._exit(0)


def _plan(
    path: str,
    entry: str,
    folder: str,
    arguments: list,
    before: Sequence[list] = (),
    passed_over: Sequence[str] = (),
) -> dict:
    """The plan for `arguments`, by a planner that made one for each of `before` already.

    Tuners take none of the configurations `passed_over`.
    """
    from grader.worker.planner import autotuning, host
    from grader.worker.protocol import Refusal

    autotuning.pass_over(passed_over)
    planner = host.Planner(path, entry, folder)
    try:
        planner.load(len(arguments))
        for earlier in before:
            planner.plan([_argument(each) for each in earlier])
        plan: dict = planner.plan([_argument(each) for each in arguments])
    except Refusal as refusal:
        return {"code": refusal.code.name, **refusal.text}
    return plan


def _frontend(folder: str, specialisation: dict) -> dict:
    from grader.worker.compile.frontend import compile_frontend

    return compile_frontend(folder, specialisation)


def _backend(ttir: str, options: dict) -> dict:
    from grader.worker.compile.backend import compile_backend

    return compile_backend(ttir, options)


def _argument(described: Any) -> Any:
    from grader.worker.protocol import Argument, DType, Kind, Space

    if isinstance(described, bool):
        return Argument(Kind.boolean, scalar=described)
    if isinstance(described, int | float):
        kind = Kind.int64 if isinstance(described, int) else Kind.float64
        return Argument(kind, scalar=described)
    shape = tuple(described["shape"])
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return Argument(
        Kind.tensor,
        DType[described["dtype"]],
        Space[described.get("space", "device")],
        0,
        BEFORE + described["offset"],
        (0, ALLOCATION),
        shape,
        tuple(described.get("strides", strides if shape else ())),
    )


def _reference(folder: str, line: int) -> dict:
    """What a plan says of the function in submission.py at a line, or in one of the next."""
    from grader.worker.compile.failures import CompileFailure
    from grader.worker.compile.source import SourceFolder

    source = SourceFolder(folder)
    for each in range(line, line + 4):
        try:
            text = source.function("submission.py", each)
        except CompileFailure:
            continue
        return {"file": text.file, "line": text.line, "function": text.name, "hash": text.digest}
    raise AssertionError("no function there")


_DO: dict[str, Callable[..., dict]] = {
    "plan": _plan,
    "frontend": _frontend,
    "backend": _backend,
    "reference": _reference,
}

if __name__ == "__main__":
    serve()
