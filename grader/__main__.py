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
    with importing():
        from grader import cli
    cli.main()


def _will_have_a_pool(arguments: Sequence[str]) -> bool:
    """Whether what its processes come from should import now, on a second core, what we do here.

    Not with --gpus, which changes the environment that it would be too late for.
    """
    no_pool = ("-h", "--help", "--only", "--gpus")
    told = any(each.partition("=")[0] in no_pool for each in arguments)
    return arguments[:1] == ["grade"] and not told and len(os.sched_getaffinity(0)) > 1


if __name__ == "__main__":
    main()
