"""Tests whether verdicts depend on the seed: grades every wrong and honest submission with many.

    python benchmarks/seeds.py [--seeds 10] [--jobs 2] [--only silu-no_mask ...]
    python benchmarks/seeds.py --solutions [--seeds 20] [--jobs 2]

Prints each submission with an unexpected verdict, with the seed, and the count. Ten seeds take half
an hour on two cores. --solutions runs every variant of reference/ instead, on drawn cases and a few
edges; nothing is compiled ahead.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from grader.gpu.devices import DeviceName  # noqa: E402
from grader.gpu.machine import gpu_name  # noqa: E402
from grader.grading.grade import grade_task  # noqa: E402
from grader.grading.search import Effort  # noqa: E402
from grader.grading.session import Options, Session  # noqa: E402
from grader.spec import load_all  # noqa: E402
from grader.spec.exercise import REFERENCE  # noqa: E402
from grader.spec.task import Task  # noqa: E402
from grader.staff.calibration import corpus  # noqa: E402
from grader.status import Status  # noqa: E402
from tests.grader.grading.test_submissions import check_honest, check_wrong, observe  # noqa: E402
from tests.support import expected  # noqa: E402


def main() -> None:
    """Grade them all and print the unexpected verdicts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="submissions by id, or a part of it")
    parser.add_argument("--solutions", action="store_true", help="the solutions, not the corpus")
    given = parser.parse_args()
    device: DeviceName = "cuda" if gpu_name() else "cpu"
    if given.solutions:
        sys.exit(_solutions(given.seeds, given.jobs, device))
    entries = [
        entry
        for kind in ("wrong", "honest")
        for entry in corpus.load(kind)
        if entry.status is not Status.not_attempted
        and not expected.unnoticed_by(entry, version("triton"))
        and (not given.only or any(part in entry.id for part in given.only))
    ]
    runs, disagreed = 0, 0
    with ProcessPoolExecutor(given.jobs) as pool:
        asked = {
            pool.submit(_verdict, entry, seed, device): (entry, seed)
            for seed in range(1, given.seeds + 1)
            for entry in entries
        }
        for done in as_completed(asked):
            entry, seed = asked[done]
            runs += 1
            if trouble := done.result():
                disagreed += 1
                print(f"{entry.id} with seed {seed}: {trouble}", flush=True)
            if runs % 100 == 0:
                print(f"{runs} of {len(asked)} runs", flush=True)
    print(f"{len(entries)} submissions, {given.seeds} seeds: {disagreed} of {runs} runs disagree")
    sys.exit(1 if disagreed else 0)


def _solutions(seeds: int, jobs: int, device: DeviceName) -> int:
    """Run the solutions with many seeds; 1 if any part of any fails."""
    parts = failed = 0
    with ProcessPoolExecutor(jobs) as pool:
        for seed, (count, troubles) in zip(
            range(1, seeds + 1),
            pool.map(_with_seed, range(1, seeds + 1), [device] * seeds),
            strict=True,
        ):
            parts += count
            failed += len(troubles)
            print(
                f"seed {seed}: {count} parts, {len(troubles)} fail",
                *troubles,
                sep="\n  ",
                flush=True,
            )
    print(f"{seeds} seeds: {failed} of {parts} parts of solutions fail")
    return 1 if failed else 0


def _with_seed(seed: int, device: DeviceName) -> tuple[int, list[str]]:
    """The number of the solutions' parts, and those that fail."""
    parts, troubles = 0, []
    exercises = load_all()
    effort = Effort(edges=3, drawn=8, compile_ahead=False)
    with Session(REFERENCE, exercises, Options(seed=seed, device=device, effort=effort)) as session:
        for exercise in exercises.values():
            for variant in exercise.variants.values():
                for part in grade_task(session, Task(exercise, variant)).parts:
                    parts += 1
                    if part.status is not Status.passed:
                        name = f"{exercise.name}/{variant.name} {part.dtype} {part.size_class}"
                        troubles.append(f"{name}: {part.status.value} {part.failures[:1]}")
    return parts, troubles


def _verdict(entry: corpus.Submission, seed: int, device: DeviceName) -> str:
    """What is wrong with the verdict, or ""."""
    with tempfile.TemporaryDirectory() as folder:
        seen = observe(entry, Path(folder) / "submission", device, seed)
    try:
        if entry.kind == "wrong":
            check_wrong(entry, seen, gpu=device == "cuda")
        else:
            check_honest(entry, seen)
    except AssertionError as error:
        return str(error)[:600]
    return ""


if __name__ == "__main__":
    main()
