"""What a pool's processes have imported before they are forked (pool.py names this module)."""

from grader.startup import importing

with importing():
    import grader.grade  # noqa: F401
