"""The planner for Triton: runs a submission's launcher on tensors without data, and notes its work.

    install()                                   once, in the fork server, before any submission
    planner = Planner(path, entry, folder)      in a forked process
    planner.load(argument_count)                executes the submission's module
    plan = planner.plan(arguments)              calls the entry twice

torch and triton are real; what they would do on a GPU is noted. Nothing here is believed by the
grader: the submission's Python shares the process.
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

from ..compile.source import SourceFolder
from ..protocol import Argument, Code
from . import arguments as planned_arguments
from . import fake_tensors, notes, torch_cuda, triton_driver, warm_up
from .errors import ForeignKernel, KernelError, Refusal, TooMuchMemory, Unsupported
from .recording import MAX_PRINTED, Recorder
from .specialisation import Describer

MODULE_NAME = "submission"
KEPT_STATE = "KeptState"
_LONGEST = 2000  # characters of a message
_NO_MEMORY = "DefaultCPUAllocator: can't allocate memory"  # what torch says of the host's


def install() -> None:
    """Make torch and triton of this process those of a planner. Not to be undone."""
    triton.knobs.runtime.interpret = False
    fake_tensors.install()
    torch_cuda.install()
    triton_driver.install()
    torch.compile = _uncompiled
    torch.nn.Module.compile = lambda self, *args, **kwargs: None
    warm_up.run()


def _uncompiled(model: Any = None, **_: Any) -> Any:
    """torch.compile: what it is given, as it is; its operations are noted one by one."""
    return model if model is not None else lambda function: function


class Planner:
    """One submission in this process."""

    def __init__(self, path: str, entry: str, folder: str) -> None:
        self.path = path
        self.entry_name = entry
        self.folder = folder
        self.recorder = Recorder(path)  # of the import
        self.entry: Any = None
        self._printed = _Bounded()  # by the import
        self._fake = fake_tensors.fake_mode()

    def load(self, argument_count: int) -> None:
        """Execute the module and find the entry. Raises Refusal."""
        triton_driver.describer = Describer(SourceFolder(self.folder))
        sys.path.insert(0, self.folder)  # for sibling modules
        module = types.ModuleType(MODULE_NAME)
        module.__file__ = self.path
        sys.modules[MODULE_NAME] = module
        linecache.checkcache(self.path)
        try:
            source = Path(self.path).read_bytes()
            with self._planning(self.recorder, self._printed), _self_tests_pass():
                code = compile(source, self.path, "exec", dont_inherit=True)
                exec(code, vars(module))
        except BaseException as error:
            raise Refusal(Code.import_failed, **self._describe(error)) from None
        self.recorder.end_import()
        self.entry = getattr(module, self.entry_name, None)
        if not callable(self.entry):
            functions = sorted(
                name
                for name, value in vars(module).items()
                if isinstance(value, types.FunctionType) and value.__module__ == MODULE_NAME
            )
            raise Refusal(Code.entry_missing, message="missing", functions=functions)
        _check_signature(self.entry, argument_count)

    def plan(self, arguments: Sequence[Argument]) -> dict:
        """The plan of two calls of the entry with the same arguments.

        It begins with what the import did. Raises Refusal; of the type KEPT_STATE where the plan
        relies on what the submission has kept of an earlier one.
        """
        gc.freeze()  # or the collector would look through what is left of earlier plans, each time
        recorder = self.recorder.next_plan()
        printed = _Bounded()
        printed.write(self._printed.getvalue())
        notes.forget()
        calls = []
        try:
            values = planned_arguments.make(arguments, recorder, self._fake)
            with self._planning(recorder, printed):
                for _ in range(2):
                    self.entry(*values)
                    calls.append(recorder.end_call())
        except BaseException as error:
            if recorder.keeps_state:
                raise Refusal(Code.raised, type=KEPT_STATE) from None
            raise Refusal(_code(error), **self._describe(error)) from None
        if recorder.keeps_state:
            raise Refusal(Code.raised, type=KEPT_STATE)
        return recorder.to_json(calls, printed.getvalue())

    @contextlib.contextmanager
    def _planning(self, recorder: Recorder, printed: io.StringIO) -> Iterator[None]:
        fake_tensors.recorder = recorder
        with contextlib.redirect_stdout(printed), self._fake, fake_tensors.PlanMode(recorder):
            yield

    # --- errors -----------------------------------------------------------------------------------

    def _describe(self, error: BaseException) -> dict:
        """An exception for a reply: type, message, line in the submission, its own frames."""
        excerpt = error.excerpt if isinstance(error, KernelError) else ""
        return {
            "type": type(error).__name__,
            "message": _words(error),
            "line": self._line(error),
            "detail": excerpt or self._own_frames(error),
        }

    def _line(self, error: BaseException) -> int | None:
        if isinstance(error, SyntaxError) and error.filename == self.path:
            return error.lineno
        if isinstance(error, KernelError) and error.line:
            return error.line
        line = None
        for each in _causes(error):
            for frame in traceback.extract_tb(each.__traceback__):
                if frame.filename == self.path:
                    line = frame.lineno
        return line

    def _own_frames(self, error: BaseException) -> str:
        lines = []
        for each in _causes(error):
            for frame in traceback.extract_tb(each.__traceback__):
                if frame.filename == self.path:
                    text = f"  {Path(self.path).name}:{frame.lineno} in {frame.name}: {frame.line}"
                    if text not in lines:
                        lines.append(text)
        lines.append(f"{type(error).__name__}: {_words(error)}")
        return "\n".join(lines)


class _Bounded(io.StringIO):
    """What is printed, up to a number of characters; the rest is dropped."""

    def write(self, text: str) -> int:
        room = MAX_PRINTED - self.tell()
        super().write(text[: max(room, 0)])
        return len(text)


@contextlib.contextmanager
def _self_tests_pass() -> Iterator[None]:
    """While a module is imported, comparing tensors says they are equal: there is no data yet."""
    names = ((torch, "allclose"), (torch, "equal"), (torch.testing, "assert_close"))
    kept = [getattr(owner, name) for owner, name in names]
    for owner, name in names:
        setattr(owner, name, lambda *args, **kwargs: True)
    try:
        yield
    finally:
        for (owner, name), value in zip(names, kept, strict=True):
            setattr(owner, name, value)


def _check_signature(entry: Any, count: int) -> None:
    try:
        signature = inspect.signature(entry)
    except (TypeError, ValueError):
        return  # a callable that doesn't tell; calling it will
    try:
        signature.bind(*[None] * count)
    except TypeError:
        line = getattr(getattr(entry, "__code__", None), "co_firstlineno", None)
        raise Refusal(
            Code.entry_missing, message="signature", signature=str(signature), line=line
        ) from None


def _code(error: BaseException) -> Code:
    if isinstance(error, MemoryError | TooMuchMemory) or _NO_MEMORY in _words(error):
        return Code.out_of_memory
    if isinstance(error, Unsupported):
        return Code.not_modelled
    is_of_a_kernel = isinstance(error, KernelError | ForeignKernel)
    return Code.compile_failed if is_of_a_kernel else Code.raised


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from, outermost first."""
    errors = [error]
    while errors[-1].__cause__ is not None and len(errors) < 50:
        errors.append(errors[-1].__cause__)
    return errors


def _words(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # a __str__ of the submission's own
        text = ""
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
