"""Joins many of the emulator's objects to one, which is linked with a submission's object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from .elf import Elf

_PRIVATE = ("_Z", "DW.ref.")
_RENAMED = ("text", "data", "bss", "data.rel.local")


def join(
    parts: Sequence[Path], made: Path, run: Callable[[Sequence[str | Path]], None]
) -> tuple[list[str], list[str]]:
    """Make one object. Its symbols are hidden and its sections renamed, so that student code can
    neither use nor replace its contents, and a stray store to it is recognised.

    `run` starts a program. Returns the symbols that the object provides, and those that it needs.
    """
    joined, keep = made.with_suffix(".joined"), made.with_suffix(".keep")
    run(["ld", "-r", "--force-group-allocation", *parts, "-o", joined])
    symbols = Elf(joined).symbols
    public = sorted(
        {
            s.name
            for s in symbols
            if s.is_defined and not s.is_local and not s.name.startswith(_PRIVATE)
        }
    )
    wanted = sorted({s.name for s in symbols if not s.is_defined and s.name})
    keep.write_text("".join(name + "\n" for name in public))
    renames = [f"--rename-section=.{name}=warpgrade_{name.replace('.', '_')}" for name in _RENAMED]
    run(["objcopy", "--strip-debug", f"--keep-global-symbols={keep}", *renames, joined, made])
    joined.unlink()
    keep.unlink()
    return public, wanted
