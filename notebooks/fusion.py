# %% [markdown]
# # Fusion: how many kernels is a formula?
#
# PyTorch runs one kernel for each operation of a formula. Each reads its inputs from memory and
# writes its result there. One kernel for the whole formula reads once and writes once.
#
# **Predict first.** GELU by its tanh approximation is
# `0.5 * x * (1 + tanh(c * (x + 0.044715 * x * x * x)))`. How many kernels does it launch? How many
# bytes does it move for each element of float32, and how many does one kernel move?

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

import grader


def by_hand(x):
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def fused(x):
    return F.gelu(x, approximate="tanh")


class Operations(TorchDispatchMode):
    """Lists the operations that torch runs, and the bytes of the tensors that they move."""

    def __init__(self):
        super().__init__()
        self.names, self.bytes = [], 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        # A number in a formula is passed as a tensor of no dimensions: it isn't an array.
        arrays = [each for each in (*args, result) if isinstance(each, torch.Tensor) and each.ndim]
        self.names.append(operation.overloadpacket.__name__)
        self.bytes += sum(each.nbytes for each in {id(each): each for each in arrays}.values())
        return result


# %% [markdown]
# Counted without a GPU: every operation on a whole tensor is one kernel on a GPU.

# %%
x = torch.randn(4096)
counts = {}
for function in (by_hand, fused):
    with Operations() as operations:
        function(x)
    counts[function.__name__] = operations
    each = operations.bytes / x.numel()
    print(
        f"{function.__name__:8} kernels: {len(operations.names)}, {each:g} bytes an element:",
        *operations.names,
    )

# %% [markdown]
# On a GPU the profiler says which kernels ran. torch.compile makes one kernel of the formula too.

# %%
if torch.cuda.is_available():
    on_gpu = torch.randn(2**24, device="cuda")
    for name, function in {"by_hand": by_hand, "compiled": torch.compile(by_hand)}.items():
        function(on_gpu)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            function(on_gpu)
            torch.cuda.synchronize()
        kernels = [e for e in profiled.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        print(name, *(event.name[:60] for event in kernels), sep="\n  ")
else:
    print("This cell needs a GPU.")

# %% [markdown]
# What it means for time: the handout's table for an H100. **Predict** the ratio for the largest
# size from the bytes above.


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


header, rows = stored("gelu")
for number, name in enumerate(header[1:], start=1):
    plt.loglog([row[0] for row in rows], [row[number] for row in rows], marker="o", label=name)
plt.xlabel(header[0])
plt.ylabel("us, H100")
plt.legend()
plt.show()
bytes_ratio = counts["by_hand"].bytes / counts["fused"].bytes
print(
    f"bytes: {bytes_ratio:.1f} times as many; time: {rows[-1][1] / rows[-1][2]:.1f} times as long"
)

# %% [markdown]
# For small sizes the ratio is another one: there a launch costs more than the bytes.
#
# **Try it.** Count softmax: `e = torch.exp(x - x.max()); e / e.sum()`.
