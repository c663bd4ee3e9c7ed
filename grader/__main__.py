"""The console script `grader`, which is also `python -m grader`."""

from grader.startup import importing


def main() -> None:
    """Import the commands, and be the one that is named."""
    with importing():
        from grader import cli
    cli.main()


if __name__ == "__main__":
    main()
