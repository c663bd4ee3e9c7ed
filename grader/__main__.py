"""The console script `grader`, which is also `python -m grader`."""

import itertools
import os
import sys
from collections.abc import Sequence
from typing import Literal

from grader import packages
from grader.startup import importing


def main() -> None:
    """Run the command line."""
    packages.expect()
    with packages.importing():
        _start()
    from grader.cli import app

    app.main()


def _start() -> None:
    """Start helpers that import in parallel with this process, and import the commands."""
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
    """The helper to start before torch is imported here, so that both import it in parallel.

    The pool's fork server, on a second core; or, for a single variant, its sandbox. None with
    --gpus, which changes the environment of processes that start later.
    """
    options = {each.partition("=")[0] for each in arguments}
    if options & {"-h", "--help"}:
        return ""
    if arguments[:1] in (["check"], ["plan"], ["bench"]) or _grades_one_variant(arguments):
        # The sandbox is for Triton, and CUDA C++ would only wait for a core.
        return "" if any("/cuda" in each for each in arguments) else "sandbox"
    has_pool = arguments[:1] == ["grade"] and not options & {"--only", "--gpus"}
    return "pool" if has_pool and len(os.sched_getaffinity(0)) > 1 else ""


def _grades_one_variant(arguments: Sequence[str]) -> bool:
    """Whether the arguments of `grade` select one variant, EXERCISE/VARIANT, and no more."""
    values = itertools.pairwise(arguments)
    named = [value for option, value in values if option == "--only"]
    named += [each.partition("=")[2] for each in arguments if each.startswith("--only=")]
    return arguments[:1] == ["grade"] and len(named) == 1 and "/" in named[0]


if __name__ == "__main__":
    main()
