"""The console script `grader`, which is also `python -m grader`."""

import itertools
import os
import sys
from collections.abc import Sequence
from typing import Literal

from grader import packages
from grader.startup import importing


def main() -> None:
    """Import the commands, and be the one that is named."""
    packages.expect()
    with packages.importing():
        _start()
    from grader.cli import app

    app.main()


def _start() -> None:
    """Start what imports side by side with this process, and import the commands."""
    from grader.sandbox import bytecode

    bytecode.keep()
    early = _begun_early(sys.argv[1:])
    if early == "pool":
        from grader.grading import process_pool

        process_pool.expect()
    elif early == "sandbox":
        from grader.sandbox import head_start

        head_start.begin()
    with importing():
        from grader.cli import app as cli  # noqa: F401


def _begun_early(arguments: Sequence[str]) -> Literal["pool", "sandbox", ""]:
    """Which helper starts before torch is imported here, and imports it at the same time.

    The pool's fork server, on a second core; or, where this process looks at one variant, its
    sandbox. None with --gpus, which changes the environment of what starts later.
    """
    options = {each.partition("=")[0] for each in arguments}
    if options & {"-h", "--help"}:
        return ""
    if arguments[:1] in (["check"], ["plan"], ["bench"]) or _grades_one_variant(arguments):
        return "sandbox"
    has_pool = arguments[:1] == ["grade"] and not options & {"--only", "--gpus"}
    return "pool" if has_pool and len(os.sched_getaffinity(0)) > 1 else ""


def _grades_one_variant(arguments: Sequence[str]) -> bool:
    """Whether `grade` is told of a variant, EXERCISE/VARIANT, and of nothing else."""
    values = itertools.pairwise(arguments)
    named = [value for option, value in values if option == "--only"]
    named += [each.partition("=")[2] for each in arguments if each.startswith("--only=")]
    return arguments[:1] == ["grade"] and len(named) == 1 and "/" in named[0]


if __name__ == "__main__":
    main()
