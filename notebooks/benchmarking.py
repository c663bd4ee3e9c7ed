# %% [markdown]
# # Benchmarking: what did you time?
#
# A launch returns before the kernel has run: the host runs ahead of the device. Without a
# synchronisation, the host's clock times the launch. The first call also compiles, loads and
# allocates. Without a GPU, this notebook shows times that were measured on an H100.
#
# **Predict first.** A product of two 4096 × 4096 matrices of bfloat16 is 2 · 4096³ operations, and
# an H100 does 989 · 10¹² of them a second at most. How long does it take at least? What does the
# host's clock say without synchronising?

# %%
import itertools
import statistics
import time
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import grader

GPU = torch.cuda.is_available()
print("at least", round(2 * 4096**3 / 989e12 * 1e6, 1), "us")


# %%
def host_clock(function, synchronise):
    """Microseconds of one call, by the host's clock, on a device that has nothing else to do."""
    if GPU:
        torch.cuda.synchronize()
    started = time.perf_counter()
    function()
    if synchronise:
        torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - started)


def events(function, ahead):
    """Microseconds of one call, by the device's clock, with so many calls queued before it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    for _ in range(ahead):
        function()
    start.record()
    function()
    end.record()
    end.synchronize()
    return 1e3 * start.elapsed_time(end)


def median(clock, *arguments):
    return statistics.median(clock(*arguments) for _ in range(20))


if GPU:
    a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = lambda: a @ b  # noqa: E731
    print(f"first call, synchronised   {host_clock(product, True):10.1f} us")
    print(f"without a synchronisation  {median(host_clock, product, False):10.1f} us")
    print(f"synchronised               {median(host_clock, product, True):10.1f} us")
    print(f"events                     {median(events, product, 0):10.1f} us")
    print(f"events, behind two calls   {median(events, product, 2):10.1f} us")
else:
    print("This cell needs a GPU.")

# %% [markdown]
# Events alone don't leave the host out: the device notes the start at once, and then waits for the
# launch. Behind other calls it doesn't wait. Compare that time with the row of 4096 in the table of
# the handout, which is drawn below.
#
# Warming up matters on a CPU too. **Predict:** is the first call of ten slower, and by how much?

# %%
small = torch.randn(256, 256)
calls = [host_clock(lambda: torch.linalg.qr(small), False) for _ in range(10)]
plt.figure(figsize=(6, 2.5))
plt.bar(range(1, 11), calls)
plt.xlabel("call, on the CPU")
plt.ylabel("us")
plt.show()
print(f"first {calls[0]:.0f} us, median of the others {statistics.median(calls[1:]):.0f} us")

# %% [markdown]
# Measured right, a product's time grows with the cube of its size, once the GPU is full. The
# handout's table has the times. **Predict** from which size on doubling takes eight times as long.


# %%
def stored(stem):
    """A table of the handout: its header, and its rows with times in microseconds."""
    text = Path(grader.__file__).parents[1].joinpath("handout.md").read_text(encoding="utf-8")
    part = text.partition(f"<!-- lecture: {stem} -->")[2].partition("<!-- /lecture -->")[0]
    lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
    return lines[0], [[int(size), *map(microseconds, times)] for size, *times in lines[2:]]


def microseconds(text):
    number, unit = text.split()
    return float(number) * {"us": 1, "ms": 1000}[unit]


header, rows = stored("matmul")
for number, name in enumerate(header[1:], start=1):
    rates = [2 * row[0] ** 3 / row[number] / 1e6 for row in rows]
    plt.loglog([row[0] for row in rows], rates, marker="o", label=name)
plt.xlabel(header[0])
plt.ylabel("TFLOP/s, H100")
plt.legend()
plt.show()
for smaller, larger in itertools.pairwise(rows):
    growth = " ".join(f"{b / a:10.1f}" for a, b in zip(smaller[1:], larger[1:], strict=True))
    print(f"{smaller[0]:5} to {larger[0]:5} {growth}")

# %% [markdown]
# A small product is all launch, so its rate says little about the kernel. `grader bench` times with
# a cold L2 cache, and takes turns between the kernels that it compares.
