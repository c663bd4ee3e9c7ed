"""What a user has to put right, as an exception: commands print it without a traceback."""


class Mistake(Exception):
    """Something that a user gave can't be used: the message names it and says what was expected."""
