"""The console script `grader`, which is also `python -m grader`."""

import os
import sys
from collections.abc import Sequence

from grader.startup import importing


def main() -> None:
    """Import the commands, and be the one that is named."""
    if _will_have_a_pool(sys.argv[1:]):
        from grader import pool

        pool.expect()
    elif sys.argv[1:2] in (["check"], ["plan"]) and not _asks_for_help(sys.argv[1:]):
        from grader import head_start

        head_start.begin()
    with importing():
        from grader import cli
    cli.main()


def _will_have_a_pool(arguments: Sequence[str]) -> bool:
    """Whether what its processes come from should import now, on a second core, what we do here.

    Not with --gpus, which changes the environment that it would be too late for.
    """
    no_pool = ("--only", "--gpus")
    told = any(each.partition("=")[0] in no_pool for each in arguments)
    is_grade = arguments[:1] == ["grade"] and not _asks_for_help(arguments)
    return is_grade and not told and len(os.sched_getaffinity(0)) > 1


def _asks_for_help(arguments: Sequence[str]) -> bool:
    return any(each in ("-h", "--help") for each in arguments)


if __name__ == "__main__":
    main()
