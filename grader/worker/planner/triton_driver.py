"""Triton's host side without a GPU: a driver, and kernels that note their launches.

Binder, specialisation, hooks, heuristics and autotuner are Triton's own, unpatched. Where Triton
would compile, the kernel is described for the plan; where it would launch, a step is noted.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import torch
import triton
from triton.compiler import make_backend
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.errors import OutOfResources, PTXASError

from ..compile import backend, messages, options
from ..compile.frontend import lower
from ..compile.options import planned_for
from . import autotuning, fake_tensors, torch_cuda
from .errors import GridTooLarge, KernelError, LaunchError, Unsupported
from .specialisation import Describer

# Errors for which an autotuner skips a configuration.
_SKIPPED = (OutOfResources, CompileTimeAssertionFailure, PTXASError)
_MAX_GRID = (2**31 - 1, 65_535, 65_535)
_FORMATS = {
    "i1": "<?", "u1": "<?", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q",
    "u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "fp16": "<e", "fp32": "<f", "fp64": "<d",
}  # fmt: skip

# Set by the process's planner.
describer: Describer | None = None


class Utilities:
    """A driver's `utils`, as far as Triton uses them."""

    @staticmethod
    def get_device_properties(device: int = 0) -> dict[str, Any]:
        """The properties of the course's GPU."""
        properties = torch_cuda.PROPERTIES
        return {
            "max_shared_mem": properties.shared_memory_per_block_optin,
            "max_num_regs": properties.regs_per_multiprocessor,
            "multiprocessor_count": properties.multi_processor_count,
            "warpSize": properties.warp_size,
            "sm_clock_rate": properties.clock_rate,
            "mem_clock_rate": properties.memory_clock_rate,
            "mem_bus_width": properties.memory_bus_width,
        }


class PlanDriver:
    """Triton's driver interface, for the course's GPU."""

    launcher_cls = None
    utils = Utilities()
    binary_ext = "cubin"

    def get_current_target(self) -> Any:
        """The GPU that kernels are compiled for."""
        return planned_for()

    def get_current_device(self) -> int:
        """The number of the only device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing: there is one device."""

    def get_current_stream(self, device: int | None = None) -> int:
        """The number of the stream in the plan."""
        return torch_cuda.current_stream().number

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """The compute capability of the course's GPU."""
        major, minor = divmod(planned_for().arch, 10)
        return major, minor

    def get_active_torch_device(self) -> torch.device:
        """The device on which tensors are made."""
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """torch.cuda, which was replaced too."""
        return torch.cuda

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """The buffer that a benchmark clears between runs; small here."""
        return torch.empty(1, dtype=torch.int32, device="cuda")

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Do nothing: there is no cache to clear."""

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The type unchanged: no launcher is built of it."""
        return ty

    def get_benchmarker(self) -> Callable[..., Any]:
        """The function that an autotuner times configurations with."""
        return autotuning.benchmark


# --- kernels --------------------------------------------------------------------------------------


