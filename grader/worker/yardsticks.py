"""What candidates are timed against: loaded by a worker of its own, in place of a submission.

Trusted code in an untrusted place: it runs as a submission does, so that both pay the same for the
way there and back.
"""


def copy(source, destination):
    """Move bytes: `destination` becomes `source`; uint8 of equal length."""
    destination.copy_(source)
