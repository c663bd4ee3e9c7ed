"""Seconds until a student reads the first message on a wrong submission, and until the report.

    python benchmarks/time_to_message.py EXERCISE/VARIANT=FOLDER ... [--repeat N]

`grader grade FOLDER --only EXERCISE/VARIANT` runs on a terminal of its own, one at a time. While
the other parts are checked, the terminal shows why the first part fails. Each row has the seconds
until that, until the command ends, and the message's first line.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import statistics
import sys
import time

COLUMNS = 100
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def main() -> None:
    """Time each submission, and print medians by language."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("submissions", nargs="+", metavar="TASK=FOLDER")
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    seconds: dict[str, list[tuple[float, float]]] = {}
    for each in arguments.submissions:
        task, _, folder = each.partition("=")
        runs = [timed(task, folder) for _ in range(arguments.repeat)]
        first = statistics.median(run[0] for run in runs)
        whole = statistics.median(run[1] for run in runs)
        print(f"{task:28} {first:6.1f} {whole:6.1f}  {runs[-1][2]}", flush=True)
        language = "CUDA" if "cuda" in task else "Triton"
        seconds.setdefault(language, []).append((first, whole))
    for language, pairs in seconds.items():
        first = statistics.median(pair[0] for pair in pairs)
        whole = statistics.median(pair[1] for pair in pairs)
        print(
            f"median of {len(pairs)} in {language}: first message {first:.1f}, report {whole:.1f}"
        )


def timed(task: str, folder: str) -> tuple[float, float, str]:
    """Seconds to the first message and to the end of a grade, and the message's first line."""
    command = [sys.executable, "-m", "grader", "grade", folder, "--only", task]
    begun = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(COLUMNS=str(COLUMNS), TERM="xterm-256color")
        os.execv(sys.executable, command)
    told, first, line = "", 0.0, ""
    while True:
        ready, _, _ = select.select([terminal], [], [], 0.02)
        try:
            data = os.read(terminal, 65536) if ready else b""
        except OSError:  # the terminal is closed
            break
        told = _ESCAPES.sub("", told + data.decode("utf-8", "replace"))
        match = re.search(rf"{re.escape(task)}(?:, [^:\n]+)?: .*$", told, re.M)
        if match and not first:
            first, line = time.perf_counter() - begun, match[0].strip()
        if ready and not data:
            break
    os.waitpid(child, 0)
    whole = time.perf_counter() - begun
    return first or whole, whole, line


if __name__ == "__main__":
    main()
