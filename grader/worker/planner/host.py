"""The planner for Triton: runs a submission's launcher on tensors without data, and notes its work.

    install()                                   once, in the fork server, before any submission
    planner = Planner(path, entry, folder)      in a forked process
    planner.load(argument_count)                executes the submission's module, finds the entry
    plan = planner.plan(arguments)              calls the entry twice

torch and triton are real; their requests to the GPU are recorded. The grader trusts none of the
results, since the submission's Python shares the process.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import io
import linecache
import sys
import traceback
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import triton
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ..compile import options
from ..compile.failures import causes
from ..compile.source import SourceFolder
from ..protocol import Argument, Code, Kind, Refusal, Space, words_of
from . import (
    devices,
    fake_tensors,
    notes,
    source_errors,
    torch_cuda,
    triton_driver,
    triton_errors,
    warm_up,
)
from .errors import (
    ForeignKernel,
    KernelError,
    PlannerError,
    SourceError,
    TooMuchMemory,
    Unsupported,
)
from .recording import MAX_PRINTED, MAX_RETURNED, Recorder
from .specialisation import Describer

MODULE_NAME = "submission"
KEPT_STATE = "KeptState"
_NO_MEMORY = "DefaultCPUAllocator: can't allocate memory"  # torch's message about host memory


def install() -> None:
    """Make torch and triton of this process those of a planner. Irreversible."""
    triton.knobs.runtime.interpret = False
    fake_tensors.install()
    torch_cuda.install()
    triton_driver.install()
    library: Any = torch
    library.compile = _uncompiled
    library.Tensor.backward = library.autograd.backward = _backward
    library.autograd.grad = _gradients
    library.nn.Module.compile = lambda self, *args, **kwargs: None
    warm_up.run()


def see(gpu: dict[str, Any]) -> None:
    """Answer host code's questions about its device with this GPU's properties."""
    torch_cuda.see(gpu)
    options.plan_for(gpu["capability"])


def _uncompiled(model: Any = None, **_: Any) -> Any:
    """torch.compile: returns its argument, whose operations are noted one by one."""
    return model if model is not None else lambda function: function


class Planner:
    """One submission in this process."""

    def __init__(self, path: str, entry: str, folder: str) -> None:
        self.path = path
        self.entry_name = entry
        self.folder = folder
        self.recorder = Recorder.of_import(path)
        self.module: types.ModuleType | None = None  # once it is executed
        self.entry: Any = None
        self._printed = _Bounded()  # by the import
        self._fake = fake_tensors.fake_mode()

    def load(self, argument_count: int, entry: str = "") -> None:
        """Execute the module, once, and find the entry, or another one by name. Raises Refusal."""
        self.module = self.module or self._executed()
        name = entry or self.entry_name
        self.entry = getattr(self.module, name, None)
        if not callable(self.entry):
            functions = sorted(
                name
                for name, value in vars(self.module).items()
                if isinstance(value, types.FunctionType) and value.__module__ == MODULE_NAME
            )
            raise Refusal(Code.entry_missing, message="missing", functions=functions)
        _check_signature(self.entry, argument_count)

    def _executed(self) -> types.ModuleType:
        """The module of the submission. Raises Refusal."""
        triton_driver.describer = Describer(SourceFolder(self.folder))
        sys.path.insert(0, self.folder)  # for sibling modules
        module = types.ModuleType(MODULE_NAME)
        module.__file__ = self.path
        sys.modules[MODULE_NAME] = module
        linecache.checkcache(self.path)
        try:
            code = self._compiled()
            with self._planning(self.recorder, self._printed), _self_tests_pass():
                exec(code, vars(module))
        except BaseException as error:
            raise Refusal(Code.import_failed, **self._describe(error)) from None
        self.recorder.end_import()
        return module

    def _compiled(self) -> types.CodeType:
        """The module's code. Raises SourceError, or Python's errors."""
        source = Path(self.path).read_bytes()
        name = Path(self.path).name
        source_errors.check_encoding(name, source)
        try:
            return compile(source, self.path, "exec", dont_inherit=True)
        except (RecursionError, MemoryError):
            raise source_errors.too_deep(name, source) from None

    def plan(self, arguments: Sequence[Argument]) -> dict[str, Any]:
        """The plan of two calls of the entry with the same arguments.

        It begins with the import's steps. Raises Refusal, with the type KEPT_STATE where the plan
        depends on state that the submission kept from an earlier plan.
        """
        gc.freeze()  # keeps the collector off objects of earlier plans
        recorder = self.recorder.next_plan()
        printed = _Bounded()
        printed.write(self._printed.getvalue())
        notes.forget()
        calls = []
        returned = ""
        try:
            values = _made(arguments, recorder, self._fake)
            for output in (printed, _Bounded()):  # the second call prints the same
                with self._planning(recorder, output):
                    given = self.entry(*values)
                    returned = returned or _described(given, values)
                    del given
                    calls.append(recorder.end_call())
        except BaseException as error:
            if recorder.keeps_state:
                raise Refusal(Code.raised, type=KEPT_STATE) from None
            said = {"printed": printed.getvalue()}
            raise Refusal(_code(error), **self._describe(error), **said) from None
        if recorder.keeps_state:
            raise Refusal(Code.raised, type=KEPT_STATE)
        return recorder.to_json(calls, printed.getvalue(), returned)

    @contextlib.contextmanager
    def _planning(self, recorder: Recorder, printed: io.StringIO) -> Iterator[None]:
        fake_tensors.recorder = recorder
        modes = (self._fake, fake_tensors.PlanMode(recorder), devices.OneDevice())
        with contextlib.ExitStack() as active:
            active.enter_context(contextlib.redirect_stdout(printed))
            for mode in modes:
                active.enter_context(mode)
            try:
                yield
            except Exception as error:
                if reason := devices.missing(error):
                    raise Unsupported(reason) from error
                if said := triton_errors.in_words(error):
                    raise said from error
                source_errors.check_encodings(error, self.folder)
                raise

    # --- errors -----------------------------------------------------------------------------------

    def _describe(self, error: BaseException) -> dict[str, Any]:
        """An exception for a reply: type, message, line in the submission, its own frames.

        `told`: the message is a planner's, not Python's, torch's or Triton's.
        """
        instead = error.instead if isinstance(error, PlannerError) else ""
        excerpt = error.excerpt if isinstance(error, KernelError) else ""
        return {
            "told": isinstance(error, PlannerError),
            "instead": instead,
            "type": type(error).__name__,
            "message": words_of(error),
            "line": self._line(error),
            "detail": excerpt or self._detail(error),
        }

    def _line(self, error: BaseException) -> int | None:
        if isinstance(error, SyntaxError) and error.filename == self.path:
            return error.lineno
        if isinstance(error, KernelError | SourceError) and error.line:
            return error.line
        frames = self._own_frames(error)
        return frames[-1].lineno if frames else None

    def _detail(self, error: BaseException) -> str:
        """Its frames, each once, and what Python, torch or Triton says."""
        file = Path(self.path).name
        frames = (f"  {file}:{e.lineno} in {e.name}: {e.line}" for e in self._own_frames(error))
        lines = [*dict.fromkeys(frames)]
        if not isinstance(error, PlannerError):
            lines.append(f"{type(error).__name__}: {words_of(error)}")
        return "\n".join(lines)

    def _own_frames(self, error: BaseException) -> list[traceback.FrameSummary]:
        """The frames of the submission's file, in an error and in its causes."""
        frames = (f for each in causes(error) for f in traceback.extract_tb(each.__traceback__))
        return [each for each in frames if each.filename == self.path]


