#!/usr/bin/env python3
"""Gradescope starts this once for each submission. Standard library only.

First it writes a results.json that says that grading failed. The grader replaces that file at its
end. So there is always a valid file, and in a sandbox never a score that the grader didn't give.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(os.environ.get("AUTOGRADER", "/autograder"))
SOURCE = ROOT / "source"
PYTHON = os.environ.get("AUTOGRADER_PYTHON", str(ROOT / "env" / "bin" / "python"))
LONGEST_LOG = 8000  # characters of what the grader wrote
DID_NOT_FINISH = "Grading did not finish: the container was stopped, or its memory was used up."


def write_failure(reason: str, log: str = "") -> None:
    """A results.json without a score.

    Gradescope needs tests or a score. Its total is hidden where a student can't see every test, so
    that no 0 is shown, and the hidden test is for the staff.
    """
    message = (
        f"{reason} This is no score, and not your mistake. The course staff can run the autograder "
        "again; your files are kept."
    )
    results = {
        "output": message,
        "stdout_visibility": "hidden",
        "tests": [
            {"name": "Not graded", "status": "failed", "output": message, "visibility": "visible"},
            {
                "name": "For the course staff",
                "status": "failed",
                "output": f"{reason}\n{log[-LONGEST_LOG:]}",
                "visibility": "hidden",
            },
        ],
        "extra_data": {"warpgrade": {"failed": True}},
    }
    path = ROOT / "results" / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name("results.json.new")
    temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def main() -> None:
    write_failure(DID_NOT_FINISH)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "AUTOGRADER": str(ROOT)}
    with tempfile.TemporaryFile() as log:
        try:
            hard_limit = json.loads((SOURCE / "autograder.json").read_text())["seconds"] + 40
            process = subprocess.Popen(
                [PYTHON, "-m", "grader.grading.gradescope"],
                cwd=SOURCE,
                env=environment,
                stderr=log,
                start_new_session=True,
            )
            code = process.wait(hard_limit)
            reason = f"The grader failed (exit status {code})." if code else ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            reason = "Grading took too long."
        except Exception as error:
            reason = f"The grader could not be started: {error}."
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    sys.stdout.write(text)
    if reason:
        write_failure(reason, text)


if __name__ == "__main__":
    main()
