"""A trace made by hand, as small as one can be that has a wait and gaps."""

from __future__ import annotations

from typing import Any


def span(
    category: str, name: str, start: float, duration: float, **details: object
) -> dict[str, Any]:
    """An event of a trace made by hand."""
    device = category in ("kernel", "gpu_memcpy")
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 0,
        "tid": 7 if device else 1,
        "ts": 1000 + start,
        "dur": duration,
        "args": details,
    }


TRACE: dict[
    str, Any
] = {  # two kernels; `.item()` between them, on line 2; the third is launched late
    "traceEvents": [
        span("user_annotation", "profiled", 0, 300),
        span("user_annotation", "call 1", 1, 290),
        span("line", "a.py:1", 2, 28),
        span("line", "a.py:2", 30, 100),
        span("line", "a.py:3", 130, 150),
        span("cpu_op", "aten::mul", 10, 15),
        span("cuda_runtime", "cudaLaunchKernel", 12, 8, correlation=1),
        span("kernel", "void mul<float>(float)", 25, 50, correlation=1, stream=7),
        span("python_function", "<built-in method item of Tensor object at 0x7f00>", 31, 90),
        span("cpu_op", "aten::item", 32, 80),
        span("cpu_op", "aten::_local_scalar_dense", 33, 78),
        span("cuda_runtime", "cudaMemcpyAsync", 35, 5, correlation=2),
        span("gpu_memcpy", "Memcpy DtoH", 75, 2, correlation=2, stream=7),
        span("cuda_runtime", "cudaStreamSynchronize", 41, 40),
        span("cpu_op", "aten::add", 132, 20),
        span("cuda_runtime", "cudaLaunchKernel", 134, 6, correlation=3),
        span("kernel", "add", 145, 40, correlation=3, stream=7),
        span("cpu_op", "aten::add", 250, 20),
        span("cuda_runtime", "cudaLaunchKernel", 252, 6, correlation=4),
        span("kernel", "add", 262, 10, correlation=4, stream=7),
        span("kernel", "before", -40, 20, correlation=99, stream=7),
    ],
    "warpgrade": {
        "target": "a.py:f",
        "case": "",
        "device": "A GPU",
        "torch": "2.11",
        "date": "2026-01-01",
        "failed": False,
    },
}
