"""Triton's launchers compiled in a hurry, where nobody takes the time of what they launch.

For each new specialisation of a kernel Triton 3.6 writes a few hundred lines of C, which bind its
arguments, and has them compiled with -O3: 0.4 s, often more than the kernel takes. Without
optimisation it is 0.1 s. A timed worker has its launchers as Triton makes them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from triton import knobs

COMPILERS = ("gcc", "clang", "cc")
_FILE = re.compile(r"\.so(\.\d+)*$|\.a$")


def install() -> None:
    """Have what Triton compiles on the host made by `build` in this process."""
    knobs.build.impl = build


def build(
    name: str,
    source: str,
    folder: str,
    library_folders: Iterable[str],
    include_folders: Iterable[str],
    libraries: Iterable[str],
) -> str:
    """Compile the C of an extension module; where it is. (The signature is Triton's.)

    Raises RuntimeError without a compiler, CalledProcessError where it fails.
    """
    chosen = os.environ.get("CC") or next(filter(None, map(shutil.which, COMPILERS)), None)
    if chosen is None:
        raise RuntimeError("there is no C compiler for Triton's launchers: install gcc, or set CC")
    target = Path(folder) / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    # Where Debian's own scheme is the default its headers are not in it.
    scheme = sysconfig.get_default_scheme()
    python = sysconfig.get_paths("posix_prefix" if scheme == "posix_local" else scheme)["include"]
    line = [chosen, source, "-O0", "-shared", "-fPIC", "-Wno-psabi", "-o", str(target)]
    line += [f"-l:{each}" if _FILE.search(each) else f"-l{each}" for each in libraries]
    line += [f"-L{each}" for each in library_folders]
    line += [f"-I{each}" for each in (*include_folders, folder, python) if each is not None]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    return str(target)
