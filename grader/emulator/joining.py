"""Joins many of the emulator's objects to one that a submission's object is linked with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from .elf import Elf

_RENAMED = ("text", "data", "bss", "data.rel.local")


def join(
    parts: Sequence[Path], made: Path, run: Callable[[Sequence[str | Path]], None]
) -> tuple[list[str], list[str]]:
    """Makes one object. Its own symbols are hidden, its sections renamed: student code can neither
    name nor replace what is inside, and a stray store is known to hit it.

    `run` starts a program. Returns the symbols that the object has for others, and those that it
    wants of others.
    """
    joined, keep = made.with_suffix(".joined"), made.with_suffix(".keep")
    run(["ld", "-r", "--force-group-allocation", *parts, "-o", joined])
    symbols = Elf(joined).symbols
    public = sorted(
        {s.name for s in symbols if s.is_defined and not s.is_local and _is_public(s.name)}
    )
    wanted = sorted({s.name for s in symbols if not s.is_defined and s.name})
    keep.write_text("".join(name + "\n" for name in public))
    renames = [f"--rename-section=.{name}=warpgrade_{name.replace('.', '_')}" for name in _RENAMED]
    run(["objcopy", "--strip-debug", f"--keep-global-symbols={keep}", *renames, joined, made])
    joined.unlink()
    keep.unlink()
    return public, wanted


def _is_public(name: str) -> bool:
    return not name.startswith(("_Z", "DW.ref."))
