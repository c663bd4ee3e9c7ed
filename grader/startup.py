"""A command's start: torch imported with the garbage collector off, and signals that end it.

    with startup.importing():
        from grader.cli import app

Imported objects live to the end. The collector would traverse them several times during the import
and at exit, and free none.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import signal
import sys
from collections.abc import Iterator


def end_by_signals() -> None:
    """Have SIGTERM, as of timeout(1), and a closed terminal end this process as Ctrl-C does.

    Folders and processes of sandboxes would outlive it.
    """
    for each in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) is signal.SIG_DFL:
            signal.signal(each, signal.default_int_handler)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Disable collection inside, and exempt existing objects from it afterwards."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        # Torch's C code imports it too, and would swallow a Ctrl-C that comes in between.
        import numpy  # noqa: F401

        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


@atexit.register
def _thaw_for_triton() -> None:
    """Unfreeze at exit: Triton's bindings report objects that a collection would free."""
    if "triton._C.libtriton" in sys.modules:
        gc.unfreeze()
