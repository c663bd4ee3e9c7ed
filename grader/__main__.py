"""The console script `grader`, which is also `python -m grader`."""

import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from grader import packages
from grader.startup import importing

_GPUS = "--gpus"
_HELP = {"-h", "--help"}
_SANDBOX = "--require-sandbox"  # without one, nothing of the submission may run


def main() -> None:
    """Run the command line. Ctrl-C ends it also while it imports, with status 130."""
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
        from grader.grading import process_pool

        process_pool.expect()
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
    "build" the compilation of a CUDA C++ variant. None with --gpus, which changes the environment
    of processes that start later.
    """
    options = {each.partition("=")[0] for each in arguments}
    if options & _HELP:
        return ""
    if arguments[:1] in (["check"], ["plan"], ["bench"]) or _grades_one_variant(arguments):
        if not any("/cuda" in each for each in arguments):
            return "plans"
        is_built = arguments[0] in ("check", "grade") and not options & {_GPUS, _SANDBOX}
        return "build" if is_built else ""
    without = {"grade": {"--only", _GPUS}, "batch": {"--scheduler", _GPUS}}
    command = arguments[0] if arguments else ""
    has_pool = command in without and not options & without[command]
    return "pool" if has_pool and len(os.sched_getaffinity(0)) > 1 else ""


def _to_build(arguments: Sequence[str]) -> tuple[str, list[Path], Path | None]:
    """The variant of CUDA C++ that arguments name, folders that may have it, and the course.

    A folder that is another option's value has no file of the variant.
    """
    values = [value for each in arguments for value in each.split("=", 1)]
    task = next(each for each in values if "/cuda" in each)
    course = next((Path(b) for a, b in itertools.pairwise(values) if a == "--course"), None)
    return task, [*map(Path, values[1:]), Path("assignment")], course


def _grades_one_variant(arguments: Sequence[str]) -> bool:
    """Whether the arguments of `grade` select one variant, EXERCISE/VARIANT, and no more."""
    values = itertools.pairwise(arguments)
    named = [value for option, value in values if option == "--only"]
    named += [each.partition("=")[2] for each in arguments if each.startswith("--only=")]
    return arguments[:1] == ["grade"] and len(named) == 1 and "/" in named[0]


if __name__ == "__main__":
    main()
