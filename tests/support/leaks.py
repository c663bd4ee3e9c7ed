"""Finds solutions and wrong submissions in the students' release.

A line leaks where its text is in a file of the release, regardless of white space. Short lines are
too common to count, and lines that students get anyway, in the stubs and the worked examples, are
no secret.
"""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.staff.calibration import corpus

# Characters without white space. The core of SiLU is 20 long; edits are often of plain C or Python.
OF_A_SOLUTION, OF_THE_CORPUS = 16, 21

# Text of a line -> why it may stand in the release.
EXEMPT: Mapping[str, str] = {
    "return cudaDeviceSynchronize();": "the emulator's runtime, which students get, calls it",
    "out = torch.empty_like(x)": "how a caller allocates; the students' README calls silu so",
    "__syncthreads();": "a call of CUDA's, which the assignment text explains",
    "offs = tl.arange(0, BLOCK)": "a call of Triton's, which the assignment text explains",
    "except ZeroDivisionError:": "plain Python, in the grader's arithmetic",
    "#include <cuda_fp16.h>": "CUDA's own header; the grader names it too",
    "num_warps=warps,": "how the grader compiles for the course's GPU",
    "if (error != cudaSuccess) {": "how every CUDA program asks, the grader's host too",
}


@dataclass(frozen=True)
class Leak:
    """A line of a secret file that stands in the release."""

    secret: str  # file:line, or the entry of the corpus
    place: str  # file:line in the release
    text: str

    def __str__(self) -> str:
        return f"{self.place}: has {self.text!r} of {self.secret}"


def squeezed(text: str) -> str:
    """The text without white space."""
    return "".join(text.split())


def solution_lines(reference: Path) -> Iterator[tuple[str, str]]:
    """(file:line, text) of every line between BEGIN SOLUTION and END SOLUTION but stub lines."""
    for path in sorted(reference.iterdir()):
        if path.suffix not in (".py", ".cu"):
            continue
        inside = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if re.search(r"(#|//) (BEGIN|END) SOLUTION$", line):
                inside = "BEGIN" in line
            elif inside and not line.strip().startswith(("#|", "//|")):
                yield f"{path.name}:{number}", line


def corpus_lines() -> Iterator[tuple[str, str]]:
    """(entry, text) of every line that a wrong or an honest submission puts into a file."""
    for kind in ("wrong", "honest"):
        for language in ("triton", "cuda"):
            for entry in corpus.load(kind, language):
                texts = [entry.whole or "", *(edit.new for edit in entry.edits)]
                said = [entry.mistake, entry.about]
                for line in "\n".join([*texts, *said]).splitlines():
                    yield entry.place, line


def leaks(
    files: Mapping[str, bytes],
    secrets: Iterable[tuple[str, str]],
    known: Iterable[str],
    at_least: int = OF_A_SOLUTION,
) -> list[Leak]:
    """Every secret line of `at_least` characters in a file, or in an archive among them.

    Those that stand in one of the `known` texts are none.
    """
    public = "\n".join(map(squeezed, [*known, *EXEMPT]))
    wanted = {
        line: where
        for where, text in secrets
        if len(line := squeezed(text)) >= at_least and line not in public
    }
    found = []
    for name, data in _opened(files):
        lines = [squeezed(line) for line in data.decode("utf-8", "replace").splitlines()]
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        text = "".join(lines)
        for line, where in wanted.items():
            at = text.find(line)
            if at >= 0:
                number = bisect_right(starts, at)
                found.append(Leak(where, f"{name}:{number}", line))
    return found


def _opened(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The files, and those in the archives among them."""
    for name, data in files.items():
        yield name, data
        yield from _opened({f"{name}/{inner}": each for inner, each in _members(data)})


def _members(data: bytes) -> list[tuple[str, bytes]]:
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [(name, archive.read(name)) for name in archive.namelist()]
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.getmembers() if entry.isfile()]
            opened = [(entry.name, archive.extractfile(entry)) for entry in entries]
            return [(name, file.read()) for name, file in opened if file is not None]
    except (tarfile.TarError, EOFError, OSError):
        return []
