# %% [markdown]
# # From Triton to PTX
#
# Triton compiles a kernel in stages: its own intermediate code (TTIR), the same with a layout for
# each block of values (TTGIR), LLVM's code, PTX, and machine code. Compiling needs no GPU, so this
# notebook runs anywhere that Triton can be installed.
#
# **Predict first.** A program handles 1024 elements of float32 with four warps, 128 threads. How
# many load instructions does a thread have if each moves 4 bytes? How many if each moves 16?

# %%
import re

import matplotlib.pyplot as plt
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HOPPER = GPUTarget("cuda", 90, 32)


@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(out + i, 2 * value, mask=i < n)


def compiled(known):
    """The kernel's stages. `known`: the arguments that are multiples of 16, by number."""
    types = {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    multiples = {(number,): [["tt.divisibility", 16]] for number in known}
    source = ASTSource(twice, types, {(3,): 1024}, multiples)
    return triton.compile(source, target=HOPPER, options={"num_warps": 4}).asm


def loads(stages):
    return re.findall(r"ld\.global\S*", stages["ptx"])


# %% [markdown]
# The stages of one compilation. TTIR has whole blocks and no threads.

# %%
aligned = compiled(known=[0, 1, 2])
print(aligned["ttir"])

# %% [markdown]
# TTGIR begins with a layout. `sizePerThread` says how many neighbouring elements a thread has.

# %%
print(next(line for line in aligned["ttgir"].splitlines() if line.startswith("#blocked")))

# %% [markdown]
# PTX is the code of one thread. Compare its loads with your prediction: once with all that a
# launch tells the compiler about the arguments, once without `n`, and once with nothing. A launch
# passes on that an address or an integer is a multiple of 16.

# %%
cases = {"x, out and n": aligned, "x and out": compiled([0, 1]), "nothing": compiled([])}
for name, stages in cases.items():
    print(f"multiples of 16: {name:<13} {len(loads(stages))} loads, {set(loads(stages))}")

# %%
plt.figure(figsize=(5, 2))
plt.barh(list(cases), [len(loads(stages)) for stages in cases.values()])
plt.xlabel("load instructions of a thread")
plt.ylabel("multiples of 16")
plt.show()

# %% [markdown]
# Without knowing `n` the mask could end in the middle of four elements, so a thread can't load them
# in one go. `grader inspect gelu` shows the same for your kernels, beside their lines.
#
# **Try it.** Change `num_warps` to 8. What happens to the loads of a thread, and why?
