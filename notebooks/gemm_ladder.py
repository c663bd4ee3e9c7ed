# %% [markdown]
# # The GEMM ladder: tiles, bytes and the roofline
#
# A product of two matrices does 2 · M · N · K operations on M · K + K · N + M · N elements. How
# often a kernel loads each element depends on its tiles. The exercise gemm climbs a ladder: v0 is
# torch's product, v1 takes tiles of 32 × 32, v2 of 64 × 64, v3 puts larger tiles into an order that
# shares the L2 cache, and v4 measures which tiles are best.
#
# **Predict first.** M = N = K = 4096 in bfloat16, on an H100 with 3.35 TB/s and 989 TFLOP/s. How
# many operations does a kernel do for each byte that it loads or stores, with tiles of 32 × 32, of
# 64 × 64 and of 128 × 256? Which of them lie right of the roofline's ridge, 989 / 3.35 = 295?

# %%
import importlib.util
import tempfile
from math import ceil
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import triton

import grader
from grader.cases import fixed_case
from grader.executors.trace import Kind
from grader.grading.grade import Options, Session
from grader.instruments.visualize.tracing import NothingToDraw, traced
from grader.spec import load_all
from grader.spec.task import Task

BANDWIDTH, PEAK, PEAK_FLOAT32 = 3.35e12, 989e12, 67e12  # of an H100
TILES = {"no tiles": (1, 1), "v1": (32, 32), "v2": (64, 64), "v3, v4": (128, 256)}


def reads(M, N, rows, cols):
    """How often each element of a is loaded, and each of b: once for each tile beside it."""
    return ceil(N / cols), ceil(M / rows)


def intensity(M, N, K, of_a, of_b, itemsize=2):
    """Operations for each byte that is loaded or stored."""
    return 2 * M * N * K / (itemsize * (of_a * M * K + of_b * K * N + M * N))


SIDE = 4096
print("          a, b loaded   FLOP/byte   from memory, µs   arithmetic, µs")
for name, tile in {"least": (SIDE, SIDE), **TILES}.items():
    times = reads(SIDE, SIDE, *tile)
    flop = intensity(SIDE, SIDE, SIDE, *times)
    slow, fast = (1e6 * 2 * SIDE**3 / rate for rate in (flop * BANDWIDTH, PEAK))
    print(f"{name:9} {times[0]:5}, {times[1]:4} {flop:11.1f} {slow:17.0f} {fast:16.0f}")

# %% [markdown]
# `least` is what a library has to move: each matrix once. The others count every load as one from
# memory. By that count even tiles of 128 × 256 are left of the ridge.
#
# Do the kernels load what the sum says? The grader counts it when it runs a kernel without a GPU. A
# kernel that only loads its two strips, and multiplies nothing, has the traffic of a product.
# **Predict:** with M = 192, N = 256 and tiles of 64 × 64, how often is an element of a loaded, and
# one of b?

# %%
SOURCE = """
import torch
import triton
import triton.language as tl


@triton.jit
def strips_kernel(a_ptr, b_ptr, out_ptr, N, K: tl.constexpr, SIDE: tl.constexpr):
    down, across, along = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :], tl.arange(0, K)
    row, col = tl.program_id(0) * SIDE, tl.program_id(1) * SIDE
    strip_a = tl.load(a_ptr + (row + down) * K + along[None, :])
    strip_b = tl.load(b_ptr + along[:, None] * N + col + across)
    largest = tl.max(strip_a, axis=1)[:, None] + tl.max(strip_b, axis=0)[None, :]
    tl.store(out_ptr + (row + down) * N + col + across, largest)


def strips(a, b, out, SIDE):
    grid = (a.shape[0] // SIDE, b.shape[1] // SIDE)
    strips_kernel[grid](a, b, out, b.shape[1], K=a.shape[1], SIDE=SIDE)


def gemm_v1(a, b, out):
    strips(a, b, out, 32)


def gemm_v2(a, b, out):
    strips(a, b, out, 64)
"""
PROJECT = Path(grader.__file__).parents[1]
EXERCISE = load_all()["gemm"]


def counted(folder, variants, **sizes):
    """How often each variant in a folder's gemm.py loads a and b; or why that isn't known."""
    found = {}
    with Session(Path(folder), {"gemm": EXERCISE}, Options(device="cpu")) as session:
        for name in variants:
            task = Task(EXERCISE, EXERCISE.variants[name])
            case = fixed_case(task, sizes, 2026)
            try:
                trace = traced(session, task, case, is_given=True).trace
            except NothingToDraw as error:
                found[name] = str(error).partition(": ")[2]
                continue
            places = {place.argument: place for place in trace.places}
            events = [event for launch in trace.launches for event in launch.events]
            loads = [event for event in events if event.kind == Kind.load]
            found[name] = tuple(
                sum(each.part for each in loads if within(each.offsets[0], places[argument]))
                / places[argument].bytes
                for argument in (0, 1)
            )
    return found


def within(address, place):
    return place.start <= address < place.start + place.bytes


CASE = {"M": 192, "N": 256, "K": 64, "dtype": "float32"}
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "gemm.py").write_text(SOURCE)
    for name, times in counted(folder, ["triton_v1", "triton_v2"], **CASE).items():
        rung = name.removeprefix("triton_")
        of_a, of_b = reads(192, 256, *TILES[rung])
        print(f"tiles of {rung}: a, b predicted {of_a}, {of_b}, counted {times[0]:g}, {times[1]:g}")

