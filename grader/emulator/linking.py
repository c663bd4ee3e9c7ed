"""Links a submission's object to its planner and its executor.

The planner has all of the object, and the table of lines behind its own bytes, for the steps of its
plans. The executor has what kernels reach: no function of the host's, nothing that runs by itself.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import kernel_symbols, sites
from .elf import Elf
from .sites import Site
from .toolchain import Toolchain

Run = Callable[..., "subprocess.CompletedProcess[str]"]

_LINK = "-Wl,--emit-relocs,-z,now,-z,relro,-z,noexecstack"
# Above every size that a function may have: what the linker drops keeps its debugging information,
# at addresses from 0 on, which must not be those of a function that is there. And above a planner's
# addresses: an address tells which of the two programs it belongs to.
_EXECUTOR_BASE = "-Wl,-Ttext-segment=0x10000000"
_RUN_BY_THEMSELVES = (".preinit_array", ".init_array", ".fini_array", ".ctors", ".dtors")
_REFUSES = "warpgrade_unsupported"  # a function of ours, in place of those that aren't there
_LINES_MARK = b"WGLINES1"  # runtime/planner/lines.cpp reads it


class LinkError(Exception):
    """The linker refuses the object; the message has its words."""


@dataclass(frozen=True)
class Linked:
    """A program, and where its calls are in the student's file."""

    path: Path
    sites: dict[int, Site]


@dataclass(frozen=True)
class Linker:
    """Links what lies in one folder. `file` is the student's, as its debugging information names
    it; `run` starts one of the compiler's programs there."""

    folder: Path
    file: str
    toolchain: Toolchain
    run: Run

    def link(self, table: str, unused: Sequence[str] = ()) -> tuple[Linked, Linked]:
        """The planner and the executor. `unused` are symbols that nobody defines or calls."""
        with ThreadPoolExecutor(2) as pool:
            planner = pool.submit(self.planner, table, unused)
            executor = pool.submit(self._executor)
            return planner.result(), executor.result()

    def planner(self, table: str, unused: Sequence[str] = (), ours: Path | None = None) -> Linked:
        """The planner alone; `ours` is what it is linked with instead of the emulator's part."""
        definitions = [f"-Wl,--defsym={name}={_REFUSES}" for name in unused]
        made = self._link("planner", "student.o", table, *definitions, ours=ours)
        # The emulator's hooks tell of calls alone. Of other host code a fault may tell.
        runs = sites.instructions(made.path, self.file) if ours else {}
        with made.path.open("ab") as file:
            file.write(_lines({**made.sites, **runs}, made.path.stat().st_size))
        made.sites.update({pc: site for pc, site in runs.items() if site})
        return made

    def _executor(self) -> Linked:
        elf = Elf(self.folder / "student.o")
        roots = kernel_symbols.find(elf)
        kept = self.folder / "roots.ld"
        kept.write_text("EXTERN(" + "\n".join(f'"{name}"' for name in roots.all) + ")\n")
        # Under another name nothing calls what is in them, and the linker drops it.
        changes = [
            f"--rename-section={name}=dropped{name}"
            for name in sorted({section.name for section in elf.sections})
            if name.startswith(_RUN_BY_THEMSELVES)
        ]
        # No name but the roots': what our own object asks of the C++ library isn't the student's.
        for change, names in (("globalize", roots.all), ("localize", roots.others)):
            if names:
                (self.folder / change).write_text("\n".join(names))
                changes.append(f"--{change}-symbols={change}")
        done = self.run("objcopy", *changes, "student.o", "kernels.o")
        if done.returncode:
            raise LinkError(done.stderr[-1000:])
        options = ("-Wl,--gc-sections", _EXECUTOR_BASE)
        return self._link("executor", *options, "kernels.o", *(["roots.ld"] if roots.all else []))

    def _link(self, program: str, *parts: str, ours: Path | None = None) -> Linked:
        done = self.run(
            *(self.toolchain.compiler, "-pie", _LINK, *parts),
            *(ours or self.toolchain.prebuilt(program), "-o", program),
        )
        if done.returncode:
            raise LinkError(done.stderr)
        path = self.folder / program
        return Linked(path, sites.table(path, self.file))


def _lines(sites: Mapping[int, Site | None], size: int) -> bytes:
    """The table of lines for a program of this size: rows that are aligned, then how many."""
    listed = ((pc, site.line if (site := sites[pc]) else 0) for pc in sorted(sites))
    rows = b"".join(struct.pack("<QQ", *each) for each in listed)
    return b"\0" * (-size % 8) + rows + struct.pack("<8sQ", _LINES_MARK, len(sites))
