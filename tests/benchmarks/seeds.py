"""Does a verdict depend on the seed? Every known-wrong and honest submission, graded with many.

    python tests/benchmarks/seeds.py [--seeds 10] [--jobs 2] [--only silu-no_mask ...]

Prints each submission whose verdict is not the one it must get, with the seed, and a last line
with the count. It takes long: ten seeds, half an hour on two cores.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from grader.machine import gpu_name  # noqa: E402
from grader.status import Status  # noqa: E402
from tests.grader import corpus  # noqa: E402
from tests.grader.test_submissions import check_honest, check_wrong, observe  # noqa: E402


def main() -> None:
    """Grade them all and print what disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="submissions by id, or a part of it")
    given = parser.parse_args()
    device = "cuda" if gpu_name() else "interpreter"
    entries = [
        entry
        for kind in ("wrong", "honest")
        for entry in corpus.load(kind)
        if entry.status is not Status.not_attempted
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


def _verdict(entry: corpus.Submission, seed: int, device: str) -> str:
    """What is wrong with the verdict, or ""."""
    with tempfile.TemporaryDirectory() as folder:
        seen = observe(entry, Path(folder) / "submission", device, seed)
    try:
        if entry.kind == "wrong":
            check_wrong(entry, seen, gpu=device == "cuda")
        else:
            check_honest(seen)
    except AssertionError as error:
        return str(error)[:600]
    return ""


if __name__ == "__main__":
    main()
