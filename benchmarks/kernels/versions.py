"""The graded solutions and the expert's: loaded by path, and tried before anything is timed.

Each is called once in a process of its own, several at a time. That fills Triton's cache, and a
kernel that fails or hangs doesn't end the run.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from multiprocessing.pool import AsyncResult
from pathlib import Path

import torch

from benchmarks.kernels.goals import EXPERT, GRADED, PLAIN, VERSIONS, Case
from benchmarks.kernels.kernels import KERNELS
from benchmarks.kernels.peers import Call
from lecture.kernels import REFERENCE, Missing, cuda_entry, cuda_library, triton_entry

FOLDERS = {GRADED: REFERENCE, PLAIN: REFERENCE / "expert", EXPERT: REFERENCE / "expert"}
PROCESSES = 10  # that compile in parallel: each holds a CUDA context and a case's tensors
SECONDS = 75.0  # for all of them; the rest is tried when it is timed
OF_ONE = 60.0  # seconds in which a version compiles and runs once, or it hangs

DEVICE = "cuda"

Tried = dict[tuple[Case, str], str]  # "" where a version ran, or why it didn't


def is_there(case: Case, version: str) -> bool:
    """Whether there is a file for it. CUDA C++ is graded in float32 alone."""
    kernel = KERNELS[case.kernel]
    if kernel.is_cuda and version == GRADED and case.dtype != "float32":
        return False
    if version == PLAIN and not kernel.has_plain:
        return False
    return source(case, version).is_file()


def source(case: Case, version: str) -> Path:
    """The path of a version's file, whether or not it exists."""
    kernel = KERNELS[case.kernel]
    return FOLDERS[version] / f"{kernel.stem}{'.cu' if kernel.is_cuda else '.py'}"


def load(case: Case, version: str, built: Path) -> Call:
    """A version as a function of inputs and outputs. `built` has nvcc's results. Raises Missing.

    A C++ entry for elements of two bytes is named like transpose_v4_16bit; an expert's entry in
    plain Triton like flash_attention_plain.
    """
    kernel = KERNELS[case.kernel]
    end = "_16bit" if kernel.is_cuda and case.dtype != "float32" else ""
    if version == PLAIN:
        end = "_plain"
    entry = _entry(source(case, version), f"{kernel.entry}{end}", built / version)
    return lambda given, outputs: entry(*kernel.arguments(given, outputs))


@lru_cache(maxsize=64)
def _entry(file: Path, entry: str, built: Path) -> Callable[..., None]:
    if file.suffix == ".cu":
        return cuda_entry(file, entry, built)
    return triton_entry(file.stem, entry, file.parent)


def build(cases: Iterable[Case], built: Path) -> None:
    """Compile the CUDA files in parallel. One that doesn't compile is missing later on."""
    files = {
        (source(case, version), built / version)
        for case in cases
        for version in VERSIONS
        if KERNELS[case.kernel].is_cuda and is_there(case, version)
    }
    for version in VERSIONS:
        (built / version).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(_built, files))


def _built(pair: tuple[Path, Path]) -> None:
    try:
        cuda_library(*pair)
    except Missing:
        return  # reported where the entry is needed


def tried(cases: Iterable[Case], built: Path, seconds: float = SECONDS) -> Tried:
    """Call every existing version once, in other processes. `seconds` are for all of them."""
    wanted = [(case, name) for case in cases for name in VERSIONS if is_there(case, name)]
    if not wanted:
        return {}
    processes = min(PROCESSES, os.cpu_count() or 1, len(wanted))
    until = time.time() + seconds
    pool = multiprocessing.get_context("spawn").Pool(processes)
    try:
        # The longest to compile first: attention and products are last in the table.
        marks = {pair: built / f"{at}.begun" for at, pair in enumerate(wanted)}
        asked = {
            pair: pool.apply_async(_try, (*pair, built, marks[pair])) for pair in reversed(wanted)
        }
        return {pair: _answer(asked[pair], marks[pair], until) for pair in asked}
    finally:
        pool.terminate()  # also hanging ones
        pool.join()


def _answer(asked: AsyncResult[str], mark: Path, until: float) -> str:
    """The result of one; "" where its turn didn't come in time."""
    while not asked.ready():
        begun = mark.stat().st_mtime if mark.exists() else None
        if begun is None and time.time() > until:
            return ""
        if begun is not None and time.time() > begun + OF_ONE:
            return f"it had not ended after {OF_ONE:g} s"
        asked.wait(0.1)
    return asked.get()


def _try(case: Case, version: str, built: Path, mark: Path) -> str:
    """Try a version; runs in a process of the pool."""
    mark.touch()
    kernel = KERNELS[case.kernel]
    try:
        with torch.no_grad(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            given, outputs = kernel.given(case, DEVICE), kernel.outputs(case, DEVICE)
            load(case, version, built)(given, outputs)
            torch.cuda.synchronize()
    except Exception as error:
        return reason(error)
    for each in told:  # for example where an expert's version falls back to a plain one
        if str(FOLDERS[version]) in each.filename:
            print(f"{case.kernel} {case.label}, {version}: {each.message}", flush=True)
    return ""


def reason(error: BaseException) -> str:
    """An exception in one line."""
    text = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {text}"[:200]
