# %% [markdown]
# # Memory: sectors and banks
#
# A warp's 32 threads load together. Global memory moves in sectors of 32 bytes, and shared memory
# has 32 banks that each serve one word of 4 bytes at a time. What an access costs follows from its
# addresses alone, so it can be counted without a GPU.
#
# **Predict first.** A warp loads float32 elements `stride * lane`. How many sectors does it move
# with stride 1, 2, 8 and 32? How many wavefronts do the same elements take in shared memory?

# %%
import shutil
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from grader.cases import fixed_case
from grader.grading.grade import Options, Session
from grader.instruments.visualize.tracing import traced
from grader.spec import load_all
from grader.spec.task import Task

LANES = np.arange(32)


def sectors(elements, size=4):
    """The 32-byte sectors that an access to these elements moves."""
    return len(np.unique(elements * size // 32))


def wavefronts(elements):
    """The passes through shared memory: the most different words that one bank must serve."""
    words = np.unique(elements)
    return int(np.bincount(words % 32).max())


# %%
print("stride  sectors  used  wavefronts")
for stride in (1, 2, 3, 8, 32, 33):
    moved = sectors(stride * LANES)
    print(f"{stride:6}  {moved:7}  {32 * 4 / (32 * moved):4.0%}  {wavefronts(stride * LANES):10}")

# %% [markdown]
# The two don't follow the same rule. Stride 33 is as bad as any for sectors, and perfect for banks:
# that is why tiles in shared memory get a column more than they need.
#
# Now a start that isn't a multiple of a sector. **Predict:** what does a shift by one element cost?

# %%
for shift in (0, 1, 8):
    print(f"shift {shift}: {sectors(LANES + shift)} sectors")

# %%
strides = range(1, 34)
plt.figure(figsize=(6, 3))
plt.step(strides, [sectors(s * LANES) for s in strides], where="mid", label="sectors (global)")
plt.step(
    strides, [wavefronts(s * LANES) for s in strides], where="mid", label="wavefronts (shared)"
)
plt.xlabel("stride in elements of 4 bytes")
plt.legend()
plt.show()

# %% [markdown]
# The grader counts the same for a whole kernel when it runs one without a GPU, and
# `grader visualize transpose` draws each access. Here it counts a file of CUDA C++ whose loads have
# a stride of two. Its result is wrong, which doesn't matter for its accesses. This needs g++.

# %%
SOURCE = """
#include <cuda_runtime.h>

__global__ void strided(const float* input, float* output, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) output[i] = input[2 * i % n];
}

extern "C" void silu(const float* input, float* output, int n) {
    strided<<<(n + 255) / 256, 256>>>(input, output, n);
}
"""


def counted(source):
    """The events of a run on 1024 elements: every access of every warp."""
    exercises = load_all()
    task = Task(exercises["silu"], exercises["silu"].variants["cuda"])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "silu.cu").write_text(source)
        with Session(Path(folder), exercises, Options(device="cpu")) as session:
            case = fixed_case(task, {"n": 1024}, 2026)
            run = traced(session, task, case, is_given=True)
    return [event for launch in run.trace.launches for event in launch.events]


if shutil.which("g++"):
    events = counted(SOURCE)
    for kind, name in enumerate(("load", "store")):
        those = [event for event in events if event.kind == kind]
        moved, requests = (sum(getattr(e, what) for e in those) for what in ("moved", "requests"))
        print(f"{name:6} {requests} requests, {moved} sectors, {moved / requests:g} a request")
else:
    print("g++ isn't there: the grader would count 8 sectors a load and 4 a store.")

# %% [markdown]
# **Try it.** Change the index to `(i + 1) % n` and predict the sectors of a load before you run it.
