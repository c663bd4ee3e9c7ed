# %% [markdown]
# # Online softmax
#
# Softmax needs a row's maximum before it adds up exponentials, and the sum before it divides.
# Read literally, that is three passes over the row. Online softmax makes one of the first two: it
# keeps a maximum and a sum of what it has seen, and corrects the sum when the maximum grows. This
# notebook needs no GPU.
#
# **Predict first.** The row is 1, 2, ..., 8, read from left to right in blocks of two. How often is
# the sum corrected? And if the row is read from right to left?

# %%
import matplotlib.pyplot as plt
import numpy as np


def running(row, block):
    """The maximum and the sum after each block."""
    maximum, total = -np.inf, 0.0
    for start in range(0, len(row), block):
        part = row[start : start + block]
        larger = max(maximum, part.max())
        total = total * np.exp(maximum - larger) + np.exp(part - larger).sum()
        corrected = np.isfinite(maximum) and larger > maximum
        maximum = larger
        yield maximum, total, corrected


# %%
row = np.arange(1.0, 9.0)
for name, given in {"rising": row, "falling": row[::-1]}.items():
    steps = list(running(given, 2))
    print(name, "corrected", sum(corrected for *_, corrected in steps), "times")
    for maximum, total, corrected in steps:
        print(f"  maximum {maximum:.0f}  sum {total:.4f}", "corrected" if corrected else "")

# %% [markdown]
# Both end with the same maximum and the same sum, so the order doesn't matter: two parts of a row
# can be combined in either order. Flash attention rests on this.

# %%
maximum, total, _ = list(running(row, 2))[-1]
expected = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
assert np.allclose(np.exp(row - maximum) / total, expected)

# %% [markdown]
# Now a long row that is drawn at random. **Predict:** of 256 blocks, in about how many does the
# maximum grow? It grows in block k with probability 1/k.

# %%
drawn = np.random.default_rng(2026).normal(size=256 * 64)
steps = list(running(drawn, 64))
print(
    sum(corrected for *_, corrected in steps),
    "corrections, expected about",
    round(sum(1 / k for k in range(2, 257)), 1),
)
figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(6, 4))
above.step(range(1, 257), [maximum for maximum, *_ in steps], where="post")
above.set_ylabel("maximum")
below.plot(range(1, 257), [total for _, total, _ in steps])
below.set(ylabel="sum", xlabel="blocks read")
plt.show()

# %% [markdown]
# Where the maximum grows, the sum falls. A kernel multiplies in every block, without asking whether
# the maximum grew: a factor of 1 costs less than a branch.
#
# **Try it.** Begin with `maximum = 0.0` and a row of large negative numbers, such as `row - 1000`.
# Which operation goes wrong?
