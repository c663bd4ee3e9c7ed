"""Times a whole grade of the solutions and its parts. A table.

    python benchmarks/whole_grade.py [--only NAME]... [--jobs N] [--submission FOLDER]
        [--evidence FILE]

Variants are checked in parallel (seconds of all processes together, and cases), then those that are
right are timed, one after the other. The parts that finish checking last are listed. On a GPU the
whole has a goal of 60 s, including imports, compiling and tuning: exit status 1 where it takes
longer, and where something isn't right.
"""

from __future__ import annotations

import time

STARTED = time.monotonic()  # the imports below count

from grader.grading import process_pool  # noqa: E402

if __name__ == "__main__":
    process_pool.expect()  # as `grader grade` does

import argparse  # noqa: E402
from pathlib import Path  # noqa: E402

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from grader.evidence import Evidence, VariantEvidence, to_json  # noqa: E402
from grader.gpu import machine  # noqa: E402
from grader.grading.grade import grade  # noqa: E402
from grader.grading.session import Step  # noqa: E402
from grader.spec import load_all  # noqa: E402
from grader.status import Status  # noqa: E402

GOAL_SECONDS = 60.0
ALONE = ("timing", "waiting for the GPU")
LAST = 8  # parts that are listed


class Watch:
    """When each timing began, and when each part that is checked was at work."""

    def __init__(self) -> None:
        self.started = STARTED
        self.began: dict[tuple[str, str], float] = {}
        self.checked: dict[str, tuple[float, float]] = {}  # first and last report

    def __call__(self, step: Step) -> None:
        now = time.monotonic()
        if step.part in ALONE:
            self.began.setdefault((step.exercise, step.variant), now)
        elif step.part:
            name = f"{step.exercise}/{step.variant} {step.part}"
            self.checked[name] = (self.checked.get(name, (now, now))[0], now)

    def last(self, count: int) -> list[str]:
        """The last parts to report while the variants were checked."""
        order = sorted(self.checked.items(), key=lambda item: item[1][1])[-count:]
        return [
            f"{name}: {first - self.started:.0f} to {last - self.started:.0f} s"
            for name, (first, last) in order
        ]

    @property
    def checked_by(self) -> float:
        """When the last part was heard of."""
        return max((last for _, last in self.checked.values()), default=self.started)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--submission", type=Path, default=Path("reference"))
    parser.add_argument("--evidence", type=Path, help="write what was seen to this file, as JSON")
    given = parser.parse_args()
    on_gpu = machine.device() == "cuda"
    jobs = given.jobs or process_pool.default_jobs(machine.gpu_bytes())
    watch = Watch()
    seen = grade(given.submission, load_all(), only=given.only, jobs=jobs, on_step=watch)
    ended = time.monotonic()
    if given.evidence:
        given.evidence.write_text(to_json(seen), encoding="utf-8")
    Console().print(table(seen, watch))
    checking = watch.checked_by - watch.started
    whole = ended - watch.started
    print(f"{machine.gpu_name() or 'no GPU'}, {jobs} processes")
    if jobs > 1:
        print("checked last: " + "; ".join(watch.last(LAST)))
    print(f"checked after {checking:.0f} s, all done after {whole:.0f} s")
    for line in untimed(seen):
        print(line)
    wrong = [each for each in seen.variants if not is_right(each)]
    for each in wrong:
        print(f"not right: {each.exercise}/{each.variant}")
        for part in each.parts:
            if part.status is not Status.passed:
                what = part.failures[0].what if part.failures else part.reason
                print(f"    {part.dtype} {part.size_class}: {part.status.value} {what}")
        for check in (each.memory, each.performance):
            if check is not None and check.status is not Status.passed:
                print(f"    {check.status.value} {check.reason}")
    late = on_gpu and not given.only and whole > GOAL_SECONDS
    raise SystemExit(int(late or bool(wrong)))


def is_right(variant: VariantEvidence) -> bool:
    """Whether everything passed that could be checked here."""
    timed = variant.performance
    fine = (Status.passed, Status.not_measured)
    return variant.correctness is Status.passed and (
        timed is None or all(each.status in fine for each in timed.every)
    )


def untimed(seen: Evidence) -> list[str]:
    """Why variants could not be timed, if there was a GPU."""
    return [
        f"not timed: {each.exercise}/{each.variant}, {case.case}: {case.reason}"
        + (f"; {case.disturbed}" if case.disturbed else "")
        for each in seen.variants
        for case in (each.performance.every if each.performance else ())
        if case.status is Status.not_measured and case.device
    ]


def table(seen: Evidence, watch: Watch) -> Table:
    """One line for each variant, those first that took longest."""
    made = Table("variant", "checking s", "cases", "parts cut off", "timed from", "pairs", "timing")

    def spent(variant: VariantEvidence) -> float:
        return sum(part.seconds for part in variant.parts)

    for each in sorted(seen.variants, key=spent, reverse=True):
        timed = each.performance
        began = watch.began.get((each.exercise, each.variant))
        made.add_row(
            f"{each.exercise}/{each.variant}",
            f"{spent(each):.1f}",
            str(sum(part.cases_run for part in each.parts)),
            str(sum("were over" in part.reason for part in each.parts)),
            f"{began - watch.started:.1f} s" if began else "",
            " ".join(str(case.samples) for case in timed.every) if timed else "",
            timed.status.value if timed else "",
        )
    return made


if __name__ == "__main__":
    main()
