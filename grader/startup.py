"""Importing torch with the garbage collector off: a third of a command's start and end.

    with startup.importing():
        from grader.cli import app

What is imported stays to the end. The collector would look through all of it several times on the
way, and twice more as the interpreter ends, and find nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """No collection inside; what there is at the end is never looked at again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


@atexit.register
def _thaw_for_triton() -> None:
    """Triton's bindings count what is left at the end, and print what a collector would take."""
    if "triton._C.libtriton" in sys.modules:
        gc.unfreeze()
