"""`python -m grader` is the console script `grader`."""

from grader.cli import main

if __name__ == "__main__":
    main()
