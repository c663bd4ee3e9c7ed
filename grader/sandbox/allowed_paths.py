"""The files of this machine that a worker may access: Python, packages, libraries, its own code.

The list names what is needed, and nothing else is accessible. Both ways of hiding files use it:
bubblewrap's mounts (`mounts`) and Landlock's rules (`readable`, `executable`). Of a prefix of
Python, only `lib`, `pyvenv.cfg` and the interpreter are listed, since a virtual environment may be
the project's own folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import site
import sys
import sysconfig
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from grader.emulator import toolchain
from grader.gpu.devices import DeviceName
from grader.sandbox import bytecode

_GRADER_FOLDER = Path(__file__).resolve().parents[1]
WORKER_FOLDER = _GRADER_FOLDER / "worker"
EMULATOR_FOLDER = _GRADER_FOLDER / "emulator"
_LINKS = 40  # symbolic links followed in one path: the kernel's limit

_LIBRARIES = (
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
)
# The C++ compiler and the programs that it starts, which ask whether there are huge pages.
_COMPILER = (
    "/bin",
    "/usr/bin",
    "/usr/include",
    "/usr/libexec",
    "/etc/alternatives",
    "/sys/kernel/mm/transparent_hugepage",
)
# Triton builds its launcher with the C compiler and Python's headers; CUDA reads /sys.
_CUDA = (
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/libexec",
    "/usr/include",
    "/usr/local/lib",
    "/usr/local/include",
    "/usr/local/nvidia",
    "/etc/alternatives",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/nvidia",
    "/etc/OpenCL",
    "/sys",
)
_CUDA_GLOBS = ("usr/local/cuda*", "opt/nvidia", "opt/cuda*")
_PACKAGES = ("site-packages", "dist-packages")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def readable(device: DeviceName) -> list[Path]:
    """Existing paths that a worker reads, as the programs that read them spell them.

    The grader's package and the project around it are always left out.
    """
    ours = [WORKER_FOLDER, *_python()]
    paths = [*ours, *bytecode.of(ours), *map(Path, _LIBRARIES)]
    if device != "cpu":  # CUDA C++ is compiled
        cache = toolchain.cache_root()
        with contextlib.suppress(OSError):  # who fills it reports why it can't be written
            cache.mkdir(parents=True, exist_ok=True)  # a rule for what isn't there has no effect
        paths += [EMULATOR_FOLDER, cache, *map(Path, _COMPILER), *_compiler()]
    if device == "emulator":  # nvcc checks the source or makes planners
        paths += Path("/").glob(_CUDA_GLOBS[0])
        paths += _nvcc()
    if device == "cuda":
        paths += [Path(path) for path in _CUDA]
        paths += [path for pattern in _CUDA_GLOBS for path in Path("/").glob(pattern)]
        paths += [Path(prefix) / "include" for prefix in _prefixes()]
        paths += _folders_in(os.environ.get("LD_LIBRARY_PATH", ""))
        paths += _folders_in(os.environ.get("CUDA_HOME", ""))
    shown = [each for path in paths if path.exists() for each in _without_project(path)]
    return list(dict.fromkeys(shown))


def executable(device: DeviceName) -> list[Path]:
    """The readable paths that a worker may start as programs.

    Without a GPU, Triton's assembler and the loader that the kernel starts it with.
    """
    if device != "cpu":
        return readable(device)
    paths = [Path("/lib64"), Path("/lib")] if not (loader := _loader()) else [loader]
    paths += [each / "backends" / "nvidia" / "bin" for each in package_folders("triton")]
    return [path for path in paths if path.exists()]


def devices(device: DeviceName) -> list[Path]:
    paths = [Path(path) for path in _DEVICES]
    if device == "cuda":
        paths += sorted(Path("/dev").glob("nvidia*"))
        paths += [Path("/dev/nvidia-caps"), Path("/dev/dxg")]
    return [path for path in dict.fromkeys(paths) if path.exists()]


@dataclass(frozen=True)
class Mounts:
    """A file tree to build: symbolic links to create and real paths to bind."""

    links: dict[str, str] = field(default_factory=dict)  # path -> target as written in the link
    binds: tuple[str, ...] = ()  # real paths, none below another, the same inside as outside


def mounts(paths: list[Path]) -> Mounts:
    """Mounts that make every path reachable under its own name, through links on the way."""
    links: dict[str, str] = {}
    real = {_follow(path, links) for path in paths}
    binds = [path for path in sorted(real) if not any(str(up) in real for up in Path(path).parents)]
    # A link inside a bound folder exists already.
    links = {
        path: target
        for path, target in links.items()
        if not any(path.startswith(f"{bind}/") for bind in binds)
    }
    return Mounts(links, tuple(binds))


def _follow(path: Path, links: dict[str, str]) -> str:
    """The real path; every symbolic link on the way is added to `links`."""
    pending = list(path.parts[1:])
    at = "/"
    for _ in range(_LINKS * len(pending) + _LINKS):
        if not pending:
            return at
        part = pending.pop(0)
        if part == "..":
            at = str(Path(at).parent)
            continue
        here = os.path.join(at, part)  # noqa: PTH118 (a Path would drop nothing and cost more)
        if not os.path.islink(here):  # noqa: PTH114
            at = here
            continue
        target = str(Path(here).readlink())
        links[here] = target
        steps = Path(target).parts
        if steps[0] == "/":
            at, steps = "/", steps[1:]
        pending = [*steps, *pending]
    raise OSError(f"{path}: too many symbolic links")


def _prefixes() -> list[str]:
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    return list(dict.fromkeys(prefixes))


@lru_cache(maxsize=1)
def _python() -> tuple[Path, ...]:
    """The interpreter, the standard library and the folders of installed packages."""
    paths = [Path(sys.executable), Path(sys.executable).resolve()]
    base = getattr(sys, "_base_executable", None)
    paths += [Path(base)] if base else []
    for prefix in _prefixes():
        paths += [Path(prefix) / name for name in ("lib", "lib64", "pyvenv.cfg")]
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    paths += [Path(sysconfig.get_path(name)) for name in names]
    paths += [Path(folder) for folder in site.getsitepackages()]
    # Packages may lie elsewhere, too: a user's own, or those that a .pth file names.
    paths += [Path(folder) for folder in sys.path if Path(folder).name in _PACKAGES]
    return tuple(paths)


@lru_cache(maxsize=1)
def _compiler() -> tuple[Path, ...]:
    """The C++ compiler, its parts, headers and libraries, where they are installed."""
    try:
        path, version = toolchain.find_compiler()
    except toolchain.ToolchainMissing:
        return ()
    return toolchain.readable_paths(toolchain.Toolchain(path, version, toolchain.cache_root()))


def _nvcc() -> list[Path]:
    """NVIDIA's compiler as it is called (perhaps by a script in front of it), and its parts."""
    nvcc = toolchain.find_nvcc()
    if nvcc is None:
        return []
    root = Path(nvcc).resolve().parent.parent
    parts = ("bin", "nvvm", "include", "targets", "lib", "lib64")
    return [Path(nvcc), *(root / each for each in parts if (root / "nvvm").is_dir())]


