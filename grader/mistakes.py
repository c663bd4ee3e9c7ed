"""The exception for a user's mistake, which commands print without a traceback."""


class Mistake(Exception):
    """A user's input can't be used: the message names it and what was expected."""
