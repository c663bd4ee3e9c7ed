"""The names of the rules on CUDA source, and advice for each violation."""

from __future__ import annotations

CUDA_RULES: dict[str, str] = {
    "include": "Only headers that a kernel and its launcher need are included, by their names.",
    "library": "What the exercise asks for is computed in kernels of the submission's own.",
    "assembly": "Assembly stands as PTX in functions that run on the device, and nowhere else.",
    "attribute": "Attributes tell the compiler about speed and layout, nothing else.",
    "preprocessor": "Preprocessor lines leave the language and the numbers of lines as they are.",
    "system": "No processes, files, threads, signals or other services of the system.",
    "reserved": "Names of the compiler, the runtime and the grader are neither defined nor used.",
    "startup": "Nothing of the file runs before the entry is called or after it has returned.",
}

_INSTEAD = {
    "include": (
        "Allowed are the headers of CUDA's runtime (cuda_runtime.h, cuda_fp16.h, cuda_bf16.h, "
        "cooperative_groups.h) and those of C++ that launchers use (cstdio, cmath, algorithm)."
    ),
    "library": "Compute it in a __global__ function of your own.",
    "assembly": (
        "Write CUDA C++ or an intrinsic; PTX belongs into the body of a __global__ or __device__ "
        "function, as a statement of its own."
    ),
    "attribute": "Leave it out; __launch_bounds__, __restrict__, alignas and the like are allowed.",
    "preprocessor": "Write out what is meant.",
    "system": "A launcher needs the CUDA runtime, mathematics and printf.",
    "reserved": "Choose another name.",
    "startup": (
        "Make it constexpr, or a local variable of the entry: every call must do its own work."
    ),
    "unreadable": "Write it plainly, saved as UTF-8, so that every compiler reads the same.",
}


def instead_of(rule: str) -> str:
    return _INSTEAD[rule]
