"""A process with TRITON_INTERPRET set, in which the tests run their kernels.

The variable must be set before triton is imported, and importing it takes a second, so one process
imports it (run as `python interpreted.py mended|upstream`) and forks for every experiment. An
experiment is a piece of Python that sees `k` (the module of kernels under test), `torch`, `tl`,
`interpreter` (when mended) and leaves its answer, which must be JSON, in `result`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

HEADER = "import torch\nimport triton\nimport triton.language as tl\n"


class Laboratory:
    """The client: starts the process, hands it experiments, returns what they found."""

    def __init__(self, mode: str, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        environment = {**os.environ, "TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, __file__, mode],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, kernels: str, experiment: str, header: str = HEADER) -> object:
        """Write `kernels` to a file, run `experiment` on it in a fork, return its `result`.

        Raises AssertionError with the traceback when the experiment raises or dies.
        """
        self.count += 1
        path = self.folder / f"kernels_{self.count}.py"
        path.write_text(header + "\n" + textwrap.dedent(kernels).lstrip("\n"))
        answer = self.folder / f"answer_{self.count}.json"
        request = {
            "path": str(path),
            "experiment": textwrap.dedent(experiment),
            "answer": str(answer),
        }
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        assert answer.exists(), "the experiment's process died"
        found = json.loads(answer.read_text())
        assert "error" not in found, found.get("error")
        return found["result"]

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait(10)


def _experiment(request: dict, names: dict) -> dict:
    import importlib.util

    spec = importlib.util.spec_from_file_location("kernels", request["path"])
    module = importlib.util.module_from_spec(spec)
    names = {**names, "k": module, "path": request["path"], "result": None}
    try:
        spec.loader.exec_module(module)
        exec(compile(request["experiment"], "experiment", "exec"), names)
    except BaseException:
        return {"error": traceback.format_exc()}
    return {"result": names["result"]}


def _serve(mode: str) -> None:
    import torch
    import triton
    import triton.language as tl

    torch.set_num_threads(1)
    names = {"torch": torch, "triton": triton, "tl": tl}
    if mode == "mended":
        sys.path.insert(0, str(ROOT))
        from grader.worker import interpreter

        interpreter.install()
        interpreter.install()  # a second time does nothing
        names["interpreter"] = interpreter
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.dup2(2, 1)  # what an experiment prints is not an answer
            text = json.dumps(_experiment(request, names))
            Path(request["answer"]).write_text(text)
            os._exit(0)
        os.waitpid(pid, 0)
        print("done", flush=True)


if __name__ == "__main__":
    sys.path = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent]
    _serve(sys.argv[1])
