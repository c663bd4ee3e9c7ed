"""A variant's entry with tensors of a case on the GPU, as something to call. The child imports it.

CUDA C++ is compiled with nvcc here and runs as it is: this is for one's own files.
"""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from grader.cases import inputs, parse
from grader.cases.arena import Slot
from grader.executors.cuda import joining
from grader.spec import Variant
from grader.spec import course as courses
from grader.spec.task import Task
from grader.worker import nvcc
from grader.worker.protocol import Argument, Kind

_SEED = 1
_C = {Kind.int64: ctypes.c_int, Kind.float64: ctypes.c_float, Kind.boolean: ctypes.c_bool}


def call(
    name: str, text: str, submission: Path, course: Path | None = None
) -> Callable[[], object]:
    """The entry of a variant, with its arguments. Raises ValueError, OSError, AttributeError."""
    exercise_name, _, variant_name = name.partition("/")
    exercise = courses.find(course).exercises[exercise_name]
    task = Task(exercise, exercise.variants[variant_name])
    case = parse(text, task, _SEED, is_run=False)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device).manual_seed(_SEED)
    made = inputs.drawn(task, case, generator)
    arguments = [_argument(each, device) for each in made.order]
    source = submission / task.variant.file
    if not source.is_file():
        raise FileNotFoundError(f"there is no {source}")
    if task.variant.language == "cuda":
        variant = task.variant.of_dtype(case.dtype)
        labs = joining.labs_of({exercise_name: exercise})
        code = joining.read_trusted(submission, labs, variant.file)
        return partial(_cuda_entry(variant, code), *map(_as_c, arguments))
    return partial(_python_entry(source, task.variant.entry), *(v for _, v in arguments))


def _argument(given: Slot | Argument, device: torch.device) -> tuple[Kind | None, Any]:
    """A tensor as the case lays it out, or a number with its kind."""
    if isinstance(given, Argument):
        return given.kind, given.scalar
    where = torch.device("cpu") if given.space == "host" else device
    dtype = getattr(torch, given.dtype)
    whole = torch.zeros(given.first + given.extent, dtype=dtype, device=where)
    tensor = whole.as_strided(given.shape, given.strides, given.first)
    if given.values is not None:
        tensor.copy_(given.values)
    return None, tensor


def _python_entry(source: Path, entry: str) -> Callable[..., object]:
    sys.path.insert(0, str(source.resolve().parent))
    spec = importlib.util.spec_from_file_location(source.stem, source)
    assert spec is not None and spec.loader is not None
    module = sys.modules[source.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., object] = getattr(module, entry)
    return function


def _cuda_entry(variant: Variant, text: bytes | str) -> Callable[..., object]:
    compiler = shutil.which("nvcc")
    if compiler is None:
        raise FileNotFoundError(f"{variant.file} needs nvcc, which isn't installed")
    if isinstance(text, str):
        raise ValueError(text)
    folder = Path(tempfile.mkdtemp(prefix="warpgrade-profile-"))
    source = folder / variant.file
    source.write_bytes(text)
    library = folder / f"{source.stem}.so"
    options = [*nvcc.flags_of(text), "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC"]
    done = subprocess.run(
        [compiler, *options, *variant.compile.options, "-o", str(library), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(f"nvcc doesn't compile {source.name}:\n{done.stderr.strip()}")
    function: Callable[..., object] = getattr(ctypes.CDLL(str(library)), variant.entry)
    return function


def _as_c(argument: tuple[Kind | None, Any]) -> Any:
    kind, value = argument
    return ctypes.c_void_p(value.data_ptr()) if kind is None else _C[kind](value)
