"""Runs a program under torch.profiler and writes its trace: the child process of `grader profile`.

    python collect.py --out trace.json try_it.py           the file, as `python try_it.py` runs it
    python collect.py --out trace.json try_it.py:main      a function of it, without arguments
    python collect.py --out trace.json --case '...' --submission assignment silu/triton
                                                           a variant on a case's tensors

A function is called WARM_UP times before and CALLS times while the profiler records. Without
`--out` nothing is recorded: so `ncu` and `nsys` run it. The trace is the profiler's own, in
Chrome's format, and has two things more: a span for each line of the user's files while it runs
(category "line"), and under the key "warpgrade" what was run, where and when.

This file is run by its path and imports only torch, so that the program finds what it would find
without it; a variant alone needs the grader's packages.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import runpy
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

PROFILED = "profiled"  # the range that has what was asked for: `ncu --nvtx-include` names it too
WARM_UP = 3
CALLS = 3
MOST_LINES = 200_000  # spans of lines in a trace


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the target. The exit status is 1 where it raised an exception, 2 where it isn't there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--case", default="")
    parser.add_argument("--submission", type=Path, default=Path("assignment"))
    parser.add_argument("--course", type=Path)
    parser.add_argument("target")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    asked = parser.parse_args(arguments)
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [each for each in sys.path if str(Path(each).resolve()) != here]
    try:
        run, files = _target(asked)
    except (OSError, AttributeError, ValueError) as error:
        print(f"{asked.target}: {error}", file=sys.stderr)
        return 2
    if asked.out is None:
        with _range(PROFILED):
            return _ending(run)
    return _recorded(run, files, asked)


def _target(asked: argparse.Namespace) -> tuple[Callable[[], object], Path]:
    """What to run while the profiler records, and the folder whose files are the user's."""
    if asked.case:
        sys.path.append(str(Path(__file__).resolve().parents[3]))
        from grader.instruments.profile import graded

        call = graded.call(asked.target, asked.case, asked.submission, asked.course)
        return _called(call), asked.submission.resolve()
    name, _, function = asked.target.partition(".py:")
    path = Path(f"{name}.py" if function else asked.target)
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    sys.path.insert(0, str(path.resolve().parent))
    if not function:
        sys.argv = [str(path), *asked.arguments]
        whole = str(path.resolve())
        return (lambda: runpy.run_path(whole, run_name="__main__")), path.resolve().parent
    return _called(getattr(_module(path), function)), path.resolve().parent


def _module(path: Path) -> Any:
    """A file as a module: what it has under `if __name__ == "__main__"` doesn't run."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _called(function: Callable[[], object]) -> Callable[[], object]:
    """So many calls, each a range, after those that compile, tune and allocate."""
    for _ in range(WARM_UP):
        function()
    _wait()

    def calls() -> None:
        for number in range(1, CALLS + 1):
            with _range(f"call {number}"):
                function()

    return calls


def _recorded(run: Callable[[], object], files: Path, asked: argparse.Namespace) -> int:
    import torch
    from torch.profiler import ProfilerActivity, profile

    has_gpu = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if has_gpu else [])]
    lines = _Lines(files)
    with _range("warm-up"):  # the first range imports more of torch
        _nvtx_ranges_are_recorded()
    # One cycle is recorded, so that torch clears no events which are needed.
    warnings.filterwarnings("ignore", message="Warning: Profiler clears events")
    with profile(activities=activities, with_stack=True) as recording:
        if has_gpu:
            torch.zeros(1, device="cuda")  # the profiler's own start lies before the range
            _wait()
        with _range(PROFILED), lines.followed():
            status = _ending(run)
        _wait()
    recording.export_chrome_trace(str(asked.out))
    trace = json.loads(asked.out.read_text(encoding="utf-8"))
    trace["traceEvents"] += lines.events(trace)
    trace["warpgrade"] = {
        "target": " ".join([asked.target, *asked.arguments]),
        "case": asked.case,
        "device": torch.cuda.get_device_name(0) if has_gpu else "",
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "failed": bool(status),
    }
    asked.out.write_text(json.dumps(trace), encoding="utf-8")
    return status


def _ending(run: Callable[[], object]) -> int:
    """Run; 1 after an exception, whose traceback is printed, or the program's own exit status."""
    try:
        run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _wait() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


