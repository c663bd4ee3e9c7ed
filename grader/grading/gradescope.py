"""The grader inside Gradescope's container: one submission in, results.json out.

    AUTOGRADER/source/              this checkout, as upload.py packed it
      autograder.json                 what to grade, what to hide, how long
    AUTOGRADER/submission/          the student's files
    AUTOGRADER/results/results.json

run_autograder starts this module, and has already written a results.json that reports a failure. An
exception here ends the process and leaves that file.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grader.evidence import Evidence
from grader.gpu import machine
from grader.grading.grade import grade
from grader.grading.search import Effort
from grader.grading.session import PUBLIC_SEED, Options, Step, selected
from grader.report import gradescope_results
from grader.report.gradescope_results import Visibility
from grader.report.summary import STUDENTS_FOLDER
from grader.sandbox import confinement
from grader.scoring.score import score
from grader.spec import Exercise, load_all
from grader.spec.course_file import in_order
from grader.spec.predictions import PREDICTIONS

CONFIG = "autograder.json"

UNCONFINED = (
    "This container offers no sandbox: the submission ran with limits only. Good for feedback, no "
    "final grade."
)
NO_TIME = "Time was over before everything was tried: the rest is not measured, not lost."
WHAT_TO_DO = (
    "The container was too slow for this submission: choose a larger one, raise the assignment's "
    "timeout and pack the autograder with --timeout, then run it again."
)


@dataclass(frozen=True)
class Config:
    """The settings in autograder.json, which staff/autograder/upload.py writes.

    Names are of exercises and variants. `seed` is only for hidden variants, since a failing case
    that a student sees reveals its seed. `seconds` are wall time from the start.
    """

    seconds: float
    hidden: tuple[str, ...] = ()
    visibility: Visibility = "after_published"  # of hidden variants
    seed: int | None = None
    lifted: tuple[str, ...] = ()
    effort: Mapping[str, Any] = field(default_factory=dict)  # fields of Effort
    order: tuple[str, ...] = ()  # of exercises, where the class has its own

    def to_json(self) -> str:
        """The text of the file; equal for equal values."""
        return json.dumps(vars(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def read(cls, path: Path) -> Config:
        """Read what `to_json` wrote. Raises OSError, ValueError, TypeError."""
        data = json.loads(path.read_text(encoding="utf-8"))
        lists = {name: tuple(data[name]) for name in ("hidden", "lifted", "order")}
        return cls(**(data | lists))

    def is_hidden(self, exercise: str, variant: str) -> bool:
        """Whether students can't see a variant's result yet."""
        return exercise in self.hidden or f"{exercise}/{variant}" in self.hidden


def main() -> None:
    """Grade AUTOGRADER/submission and write the results. Raises any exception of that."""
    root = Path(os.environ.get("AUTOGRADER", "/autograder"))
    config_path = root / "source" / CONFIG
    config = Config.read(config_path)
    exercises = in_order(load_all(), config.order)
    confined = confinement.choose(None, machine.device()).is_enough
    if not confined:
        # No sandbox contains the submission: secrets are deleted before it runs.
        config = replace(config, seed=None)
        config_path.write_text(config.to_json(), encoding="utf-8")
    with _as_assignment(folder_in(root / "submission", exercises)) as folder:
        text = run(folder, exercises, config, confined=confined)
    results = root / "results" / "results.json"
    temporary = results.with_name("results.json.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(results)


@contextmanager
def _as_assignment(folder: Path) -> Iterator[Path]:
    """The folder under its usual name, so that a reproduce line works on a student's machine."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as temporary:
        Path(temporary, STUDENTS_FOLDER).symlink_to(folder.resolve())
        os.chdir(temporary)
        try:
            yield Path(STUDENTS_FOLDER)
        finally:
            os.chdir(before)


def run(
    submission: Path, exercises: Mapping[str, Exercise], config: Config, *, confined: bool = True
) -> str:
    """The text of results.json."""
    deadline = time.monotonic() + config.seconds
    names = [(each.exercise.name, each.variant.name) for each in selected(exercises)]
    names += [(name, PREDICTIONS) for name, each in exercises.items() if each.predictions]
    open_names = [f"{e}/{v}" for e, v in names if not config.is_hidden(e, v)]
    hidden_names = [f"{e}/{v}" for e, v in names if config.is_hidden(e, v)]
    parts = []
    for only, seed in ((open_names, None), (hidden_names, config.seed)):
        if only:
            parts.append(_graded(submission, exercises, config, only, seed, deadline))
    observed = together(parts)
    graded = score(observed, exercises)

    def visible(exercise: str, variant: str, check: str) -> Visibility:
        return config.visibility if config.is_hidden(exercise, variant) else "visible"

    results = json.loads(gradescope_results.render(observed, graded, visibility=visible))
    notes = [] if confined else [UNCONFINED]
    if not observed.complete:
        notes.append(NO_TIME)
        if not results["tests"]:
            del results["score"]  # which would be 0 of 0
        # The hidden test hides the total, too: it isn't what the submission is worth.
        results["tests"] += [
            _remark("Not everything was graded", NO_TIME, "visible"),
            _remark("For the course staff", f"{NO_TIME} {WHAT_TO_DO}", "hidden"),
        ]
    results["output"] = "\n".join([*notes, results["output"]])
    results["extra_data"]["warpgrade"]["confined"] = confined
    return json.dumps(results, indent=1, allow_nan=False) + "\n"


def _remark(name: str, text: str, visibility: Visibility) -> dict[str, str]:
    """A test without points."""
    return {"name": name, "status": "failed", "output": text, "visibility": visibility}


def _graded(
    folder: Path,
    exercises: Mapping[str, Exercise],
    config: Config,
    only: Sequence[str],
    seed: int | None,
    deadline: float,
) -> Evidence:
    def on_step(step: Step) -> None:
        if time.monotonic() > deadline:
            raise KeyboardInterrupt  # as Ctrl-C does, which keeps the evidence so far

    return grade(
        folder,
        exercises,
        Options(
            seed=PUBLIC_SEED if seed is None else seed,
            effort=Effort(**config.effort),
            lifted=config.lifted,
        ),
        only=only,
        on_step=on_step,
    )


def together(parts: Sequence[Evidence]) -> Evidence:
    """Evidence of different variants of one submission, merged; the seed is the first's."""
    return replace(
        parts[0],
        variants=tuple(variant for part in parts for variant in part.variants),
        seconds=round(sum(part.seconds for part in parts), 3),
        complete=all(part.complete for part in parts),
    )


def folder_in(submission: Path, exercises: Mapping[str, Exercise]) -> Path:
    """The folder with the submission's files: itself, or its one subfolder that has any."""
    names = {name for e in exercises.values() for v in e.variants.values() for name in v.files}
    if any((submission / name).is_file() for name in names):
        return submission
    inner = [each for each in _folders(submission) if any((each / n).is_file() for n in names)]
    return inner[0] if len(inner) == 1 else submission


def _folders(folder: Path) -> Iterable[Path]:
    return (
        each
        for each in sorted(folder.iterdir())
        if each.is_dir() and not each.is_symlink() and not each.name.startswith((".", "__"))
    )


if __name__ == "__main__":
    main()