# %% [markdown]
# Now your own kernels, side by side. With M = N = 256, v1 loads each element 8 times. How often do
# the other rungs? **Predict** it.

# %%
RUNGS = ["triton_v1", "triton_v2", "triton_v3", "triton_v4"]


def ladder(folder):
    """Print the counted loads of each rung in a folder's gemm.py, side by side."""
    print("            of a   of b   FLOP/byte")
    for name, times in counted(folder, RUNGS, M=256, N=256, K=32, dtype="float16").items():
        if isinstance(times, str):
            print(name, "", times)
        else:
            flop = intensity(256, 256, 32, *times)
            print(f"{name:10} {times[0]:5g} {times[1]:6g} {flop:11.1f}")


ladder(PROJECT / "assignment")

# %% [markdown]
# v3 has the same tiles in another order, so it loads as much as before. What changes is where the
# loads are served from: programs that run at the same time share strips, and a strip that is in the
# L2 cache isn't fetched from memory again. **Predict:** 16 programs whose tiles lie in one row need
# how many different strips of a and b? And in a square of 4 × 4?

# %%
for rows, cols in ((1, 16), (2, 8), (4, 4)):
    print(f"{rows} x {cols:2} tiles: {rows + cols:2} strips")

# %% [markdown]
# The roofline of an H100 with both counts. A mark on the slanted roof is a tile of the table above,
# as fast as memory allows if every load comes from there. The filled marks were measured, and each
# matrix is counted once. **Predict:** which of the measured rungs are faster than the mark of their
# tiles, and which is slower?

# %%
# µs of an H100 for 4096 × 4096 × 4096, of torch and the solutions, and the bytes of an element.
MEASURED = {
    "v0": (176.8, 2),
    "v1": (52880.0, 2),
    "v2": (516.6, 2),
    "v3": (185.3, 2),
    "v4": (186.1, 2),
    "cuda_tiled": (16259.0, 4),
}
BOUND = {"v1": "v1", "v2": "v2", "v3": "v3, v4", "v4": "v3, v4"}  # the tiles of a rung
plt.figure(figsize=(7, 4.5))
along = [0.5, 2000]
for peak, name in ((PEAK, "bfloat16"), (PEAK_FLOAT32, "float32")):
    roof = [min(x * BANDWIDTH, peak) / 1e12 for x in (along[0], peak / BANDWIDTH, along[1])]
    plt.loglog([along[0], peak / BANDWIDTH, along[1]], roof, color="grey")
    plt.text(along[1], roof[-1], f" {name}", va="center")
for name, tile in TILES.items():
    flop = intensity(SIDE, SIDE, SIDE, *reads(SIDE, SIDE, *tile))
    plt.loglog(flop, flop * BANDWIDTH / 1e12, "o", color="grey", fillstyle="none")
    plt.annotate(name, (flop, flop * BANDWIDTH / 1e12), (6, -10), textcoords="offset points")
for name, (took, itemsize) in MEASURED.items():
    flop, rate = intensity(SIDE, SIDE, SIDE, 1, 1, itemsize), 2 * SIDE**3 / took / 1e6
    plt.loglog(flop, rate, "o", label=f"{name}: {rate:.0f} TFLOP/s")
plt.ylim(1, 2000)
plt.xlim(0.3, 20000)
plt.xlabel("FLOP for each byte")
plt.ylabel("TFLOP/s")
plt.legend(loc="lower center", fontsize="small")
plt.show()

for name, tiles in BOUND.items():
    flop = intensity(SIDE, SIDE, SIDE, *reads(SIDE, SIDE, *TILES[tiles]))
    from_memory = 1e6 * 2 * SIDE**3 / (flop * BANDWIDTH)
    took = MEASURED[name][0]
    print(f"{name}: {from_memory:5.0f} µs if all loads came from memory, measured {took:.0f}")

# %% [markdown]
# v2, v3 and v4 are more than twice as fast as that. So most of their loads don't come from memory:
# the L2 cache serves them, and a count of loads alone is no forecast. v1 is 20 times slower. It
# multiplies without `tl.dot`, so it has no tensor cores, and holds every product in a register
# before it adds them up. cuda_tiled, the kernel in CUDA, has tiles of 32 × 32 in float32. Its loads
# allow 27 TFLOP/s, and it reaches 8, an eighth of the peak: its limit is shared memory.
#
# On a GPU, time the rungs that you have. **Predict** their order first.


# %%
def timed(folder):
    """Print the time of each rung in a folder's gemm.py on this machine's GPU."""
    spec = importlib.util.spec_from_file_location("gemm_of_ladder", Path(folder, "gemm.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a, b = (torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    print(torch.cuda.get_device_name())
    for number in range(5):
        rung = getattr(module, f"gemm_v{number}")
        try:
            took = 1000 * triton.testing.do_bench(lambda rung=rung: rung(a, b, out))
        except NotImplementedError:
            print(f"v{number}  not attempted")
            continue
        print(f"v{number} {took:9.1f} µs  {2 * SIDE**3 / took / 1e6:5.0f} TFLOP/s")


if torch.cuda.is_available():
    timed(PROJECT / "assignment")
else:
    print("This cell needs a GPU.")

# %% [markdown]
# `grader bench gemm` times more carefully, and judges the results of the timed calls.
#
# **Try it.** Which tile has the smallest sum of loads among those with 128 × 128 = 16384 elements?
# What is the sum for the same number of elements in a tile of 16 × 1024?