@contextlib.contextmanager
def _range(name: str) -> Iterator[None]:
    """A named range, for torch's profiler and, as an NVTX range, for NVIDIA's tools."""
    import torch

    nvtx = torch.cuda.nvtx.range(name) if torch.cuda.is_available() else contextlib.nullcontext()
    with torch.profiler.record_function(name), nvtx:
        yield


def _nvtx_ranges_are_recorded() -> None:
    """Let torch's profiler see the ranges that a program opens with torch.cuda.nvtx."""
    import torch

    nvtx: Any = torch.cuda.nvtx
    push, pop = nvtx.range_push, nvtx.range_pop
    opened: list[Any] = []

    def range_push(message: str) -> Any:
        opened.append(torch.profiler.record_function(message))
        opened[-1].__enter__()
        return push(message)

    def range_pop() -> Any:
        if opened:
            opened.pop().__exit__(None, None, None)
        return pop()

    nvtx.range_push, nvtx.range_pop = range_push, range_pop


class _Lines:
    """Notes when each line of the files below a folder begins and ends, in one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: dict[str, str] = {}  # files, by name: "" where one isn't the user's
        self._spans: list[tuple[str, int, int, int]] = []  # file, line, begin, end in ns
        self._open: dict[int, tuple[str, int, int]] = {}  # by frame
        self._bounds: list[int] = []  # when it began and ended, in ns

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Note lines from here on."""
        self._bounds.append(time.time_ns())
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(None)
            self._bounds.append(time.time_ns())

    def events(self, trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The spans on the trace's clock, which may be some microseconds off ours."""
        to_trace = self._clock(trace)
        for file, line, begin, end in self._spans:
            yield {
                "ph": "X",
                "cat": "line",
                "name": f"{file}:{line}",
                "pid": "lines of your files",
                "tid": 0,
                "ts": to_trace(begin),
                "dur": to_trace(end) - to_trace(begin),
            }

    def _clock(self, trace: dict[str, Any]) -> Callable[[int], float]:
        """From our nanoseconds to the trace's microseconds: both have the calls of time_ns."""
        base = trace.get("baseTimeNanoseconds", 0)
        start = next(e["ts"] for e in trace["traceEvents"] if e.get("name") == PROFILED)
        stamps = [
            each["ts"] + each["dur"] / 2
            for each in trace["traceEvents"]
            if each.get("name") == "<built-in function time_ns>" and each["ts"] >= start
        ]
        first, last = ((each - base) / 1e3 for each in self._bounds)
        if not stamps:
            return lambda time: (time - base) / 1e3
        offset = min(stamps) - first
        drift = (max(stamps) - last - offset) / max(last - first, 1.0)

        def to_trace(time: int) -> float:
            ours = (time - base) / 1e3
            return float(ours + offset + drift * (ours - first))

        return to_trace

    def _entered(self, frame: FrameType, event: str, argument: object) -> Any:
        if len(self._spans) >= MOST_LINES:
            sys.settrace(None)
            return None
        name = frame.f_code.co_filename
        if name not in self._own:
            self._own[name] = self._called(name)
        return self._in_frame if self._own[name] else None

    def _called(self, name: str) -> str:
        """A file's name as it is shown; empty where it isn't the user's."""
        path = Path(name)
        if not path.is_file() or self._folder not in path.resolve().parents:
            return ""
        within = path.resolve().relative_to(self._folder)
        return "" if {"site-packages", "grader"} & set(within.parts) else str(within)

    def _in_frame(self, frame: FrameType, event: str, argument: object) -> Any:
        now = time.time_ns()
        if before := self._open.pop(id(frame), None):
            self._spans.append((*before, now))
        if event == "line":
            name = self._own[frame.f_code.co_filename]
            self._open[id(frame)] = (name, frame.f_lineno, now)
        return self._in_frame


if __name__ == "__main__":
    sys.exit(main())