def package_folders(name: str) -> list[Path]:
    """A package's folders, found without importing it."""
    spec = importlib.util.find_spec(name)
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []


def _loader() -> Path | None:
    """The dynamic loader of 64-bit programs, which each of them needs."""
    for pattern in ("lib64/ld-linux*.so.*", "lib/ld-linux*.so.*", "lib/ld-musl*"):
        for path in sorted(Path("/").glob(pattern)):
            return path.resolve()
    return None


def _folders_in(variable: str) -> list[Path]:
    return [Path(each) for each in variable.split(os.pathsep) if each.startswith("/")]


def _hidden() -> list[Path]:
    """Paths hidden from workers: the grader's package and, in a checkout, the project around it."""
    project = _GRADER_FOLDER.parent
    checkout = (project / "grader").is_dir() and (project / "reference").is_dir()
    return [project if checkout else _GRADER_FOLDER]


def _without_project(path: Path) -> list[Path]:
    """`path`, or the rest of its contents where it contains something hidden."""
    real = path.resolve()
    if real in (WORKER_FOLDER, EMULATOR_FOLDER) or not any(
        each.is_relative_to(real) for each in _hidden()
    ):
        return [path]
    if real in _hidden():
        return []
    return [each for entry in sorted(path.iterdir()) for each in _without_project(entry)]
