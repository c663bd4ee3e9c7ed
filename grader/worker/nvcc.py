"""NVIDIA's compiler: compiles a submission's .cu to an object and a cubin.

    check(...)             whether nvcc accepts the file
    compile_object(...)    the same, and keeps the object

Errors become `Refusal`s in the student's file and lines. Its parts have messages of different
forms: the front end (`a.cu(3): error: ...`), the preprocessor and the assembler (`a.cu:3: Error:
...`), and ptxas and the linker, which have no lines.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULT_ARCHITECTURE = "sm_90"  # of an H100, the usual course's GPU
# Relaxed: device code may call constexpr functions such as std::min, as in the emulator. Without
# fortified functions an object needs the same names as the emulator's.
_FLAGS = ("-std=c++17", "-lineinfo", "--expt-relaxed-constexpr", "-Xcompiler", "-U_FORTIFY_SOURCE")
# Lambdas for the device, or macros that may mark them. Their option slows nvcc down by half and
# more, and a student's message waits for nvcc.
_LAMBDAS = re.compile(rb"\]\s*(?:__host__\s+)?__device__\b|#\s*define\b[^\n]*__device__\b")
# What nvcc hands on to g++: assembly of host code, and the initialisers of a constructor for the
# device, where g++ lacks the device's functions. A file without them needs no second look of g++'s.
_LEFT_TO_GCC = re.compile(rb"asm|(?<!__host__ )__device__[^;{}]{0,400}\)\s*:(?!:)")
# Of its programs: the quotes and words that are parsed here; and memory in large pieces and pages,
# since they spend much time on faults of small ones. C libraries other than glibc ignore that.
ENVIRONMENT = {
    "LC_ALL": "C",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=16777216",
}
OPTIMISED = "-O3"  # for host code: device code always is
MAX_REFUSALS = 10
MAX_DETAIL = 2000

_NO_SUCH_FILE = "No such file or directory"
_FRONT_END = re.compile(
    r"(?P<file>[^()\n]+)\((?P<line>\d+)\): (?:\w+ )?error(?: #[\w-]+)?: (?P<what>.*)"
)
_GNU = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?[Ee]rror: (?P<what>.*)")
_PTXAS = re.compile(r"ptxas\b.*?\b(?:error|fatal)\s*:\s*(?P<what>.*)")
_LINKER = re.compile(r".*?(?P<what>(?:undefined reference to|multiple definition of) .*)")
_MENTION = re.compile(r"\bat line (?P<line>\d+)(?: of \"?(?P<file>[^\s\"]+)\"?)?$", re.MULTILINE)
_MANGLED = re.compile(r"\b_Z\w+")
_PATH = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+([\w.+-]+)")


@dataclass(frozen=True)
class Refusal:
    """One error of the compiler; `line` is the student's, or None."""

    message: str
    line: int | None = None
    detail: str = ""

    def as_problem(self, kind: str) -> dict[str, Any]:
        """The refusal as a problem of the builder's answer."""
        return {**dataclasses.asdict(self), "kind": kind, "entry": ""}


class NvccError(RuntimeError):
    """nvcc failed for another reason than the file: the machine's fault or the grader's."""


def check(
    nvcc: str,
    source: Path,
    folder: Path,
    target: str = DEFAULT_ARCHITECTURE,
    options: Sequence[str] = (),
) -> tuple[Refusal, ...]:
    """nvcc's errors in the lines of `source`, compiled for `target`. Writes to `folder` only.

    nvcc reads all of the file. It hands host code on to g++ only where that may refuse it: g++ has
    compiled the rest for the emulator. Errors without a line are left out: a broken compiler is no
    verdict. Raises OSError when nvcc can't be started, NvccError when it fails for other reasons,
    or with no other errors than those: then it hasn't accepted the file either.
    """
    step = "-c" if _LEFT_TO_GCC.search(source.read_bytes()) else "-cuda"
    refused = compile_object(nvcc, source, folder / "checked.ii", target, options, step)
    if any(_NO_SUCH_FILE in each.message for each in refused):
        # Perhaps of a library that this toolkit lacks: the emulator has its own headers.
        raise NvccError(refused[0].message)
    lined = tuple(each for each in refused if each.line is not None)
    if refused and not lined:
        raise NvccError(refused[0].message)
    return lined


