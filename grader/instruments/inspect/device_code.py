"""A file of CUDA C++ compiled to PTX and a cubin by nvcc, in the submission's sandbox.

It is compiled as for a grade on a GPU, with lines, and nothing of it is run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.executors.cuda import cuda_build
from grader.executors.cuda.cuda_build import Answer, BuildError, Order
from grader.gpu import machine
from grader.instruments.inspect import compiling
from grader.instruments.inspect.compiling import NotCompiled
from grader.sandbox import Sandbox, untrusted
from grader.sandbox.worker_process import Death


@dataclass(frozen=True)
class CudaCode:
    """The device code of a file. `names` has what the source calls each kernel, by its symbol."""

    cubin: bytes
    ptx: str
    names: Mapping[str, str]

    def symbols_of(self, kernel: str) -> list[str]:
        """The kernels that a launch may mean: by its name with template arguments, else without."""
        wanted = _squeezed(kernel)
        named = {symbol: _called(shown) for symbol, shown in self.names.items()}
        exact = [symbol for symbol, called in named.items() if called == wanted]
        base = _base(wanted)
        return exact or [symbol for symbol, called in named.items() if _base(called) == base]


def _squeezed(name: str) -> str:
    return "".join(name.split()).removeprefix("::")


def _called(demangled: str) -> str:
    """A demangled name without result and parameters: copy<float,4>."""
    depth = 0
    for at, char in enumerate(demangled):
        depth += {"<": 1, ">": -1}.get(char, 0)
        if char == "(" and depth == 0 and not demangled.startswith("(anonymous namespace)", at):
            demangled = demangled[:at]
            break
    head, bracket, rest = demangled.partition("<")
    return _squeezed(head.rpartition(" ")[2] + bracket + rest)


def _base(called: str) -> str:
    return called.partition("<")[0].rpartition("::")[2]


def compile_file(sandbox: Sandbox, path: Path, flags: Sequence[str] = ()) -> CudaCode:
    """Compile a file that the sandbox holds, one where CUDA C++ is compiled. Raises NotCompiled.

    `flags` are further options of nvcc's.
    """
    nvcc = compiling.nvcc()
    if nvcc is None:
        raise NotCompiled(compiling.NO_NVCC)
    wanted = {
        "backend": "device code",
        "entries": [],
        "nvcc": nvcc,
        "architecture": f"sm_{machine.capability()}",
        "flags": list(flags),
    }
    order = Order(path.name, b"", (), "device code", flags=flags)
    try:
        built = cuda_build.ask(sandbox, order, path, wanted).finish()
        if isinstance(built, Death):
            raise NotCompiled(f"{path.name}: compiling ended nvcc ({built.description})")
        answer = cuda_build.read_answer(built.text)
    except BuildError:
        raise NotCompiled(f"{path.name}: nvcc gave no answer that can be used") from None
    if not answer.ok:
        raise _refused(path.name, answer)
    of_cubin, of_ptx, _ = answer.lengths
    cubin, ptx = built.data[:of_cubin], built.data[of_cubin : of_cubin + of_ptx]
    names = dict(each.split(" ", 1) for each in answer.entries if " " in each)
    return CudaCode(cubin, untrusted.clean(ptx.decode("utf-8", "replace")), names)


def _refused(file: str, answer: Answer) -> NotCompiled:
    """'gelu.cu:31: nvcc refuses it: ...'."""
    for each in answer.problems:
        where = f"{file}:{each.line}" if each.line else file
        excerpt = untrusted.clean(each.detail).rstrip()
        message = f"{where}: nvcc refuses it: {untrusted.brief(each.message)}"
        return NotCompiled(f"{message}\n{excerpt}" if excerpt else message)
    return NotCompiled(f"{file}: nvcc made nothing of it")