class _Bytes(io.BytesIO):
    """A file whose bytes are printed as text."""

    def __init__(self, text: io.StringIO) -> None:
        super().__init__()
        self._text = text

    def write(self, data: Any) -> int:
        shown = bytes(data)
        self._text.write(shown.decode(errors="replace"))
        return len(shown)


class _Bounded(io.StringIO):
    """Printed text up to a number of characters; the rest is dropped."""

    def write(self, text: str) -> int:
        room = MAX_PRINTED - self.tell()
        super().write(text[: max(room, 0)])
        return len(text)

    @property
    def buffer(self) -> _Bytes:
        """A file of bytes that prints here, as sys.stdout has one."""
        return _Bytes(self)


@contextlib.contextmanager
def _self_tests_pass() -> Iterator[None]:
    """Make comparisons of tensors return True during an import: there is no data yet."""
    instead = {
        (torch, "allclose"): _equal,
        (torch, "equal"): _equal,
        (torch.testing, "assert_close"): _equal,
        (torch.autograd, "gradcheck"): _equal,
    }
    kept = {key: getattr(*key) for key in instead}
    for (owner, name), value in instead.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name), value in kept.items():
            setattr(owner, name, value)


def _equal(*_: Any, **__: Any) -> bool:
    return True


def _backward(tensors: Any, *_: Any, **__: Any) -> None:
    """Give the leaves that tensors were computed from a gradient of their shape.

    Autograd itself would look for the GPU. A gradient is PyTorch's work, and without values here.
    """
    given = tensors if isinstance(tensors, list | tuple) else [tensors]
    pending = [each.grad_fn for each in given if each.grad_fn is not None]
    met = set()
    while pending:
        node = pending.pop()
        if node is None or node in met:
            continue
        met.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and leaf.grad is None:
            leaf.grad = _computed(leaf)
        pending += [following for following, _ in node.next_functions]