def compile_object(
    nvcc: str,
    source: Path,
    made: Path,
    target: str | None = None,
    options: Sequence[str] = (),
    step: str = "-c",
) -> tuple[Refusal, ...]:
    """Compile one file to an object; empty when it was made. Raises as `check` does.

    `options` are more options of nvcc's; a level of optimisation among them replaces the default.
    `step` is how far it is compiled.
    """
    level = () if any(each.startswith("-O") for each in options) else (OPTIMISED,)
    flags = [*flags_of(source.read_bytes()), *level, *options]
    line = [nvcc, *flags, f"-arch={target or DEFAULT_ARCHITECTURE}"]
    return _refusals(run([*line, step, source.name, "-o", str(made)], source.parent), source)


def flags_of(text: bytes) -> tuple[str, ...]:
    """The options that a file of this content is compiled with, besides those of its variant."""
    return (*_FLAGS, "--extended-lambda") if _LAMBDAS.search(text) else _FLAGS


def read_messages(text: str, file: str) -> list[Refusal]:
    """The errors in nvcc's output about `file`, in order, each once."""
    lines = text.splitlines()
    starts = [(number, match) for number, line in enumerate(lines) if (match := _match(line))]
    refusals: list[Refusal] = []
    for position, (number, match) in enumerate(starts):
        end = starts[position + 1][0] if position + 1 < len(starts) else len(lines)
        context = _until_blank(lines[number + 1 : end])
        refusal = _refusal(match, "\n".join(context), file)
        if refusal not in refusals:
            refusals.append(refusal)
    return refusals[:MAX_REFUSALS]


def demangled(names: Sequence[str], folder: Path) -> list[str]:
    """What functions are called in the source; the names themselves where that can't be had."""
    if not names or shutil.which("c++filt") is None:
        return list(names)
    shown = run(["c++filt", *names], folder).stdout.splitlines()
    return shown if len(shown) == len(names) else list(names)


def _placed(refusal: Refusal, source: Path) -> Refusal:
    """A refusal of ptxas's with the function's name and line, instead of its mangled name."""
    mangled = _MANGLED.search(refusal.message)
    if mangled is None:
        return refusal
    name = demangled([mangled[0]], source.parent)[0]
    if name == mangled[0]:
        return refusal
    message = refusal.message.replace(mangled[0], name)
    plain = re.search(r"(\w+)\s*[<(]", name.removeprefix("void "))
    line = refusal.line
    if plain and line is None:
        defined = re.compile(rf"\b{re.escape(plain[1])}\s*\(")
        text = source.read_text("utf-8", "replace").splitlines()
        line = next((at for at, code in enumerate(text, 1) if defined.search(code)), None)
    return Refusal(message, line, refusal.detail)


def run(line: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one of the compilers' programs in a folder. Raises OSError when it can't be started."""
    return subprocess.run(
        [str(part) for part in line],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        env={**os.environ, **ENVIRONMENT},
    )


def _refusals(ended: subprocess.CompletedProcess[str], source: Path) -> tuple[Refusal, ...]:
    if ended.returncode == 0:
        return ()
    printed = ended.stdout + ended.stderr
    refusals = [_placed(each, source) for each in read_messages(printed, source.name)]
    if not refusals:
        raise NvccError(f"nvcc ended with status {ended.returncode}: {_clean(printed)}")
    return tuple(refusals)


def _match(line: str) -> re.Match[str] | None:
    for pattern in (_FRONT_END, _GNU, _PTXAS, _LINKER):
        if match := pattern.fullmatch(line):
            return match
    return None


def _refusal(match: re.Match[str], context: str, file: str) -> Refusal:
    known = match.groupdict()
    if "line" not in known:
        return Refusal(_clean(known["what"]), None, _clean(context))
    if Path(known["file"]).name == file:
        return Refusal(_clean(known["what"]), int(known["line"]), _clean(context))
    # In a header that isn't the student's: the last line of theirs that led there.
    mentions = [each for each in _MENTION.finditer(context) if each["file"] == file]
    line = int(mentions[-1]["line"]) if mentions else None
    where = f"{Path(known['file']).name}:{known['line']}"
    return Refusal(f"{_clean(known['what'])} (in {where})", line, _clean(context))


def _until_blank(lines: Sequence[str]) -> list[str]:
    kept = []
    for line in lines:
        if not line.strip() or line.startswith("compilation terminated"):
            break
        kept.append(line.rstrip())
    return kept


def _clean(text: str) -> str:
    """The text without folders of this machine, shortened."""
    text = _PATH.sub(r"\1", text)
    return text if len(text) <= MAX_DETAIL else text[:MAX_DETAIL] + " ..."
