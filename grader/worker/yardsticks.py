"""What stands in for a submission: what candidates are timed against, and what does nothing.

Trusted code in an untrusted place: it runs as a submission does, so that both pay the same for the
way there and back.
"""


def copy(source, destination):
    """Move bytes: `destination` becomes `source`; uint8 of equal length."""
    destination.copy_(source)


def nothing(*arguments):
    """Serve a request without a part in it: does the worker itself work?"""
