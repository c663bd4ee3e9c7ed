"""Links a submission's object to its planner and its executor.

The planner has all of the object, and a table of lines appended, for the steps of its plans. The
executor has what kernels reach: no host function, and nothing that runs by itself.
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
# Above every function's size: dropped functions keep their debugging information, at addresses from
# 0 on, which must not be those of linked functions. Also above a planner's addresses, so that an
# address identifies the program.
_EXECUTOR_BASE = "-Wl,-Ttext-segment=0x10000000"
_RUN_BY_THEMSELVES = (".preinit_array", ".init_array", ".fini_array", ".ctors", ".dtors")
_REFUSES = "warpgrade_unsupported"  # our function, in the place of missing ones
_LINES_MARK = b"WGLINES1"  # runtime/planner/lines.cpp reads it


class LinkError(Exception):
    """The linker refuses the object; the message is the linker's."""


@dataclass(frozen=True)
class Linked:
    """A program, and its calls' places in the student's file."""

    path: Path
    sites: dict[int, Site]


@dataclass(frozen=True)
class Linker:
    """Links the files in one folder. `file` is the student's, as in the debugging information;
    `run` starts one of the compiler's programs there; `kernels` is the object that has them."""

    folder: Path
    file: str
    toolchain: Toolchain
    run: Run
    kernels: str = "student.o"

    def link(self, table: str, unused: Sequence[str] = ()) -> tuple[Linked, Linked]:
        """The planner and the executor. `unused` are symbols that nobody defines or calls."""
        with ThreadPoolExecutor(2) as pool:
            planner = pool.submit(self.planner, table, unused)
            executor = pool.submit(self._executor)
            return planner.result(), executor.result()

    def planner(self, table: str, unused: Sequence[str] = (), ours: Path | None = None) -> Linked:
        """The planner alone; `ours` replaces the emulator's part of it."""
        definitions = [f"-Wl,--defsym={name}={_REFUSES}" for name in unused]
        made = self._link("planner", "student.o", table, *definitions, ours=ours)
        # The emulator's hooks only need calls. In other host code, an instruction may fault.
        runs = sites.instructions(made.path, self.file) if ours else {}
        with made.path.open("ab") as file:
            file.write(_lines({**made.sites, **runs}, made.path.stat().st_size))
        made.sites.update({pc: site for pc, site in runs.items() if site})
        return made

    def _executor(self) -> Linked:
        elf = Elf(self.folder / self.kernels)
        roots = kernel_symbols.find(elf)
        kept = self.folder / "roots.ld"
        kept.write_text("EXTERN(" + "\n".join(f'"{name}"' for name in roots.all) + ")\n")
        # Renamed, nothing calls their contents, and the linker drops them.
        changes = [
            f"--rename-section={name}=dropped{name}"
            for name in sorted({section.name for section in elf.sections})
            if name.startswith(_RUN_BY_THEMSELVES)
        ]
        # Only the roots' names: the C++ library's, for our own object, aren't the student's.
        for change, names in (("globalize", roots.all), ("localize", roots.others)):
            if names:
                (self.folder / change).write_text("\n".join(names))
                changes.append(f"--{change}-symbols={change}")
        # Of groups with one name the linker keeps the first: it would take the submission's copy of
        # a template for the C++ library's, whose calls would then lead nowhere.
        done = self.run("objcopy", *changes, "--remove-section=.group", self.kernels, "kernels.o")
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
    """The table of lines for a program of this size: aligned rows, then their number."""
    listed = ((pc, site.line if (site := sites[pc]) else 0) for pc in sorted(sites))
    rows = b"".join(struct.pack("<QQ", *each) for each in listed)
    return b"\0" * (-size % 8) + rows + struct.pack("<8sQ", _LINES_MARK, len(sites))