class PlannedKernel:
    """In place of a compiled kernel: Triton's launcher calls `run` with the bound arguments."""

    function, packed_metadata, module = 0, None, 0

    def __init__(self, source: Any, chosen: Any) -> None:
        self.src, self.options, self.name = source, chosen, source.fn.__name__
        self.described = _described(source, chosen)
        self.hash = self.described["hash"]
        self._compiled: dict[str, Any] | None = None

    # Attributes of a compiled kernel that launchers read.

    @property
    def compiled(self) -> dict[str, Any]:
        """The backend's answer. Raises Triton's error for a kernel that doesn't compile."""
        if self._compiled is None:
            self._compiled = _compiled(self.src, self.options, self.described)
        return self._compiled

    @property
    def metadata(self) -> Any:
        """Launch options and the cubin's resources."""
        return _Metadata(self)

    n_regs = property(lambda self: self.compiled["registers"])
    n_spills = property(lambda self: self.compiled["spills"])
    asm = property(lambda self: self.compiled["asm"])
    kernel = property(lambda self: self.compiled["asm"]["cubin"])

    @property
    def n_max_threads(self) -> int:
        """The threads that a block may have with this number of registers."""
        registers = max(int(self.compiled["registers"]), 1)
        return min(options.MAX_THREADS, 65_536 // registers // 32 * 32)

    def _init_handles(self) -> None:
        _ = self.compiled

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> None:
        """None: there are no profilers."""

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        grid = [*grid, 1, 1][:3]
        return lambda *args, stream=None: self.run(*grid, stream, *[None] * 5, *args)

    def run(self, x: Any, y: Any, z: Any, stream: Any, *rest: Any) -> None:
        """Note a launch; the first five parameters are Triton's own."""
        recorder = fake_tensors.active_recorder()
        grid = _checked_grid(self.name, (x, y, z))
        arguments: list[dict[str, Any]] = []
        for name, kind, value in zip(
            self.src.signature, self.src.signature.values(), rest[5:], strict=False
        ):
            arguments += _arguments(f"{self.name}: {name}", kind, value)
        if 0 in grid:
            return  # CUDA isn't called for an empty grid
        clusters = getattr(self.options, "num_ctas", 1)
        is_cooperative = bool(getattr(self.options, "launch_cooperative_grid", False))
        if is_cooperative:
            _expect_at_once(self.name, math.prod(grid) * clusters, self.options.num_warps)
        recorder.steps.add(
            "launch",
            specialisation=recorder.specialisation(self.described),
            grid=grid,
            block=[],
            shared=0,
            arguments=arguments,
            parameters="",
            pointers=[],
            stream=stream if isinstance(stream, int) else recorder.steps.stream,
            cooperative=is_cooperative,
            cluster=[clusters, 1, 1] if clusters > 1 else [],
            attributes={"pdl": True} if getattr(self.options, "launch_pdl", False) else {},
            scratch=0,
            trial=recorder.trial,
        )
        autotuning.check(self.described)


class _Metadata:
    """A kernel's options and its cubin's resources; compiled on demand."""

    def __init__(self, kernel: PlannedKernel) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        known = {"name": self._kernel.name, "target": planned_for()} | vars(self._kernel.options)
        if name in known:
            return known[name]
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = self._kernel.compiled
        if name in ("shared", "num_warps", "tmem_size", "global_scratch_size"):
            return compiled.get(name, 0)
        raise AttributeError(name)

    def _asdict(self) -> dict[str, Any]:
        return {"name": self._kernel.name, **vars(self._kernel.options)}


def _described(source: Any, chosen: Any) -> dict[str, Any]:
    if describer is None:
        return {"hash": ""}
    own = describer.constexpr_functions(source.fn)
    if own:
        from .constexpr_calls import record

        record(source, chosen, own)
    return describer.specialisation(source, chosen)


def _checked_grid(name: str, given: tuple[Any, Any, Any]) -> list[int]:
    """A grid that CUDA and Triton's launcher take, which rounds no number. Raises LaunchError."""
    try:
        grid = [operator.index(each) for each in given]
    except TypeError:
        sizes = ", ".join(str(each)[:40] for each in given)
        raise LaunchError(
            f"kernel {name} is launched on a grid of ({sizes}); each has to be an int",
            "triton.cdiv(n, BLOCK) is n / BLOCK rounded up, an int; `/` gives a float.",
        ) from None
    for size, most, axis in zip(grid, _MAX_GRID, "xyz", strict=True):
        if not 0 <= size <= most:
            raise GridTooLarge(
                f"kernel {name} is launched on {size:,} programs in {axis}; at most {most:,} are "
                "possible",
                "Number the programs along x, which may have 2,147,483,647; y and z end at 65,535.",
            )
    return grid


def _expect_at_once(name: str, programs: int, warps: int) -> None:
    """Raise GridTooLarge for a cooperative launch with more programs than the GPU has room for.

    Threads decide. Registers and shared memory may allow fewer programs.
    """
    gpu = torch_cuda.PROPERTIES
    at_once = gpu.max_threads_per_multi_processor // (gpu.warp_size * max(warps, 1))
    room = gpu.multi_processor_count * at_once
    if programs > room:
        raise GridTooLarge(
            f"kernel {name} is launched cooperatively on {programs:,} programs; {room:,} of "
            f"{warps} warps fit on the device at once",
            "Launch as many as fit, and let each of them loop over its part of the work.",
        )


def _arguments(name: str, kind: Any, value: Any) -> list[dict[str, Any]]:
    """A launch's arguments for one parameter: none for a constexpr."""
    if isinstance(kind, tuple):
        pairs = zip(kind, value, strict=True)
        return [each for pair in pairs for each in _arguments(name, *pair)]
    if kind == "constexpr":
        return []
    if kind.startswith("tensordesc"):
        return [{"descriptor": _descriptor(name, value)}]
    if kind.startswith("*"):
        return [_pointer(name, value)]
    return [_scalar(name, kind, value)]


def _pointer(name: str, value: Any) -> dict[str, Any]:
    recorder = fake_tensors.active_recorder()
    base = getattr(value, "base", value)  # of what triton.reinterpret made
    if isinstance(base, torch.Tensor):
        if not base.is_cuda:
            raise ValueError(
                f"{name}: Pointer argument cannot be accessed from Triton (cpu tensor?)"
            )
        return {
            "pointer": [recorder.buffer(base), base.storage_offset() * base.element_size()],
        }
    address = value.data_ptr() if hasattr(value, "data_ptr") else value or 0
    target = recorder.memory.at(int(address))
    if target is None:
        return {"scalar": struct.pack("<q", int(address)).hex(), "type": "i64"}
    return {"pointer": list(target)}


def _scalar(name: str, kind: str, value: Any) -> dict[str, Any]:
    recorder = fake_tensors.active_recorder()
    if kind in ("i64", "u64") and (target := recorder.memory.at(int(value))) is not None:
        return {"pointer": list(target)}
    if kind == "bf16":
        data = struct.pack("<f", value)[2:]
    elif kind in _FORMATS:
        try:
            data = struct.pack(_FORMATS[kind], value)
        except (struct.error, OverflowError, TypeError) as error:
            raise TypeError(f"{name}: {value!r} is no {kind}: {error}") from None
    else:
        raise Unsupported(f"an argument of type {kind} ({name})", "pass it as another type")
    return {"scalar": data.hex(), "type": kind}


def _descriptor(name: str, value: Any) -> dict[str, Any]:
    for each in ("round_f32_to_tf32", "pixel_box_lower_corner"):
        if getattr(value, each, None):
            raise Unsupported(f"a tensor descriptor with {each} ({name})", "leave that out")
    return {
        **fake_tensors.active_recorder().view(value.base),
        "shape": [int(each) for each in value.shape],
        "strides": [int(each) for each in value.strides],
        "block": [int(each) for each in value.block_shape],
        "padding": getattr(value, "padding", "zero"),
    }


def _compiled(source: Any, chosen: Any, described: dict[str, Any]) -> dict[str, Any]:
    """Compile a kernel with the backend. Raises Triton's exceptions."""
    with messages.captured_stderr() as diagnostics:
        try:
            return backend.build(lower(source, chosen), chosen, planned_for().arch)
        except _SKIPPED:
            raise
        except Exception as error:
            kernel = messages.Place(source.fn.src, described["file"], described["line"])
            failure = messages.failure(error, [kernel], diagnostics())
            if failure.kind == "machine":
                raise
            raise KernelError(failure.message, failure.line, failure.excerpt) from error


def _plan_instead(source: Any, target: Any = None, options: Any = None, **_: Any) -> PlannedKernel:
    """Stands for triton.compile."""
    if not hasattr(source, "fn"):
        raise Unsupported("a kernel compiled from a file of IR", "launch a @triton.jit function")
    chosen = make_backend(planned_for()).parse_options(dict(options or {}))
    return PlannedKernel(source, chosen)


class CublasLt:
    """Stands for Triton's handle of cuBLAS, which files have that compare their kernels with it.

    A product is noted like an operation of torch's that computes.
    """

    def __init__(self, workspace: Any = None) -> None:
        """Nothing is loaded: there may be no cuBLAS."""

    def matmul(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        """Note c = a @ b."""
        _note_product([a, b], c)

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """Note d = alpha * a @ b + beta * c."""
        _note_product([a, b, c], d)


def _note_product(inputs: list[torch.Tensor], output: torch.Tensor) -> None:
    if (recorder := fake_tensors.recorder) is not None:
        views = [recorder.view(each) for each in inputs]
        outputs = [recorder.view(output)]
        recorder.steps.add("foreign", operation="cublas::matmul", inputs=views, outputs=outputs)


def install() -> None:
    """Make this Triton's driver, for the rest of the process."""
    import triton.compiler.compiler as compiler
    from triton._C.libtriton import nvidia

    triton.runtime.driver.set_active(PlanDriver())
    nvidia.cublas.CublasLt = CublasLt
    triton.testing.nvsmi = torch_cuda.nvidia_smi
    triton.compiler.compile = compiler.compile = triton.compile = _plan_instead
    autotuning.install()
