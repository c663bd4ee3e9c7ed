"""The console script `grader`, which is also `python -m grader`."""

import contextlib
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from grader import packages
from grader.startup import end_by_signals, importing

_HELP = {"-h", "--help"}
_SANDBOX = "--require-sandbox"  # without one, nothing of the submission may run


def main() -> None:
    """Run the command line. Ctrl-C ends it also while it imports, with status 130."""
    end_by_signals()
    try:
        packages.expect()
        with packages.importing():
            _start()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    from grader.cli import app

    app.main()


def _start() -> None:
    """Start helpers that import in parallel with this process, and import the commands."""
    from grader.sandbox import bytecode

    bytecode.keep()
    early = _begun_early(sys.argv[1:])
    if sys.argv[1:2] == ["bench"] and not _HELP & {*sys.argv}:
        from grader.grading import head_start

        head_start.begin_baselines()
    if early == "pool":
        _expect_pool(_values(sys.argv[1:], "--gpus"))
    elif early:
        from grader.grading import head_start

        if early == "plans":
            head_start.begin_plans()
        else:
            head_start.begin_build(*_to_build(sys.argv[1:]))
    with importing():
        from grader.cli import app as cli  # noqa: F401


def _begun_early(arguments: Sequence[str]) -> Literal["pool", "plans", "build", ""]:
    """The helper to start before torch is imported here, so that both go on in parallel.

    "pool" is the pool's fork server, on a second core; "plans" the sandbox of a Triton variant;
    "build" the compilation of a CUDA C++ variant.
    """
    options = {each.partition("=")[0] for each in arguments}
    if options & _HELP:
        return ""
    if arguments[:1] in (["check"], ["plan"], ["bench"]) or _grades_one_variant(arguments):
        if not any("/cuda" in each for each in arguments):
            return "plans"
        is_built = arguments[0] in ("check", "grade") and _SANDBOX not in options
        return "build" if is_built else ""
    without = {"grade": "--only", "batch": "--scheduler"}
    command = arguments[0] if arguments else ""
    has_pool = command in without and without[command] not in options
    return "pool" if has_pool and len(os.sched_getaffinity(0)) > 1 else ""


def _expect_pool(gpus: Sequence[str]) -> None:
    """Begin to start the pool, whose processes see the last of these lists of GPUs.

    The command sets that for this process, once it knows that they are there.
    """
    from grader.gpu import locks
    from grader.grading import process_pool

    with locks.inherited(gpus[-1]) if gpus else contextlib.nullcontext():
        process_pool.expect()


def _to_build(arguments: Sequence[str]) -> tuple[str, list[Path], Path | None]:
    """The variant of CUDA C++ that arguments name, folders that may have it, and the course.

    A folder that is another option's value has no file of the variant.
    """
    words = _words(arguments)
    task = next(each for each in words if "/cuda" in each)
    courses = _values(arguments, "--course")
    course = Path(courses[0]) if courses else None
    return task, [*map(Path, words[1:]), Path("assignment")], course


def _grades_one_variant(arguments: Sequence[str]) -> bool:
    """Whether the arguments of `grade` select one variant, EXERCISE/VARIANT, and no more."""
    named = _values(arguments, "--only")
    return arguments[:1] == ["grade"] and len(named) == 1 and "/" in named[0]


def _values(arguments: Sequence[str], option: str) -> list[str]:
    """What an option is given, each time."""
    return [value for each, value in itertools.pairwise(_words(arguments)) if each == option]


def _words(arguments: Sequence[str]) -> list[str]:
    """The arguments, with --option=value as two."""
    return [word for each in arguments for word in each.split("=", 1)]


if __name__ == "__main__":
    main()