def _gradients(outputs: Any, inputs: Any, *_: Any, **__: Any) -> tuple[Any, ...]:
    given = inputs if isinstance(inputs, list | tuple) else [inputs]
    return tuple(map(_computed, given))


def _computed(leaf: torch.Tensor) -> torch.Tensor:
    """A gradient that autograd has computed, as a plan notes it."""
    gradient = torch.empty_like(leaf.detach())
    if gradient.is_cuda and (recorder := fake_tensors.recorder) is not None:
        outputs = [recorder.view(gradient)]
        recorder.steps.add("foreign", operation="aten::backward", inputs=[], outputs=outputs)
    return gradient


def _described(returned: Any, arguments: Sequence[Any]) -> str:
    """The value that an entry returned, in words; "" for None and for one of its arguments."""
    if returned is None or any(returned is each for each in arguments):
        return ""
    if inspect.iscoroutine(returned) or inspect.isgenerator(returned):
        returned.close()  # against Python's warning about a coroutine that wasn't awaited
    if isinstance(returned, torch.Tensor):
        dtype = str(returned.dtype).removeprefix("torch.")
        return f"a tensor of shape {list(returned.shape)}, {dtype}"[:MAX_RETURNED]
    return f"a {type(returned).__name__}"[:MAX_RETURNED]


def _check_signature(entry: Any, count: int) -> None:
    try:
        signature = inspect.signature(entry)
    except (TypeError, ValueError):
        return  # a callable without a signature; calling it will show
    try:
        signature.bind(*[None] * count)
    except TypeError:
        line = getattr(getattr(entry, "__code__", None), "co_firstlineno", None)
        raise Refusal(
            Code.entry_missing, message="signature", signature=str(signature), line=line
        ) from None


def _code(error: BaseException) -> Code:
    if isinstance(error, MemoryError | TooMuchMemory) or _NO_MEMORY in words_of(error):
        return Code.out_of_memory
    if isinstance(error, Unsupported):
        return Code.not_modelled
    is_of_a_kernel = isinstance(error, KernelError | ForeignKernel)
    return Code.compile_failed if is_of_a_kernel else Code.raised


def _made(arguments: Sequence[Argument], recorder: Recorder, mode: FakeTensorMode) -> list[Any]:
    """The entry's arguments: numbers, and tensors without storage.

    Each tensor's allocation becomes a buffer of the plan. The tensors are of `mode`, which must not
    be active here.
    """
    recorder.memory.begin_arguments()
    values = [
        _tensor(argument, place, recorder, mode)
        if argument.kind is Kind.tensor
        else argument.scalar
        for place, argument in enumerate(arguments)
    ]
    recorder.memory.begin_calls()
    return values


def _tensor(argument: Argument, place: int, recorder: Recorder, mode: FakeTensorMode) -> FakeTensor:
    """A view of an allocation, including guard zones, as in the grader's memory."""
    dtype = getattr(torch, argument.dtype_name)
    start, length = argument.allocation
    device = "cuda:0" if argument.space is Space.device else "cpu"
    whole = torch.empty(length // dtype.itemsize, dtype=dtype, device="meta")
    first = (argument.offset - start) // dtype.itemsize
    view = whole.as_strided(argument.shape, argument.strides, first)
    tensor = FakeTensor(mode, view, torch.device(device))
    recorder.memory.register(
        tensor.untyped_storage(), bytes=length, kind="argument", argument=place, line=0
    )
    return tensor
