"""Draws docs/figures/*.svg for the handout and slides: each from the grader's own code and data.

python docs/make_figures.py            writes them
python docs/make_figures.py --check    exits with 1, and writes nothing, where one is out of date
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from grader.instruments.profile import drawings, samples
from grader.instruments.svg import Drawing
from grader.worker.ttir.accesses import Lanes, requests_of

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "figures"
WARP, BANKS, SECTOR = 32, 32, 32
WIDTH = 720


def memory_hierarchy() -> Drawing:
    """From registers to the host, each level with its size and its speed."""
    levels = (
        ("registers", "256 KB an SM: one thread's own", "green", 220),
        ("shared memory and L1", "256 KB an SM: 128 bytes per clock", "blue", 320),
        ("L2 cache", "50 MB: all SMs", "orange", 440),
        ("HBM, global memory", "80 GB: 3.35 TB/s", "red", 570),
        ("host memory", "over PCIe 5: 64 GB/s each way", "grey", 700),
    )
    description = "; ".join(f"{name}, {words}" for name, words, *_ in levels)
    drawing = Drawing(WIDTH, 290, "The memories of an H100, the fastest on top", description)
    for number, (name, words, colour, width) in enumerate(levels):
        y = 14 + number * 54
        drawing.rect((WIDTH - width) / 2, y, width, 44, f"{colour} edge")
        drawing.text(WIDTH / 2, y + 19, name, "bold", "middle")
        drawing.text(WIDTH / 2, y + 36, words, "small", "middle")
    return drawing


def grid() -> Drawing:
    """A matrix, one of its blocks, one of the block's warps, one of the warp's threads."""
    description = (
        "A matrix of 4 by 6 blocks. One block is 8 warps of 32 threads; a warp is a row of it, and "
        "a thread one element."
    )
    drawing = Drawing(WIDTH, 270, "Grid, block, warp and thread on a matrix", description)
    for row in range(4):
        for column in range(6):
            chosen = (row, column) == (1, 3)
            kind = "orange edge" if chosen else "grey edge"
            drawing.rect(20 + column * 40, 44 + row * 40, 40, 40, kind)
    drawing.text(20, 30, "grid: 4 × 6 blocks", "bold")
    drawing.line([(180, 84), (330, 44)], "dash")
    drawing.line([(180, 124), (330, 204)], "dash")
    drawing.text(330, 30, "block: 8 warps", "bold")
    for warp in range(8):
        for lane in range(WARP):
            kind = "orange" if warp == 2 else "grey"
            kind = "red" if (warp, lane) == (2, 20) else kind
            drawing.rect(330 + lane * 11.5, 44 + warp * 20, 11.5, 20, f"{kind} edge")
    drawing.text(330, 228, "a row is a warp: 32 threads, one instruction together", "small")
    drawing.text(330, 246, "red: one thread, one element", "small")
    drawing.text(20, 228, "a block stays on one SM to its end;", "small")
    drawing.text(20, 246, "the order of blocks isn't promised", "small")
    return drawing


def coalescing() -> Drawing:
    """A warp's 32 loads of 4 bytes: neighbours, and two strides, with their sectors counted."""
    strides = (1, 2, 8)
    counts = [sectors_of(stride) for stride in strides]
    used = [100 * WARP * 4 / (count * SECTOR) for count in counts]
    description = "; ".join(
        f"stride {stride}: {count} sectors, {share:.0f} % of their bytes used"
        for stride, count, share in zip(strides, counts, used, strict=True)
    )
    drawing = Drawing(WIDTH, 250, "Sectors that a warp's load touches", description)
    for number, (stride, count, share) in enumerate(zip(strides, counts, used, strict=True)):
        y = 24 + number * 76
        words = f"element i · {stride}: {count} sectors of 32 bytes, {share:.0f} % used"
        drawing.text(20, y, words, "bold")
        for word in range(64):
            kind = "orange" if word % stride == 0 and word // stride < WARP else "grey"
            drawing.rect(20 + word * 10.5, y + 10, 10.5, 22, kind)
        for sector in range(9):
            x = 20 + sector * 84
            drawing.line([(x, y + 6), (x, y + 36)], "line")
        shown = min(WARP, 64 // stride)
        more = f": threads 0 to {shown - 1} of 32" if shown < WARP else ""
        drawing.text(20, y + 50, f"the first 8 sectors{more}", "small dim")
    return drawing


def sectors_of(stride: int) -> int:
    """Sectors of a warp's request, thread i at element i · stride, as the grader counts them."""
    addresses = (np.arange(WARP, dtype=np.int64) * stride * 4)[None, :]
    return requests_of(Lanes(np.zeros(1, np.int64), addresses, None, None, 4)).sectors


def bank_conflicts() -> Drawing:
    """A tile's column in shared memory, with rows of 32 words and of 33."""
    rows = {pitch: column_passes(pitch) for pitch in (32, 33)}
    description = "; ".join(f"rows of {p} words: {n} passes" for p, n in rows.items())
    drawing = Drawing(WIDTH, 344, "Banks that a column of a tile lies in", description)
    for side, (pitch, passes) in enumerate(rows.items()):
        x = 20 + side * 360
        word = "pass" if passes == 1 else "passes"
        drawing.text(x, 24, f"tile[32][{pitch}]: a column takes {passes} {word}", "bold")
        for row in range(WARP):
            drawing.rect(x, 54 + row * 8, 320, 7, "grey")
            drawing.rect(x + row * pitch % BANKS * 10, 54 + row * 8, 10, 7, "red")
        drawing.text(x, 47, "bank 0", "small dim")
        drawing.text(x + 319, 47, "31", "small dim", "end")
        drawing.text(x, 328, "red: where the column's word of each row lies", "small")
    return drawing


def column_passes(pitch: int) -> int:
    """Passes of shared memory for a column of 32 words: most words that lie in one bank."""
    banks = np.arange(WARP) * pitch % BANKS
    return int(np.bincount(banks).max())


Order = Sequence[tuple[int, int]]


def by_rows(rows: int, columns: int) -> Order:
    """Tiles row by row."""
    return [(row, column) for row in range(rows) for column in range(columns)]


def in_groups(rows: int, columns: int, size: int) -> Order:
    """Tiles as gemm's GROUP_SIZE_M has them: down a group of rows, then the next column."""
    return [
        (row, column)
        for first in range(0, rows, size)
        for column in range(columns)
        for row in range(first, min(first + size, rows))
    ]


def loaded(order: Order, room: int) -> int:
    """Strips of a (by row) and b (by column) that tiles load past a cache with room for so many.

    The least recently used strip leaves, as an L2 cache roughly does.
    """
    cache: OrderedDict[tuple[str, int], None] = OrderedDict()
    misses = 0
    for row, column in order:
        for strip in (("a", row), ("b", column)):
            if strip in cache:
                cache.move_to_end(strip)
                continue
            misses += 1
            cache[strip] = None
            if len(cache) > room:
                cache.popitem(last=False)
    return misses


def gemm_tiles() -> Drawing:
    """A product's tile, its strips of a and b, and one step along K."""
    rows, columns, steps, cell = 4, 4, 5, 36
    description = (
        "A program computes one tile of out. It goes along K over a strip of a and a strip of b; "
        "in each step a tile of both is loaded and multiplied into the sum."
    )
    drawing = Drawing(WIDTH, 420, "The tiles of a product", description)
    left, top = 40 + steps * cell + 24, 34 + steps * cell + 24
    chosen = (2, 1)
    for row, column in itertools.product(range(rows), range(columns)):
        kind = "orange edge" if (row, column) == chosen else "grey edge"
        drawing.rect(left + column * cell, top + row * cell, cell, cell, kind)
    for step in range(steps):
        now = "red edge" if step == 2 else "blue edge"
        for row in range(rows):
            kind = now if row == chosen[0] else "grey edge"
            drawing.rect(40 + step * cell, top + row * cell, cell, cell, kind)
        for column in range(columns):
            kind = now if column == chosen[1] else "grey edge"
            drawing.rect(left + column * cell, 34 + step * cell, cell, cell, kind)
    drawing.text(40, top - 8, "a: M × K", "bold")
    drawing.text(left, 24, "b: K × N", "bold")
    drawing.text(left, top + rows * cell + 20, "out: M × N", "bold")
    for number, line in enumerate(
        (
            "orange: the tile of one program",
            "blue: its strips, which it goes along",
            "red: the tiles of this step",
            "acc += (tile of a) · (tile of b)",
            "each strip of a: loaded once for each",
            "tile beside it, ceil(N / BLOCK_N) times",
            "each strip of b: ceil(M / BLOCK_M) times",
        )
    ):
        drawing.text(left + columns * cell + 24, 60 + number * 26, line, "small")
    return drawing


def l2_order() -> Drawing:
    """The order of a product's tiles, and the strips that each order loads."""
    rows = columns = 8
    room = 6
    orders = {
        "row by row": by_rows(rows, columns),
        "in groups of 4 rows": in_groups(rows, columns, 4),
    }
    counts = {name: loaded(order, room) for name, order in orders.items()}
    description = "; ".join(f"{name}: {n} strips loaded" for name, n in counts.items())
    title = "The order of a product's tiles, and what the L2 cache misses"
    drawing = Drawing(WIDTH, 350, title, f"{description}, with room for {room} strips")
    for side, (name, order) in enumerate(orders.items()):
        x = 20 + side * 360
        drawing.text(x, 24, f"{name}: {counts[name]} strips loaded", "bold")
        for number, (row, column) in enumerate(order):
            kind = "orange edge" if number < 16 else "grey edge"
            drawing.rect(x + column * 34, 40 + row * 34, 34, 34, kind)
            label = str(number)
            drawing.text(x + column * 34 + 17, 62 + row * 34, label, "small", "middle")
    words = f"number: the order of tiles. A tile needs a strip of a and one of b; {room} fit."
    drawing.text(20, 336, words, "small")
    return drawing


def online_softmax() -> Drawing:
    """The handout's numbers: a running maximum and sum over three blocks."""
    values = [2.0, 5.0, 1.0, 3.0, 7.0, 6.0, 4.0, 0.0, 9.0, 1.0]
    blocks = (values[0:4], values[4:8], values[8:10])
    steps = list(softmax_steps(blocks))
    description = "; ".join(f"m {m:.0f}, factor {f:.3f}, l {total:.3f}" for m, f, total in steps)
    drawing = Drawing(WIDTH, 230, "Online softmax: one pass over three blocks", description)
    for number, (block, (m, factor, total)) in enumerate(zip(blocks, steps, strict=True)):
        x = 20 + number * 236
        for place, value in enumerate(block):
            kind = "red edge" if value == m else "blue edge"
            drawing.label(x + place * 44, 30, 44, 34, f"{value:.0f}", kind)
        drawing.text(x, 98, f"m = {m:.0f}", "code")
        drawing.text(x, 122, f"factor = {factor:.3f}", "code")
        drawing.text(x, 146, f"l = l_old · factor + Σ = {total:.3f}", "code")
        if number < 2:
            drawing.line([(x + 190, 174), (x + 236, 174)], "line", arrow=True)
            drawing.text(x, 178, "m and l go on", "small dim")
    drawing.text(
        20,
        214,
        "red: the largest so far. factor = exp(m_old − m) mends the sum as m grows.",
        "small",
    )
    return drawing


def softmax_steps(blocks: Iterable[Sequence[float]]) -> Iterator[tuple[float, float, float]]:
    """After each block: the maximum, the factor, and the sum."""
    m, total = -math.inf, 0.0
    for block in blocks:
        largest = max(m, *block)
        factor = math.exp(m - largest)
        total = total * factor + sum(math.exp(value - largest) for value in block)
        m = largest
        yield m, factor, total


def flash_tiles() -> Drawing:
    """A program of flash attention: its block of q, and the blocks of k and v that it goes over."""
    description = (
        "One program keeps a block of queries. It goes over the blocks of keys and values; a tile "
        "of scores lives only until the next one. Causal: tiles above the diagonal are left out."
    )
    drawing = Drawing(WIDTH, 300, "The tiles of flash attention", description)
    for row in range(6):
        mine = "orange edge" if row == 3 else "grey edge"
        drawing.rect(40, 60 + row * 34, 44, 34, mine)
        for column in range(6):
            kind = "grey edge" if row == 3 and column > 3 else "page edge"
            kind = "blue edge" if row == 3 and column < 3 else kind
            kind = "red edge" if (row, column) == (3, 3) else kind
            drawing.rect(110 + column * 54, 60 + row * 34, 54, 34, kind)
    drawing.text(40, 50, "q", "bold")
    drawing.text(110, 50, "scores = q · kᵀ: never in memory as a whole", "bold")
    drawing.text(110, 284, "k and v, block by block →", "small")
    for number, line in enumerate(
        (
            "orange: this program's BLOCK_M queries",
            "blue: tiles it has done with",
            "red: the tile on the diagonal, masked",
            "grey: left out where attention is causal",
            "kept in registers: acc, m and l of each row",
        )
    ):
        drawing.text(452, 90 + number * 26, line, "small")
    return drawing


def host_ahead() -> Drawing:
    """The stored trace of the manual GELU: launches run ahead of the kernels."""
    return drawings.timeline(samples.profile("manual"))


# (name, block of docs/performance.md, case, operations per byte): bytes as the exercise must move.
KERNELS = (
    ("silu", "silu", "8192x8192 bf16", 1.0),
    ("rmsnorm", "rmsnorm", "8192x8192 bf16", 1.0),
    ("softmax", "softmax", "8192x8192 bf16", 1.25),
    ("gemm 4096³", "gemm", "4096x4096x4096 bf16", 4096 / 3),
    ("gemm in CUDA, float32", "gemm_cuda", "4096x4096x4096 f32", 4096 / 6),
    ("flash attention", "flash_attention", "8x16x2048x64 bf16", 2048 / 2),
)


def roofline() -> Drawing:
    """The solutions below the H100's roofs, as docs/performance.md has their times."""
    bandwidth, peaks = 3350.0, {"bfloat16": 989.0, "float32": 67.0}
    places = [(name, x, measured(block, case, x)) for name, block, case, x in KERNELS]
    description = "; ".join(
        f"{name}: {y:.1f} TFLOP/s at {x:.0f} FLOP/byte" for name, x, y in places
    )
    drawing = Drawing(WIDTH, 420, "The solutions below the roofline of an H100", description)

    def at(x: float, y: float) -> tuple[float, float]:
        """FLOP per byte and TFLOP/s, both logarithmic."""
        return 60 + math.log10(x / 0.3) * 152, 380 - math.log10(y / 0.5) * 100

    for name, peak in peaks.items():
        ridge = peak * 1000 / bandwidth
        drawing.line([at(ridge, peak), at(4000, peak)], "line")
        x, y = at(4000, peak)
        drawing.text(x, y - 6, f"{name}: {peak:.0f} TFLOP/s", "small dim", "end")
    drawing.line([at(0.3, 0.3 * bandwidth / 1000), at(295, 989)], "line")
    x, y = at(10, 10 * bandwidth / 1000)
    drawing.text(x - 8, y - 8, "3350 GB/s", "small dim", "end")
    for exponent in range(4):
        x, y = at(10**exponent, 0.5)
        drawing.text(x, y + 18, f"{10**exponent}", "small dim", "middle")
    drawing.text(WIDTH - 20, 414, "FLOP per byte", "small", "end")
    for exponent in range(4):
        x, y = at(0.3, 10**exponent)
        drawing.text(x - 6, y + 4, f"{10**exponent}", "small dim", "end")
    drawing.text(12, 22, "TFLOP/s", "small")
    _marks(drawing, places, at)
    return drawing


def _marks(
    drawing: Drawing,
    places: Sequence[tuple[str, float, float]],
    at: Callable[[float, float], tuple[float, float]],
) -> None:
    """A mark for each kernel, with its name beside it where no other's stands."""
    colours = ("blue", "green", "pink", "orange", "red", "grey")
    for number, (name, intensity, speed) in enumerate(places):
        x, y = at(intensity, speed)
        drawing.rect(x - 5, y - 5, 10, 10, f"{colours[number]} edge", name)
        drawing.rect(300, 250 + number * 20, 10, 10, f"{colours[number]} edge")
        drawing.text(316, 259 + number * 20, f"{name}: {speed:.1f} TFLOP/s", "small")


def measured(block: str, case: str, intensity: float) -> float:
    """TFLOP/s of the graded solution in a table of docs/performance.md."""
    text = (HERE / "performance.md").read_text(encoding="utf-8")
    table = text.partition(f"<!-- measured: {block} -->")[2].partition("<!-- end -->")[0]
    row = re.search(
        rf"^\| {re.escape(case)} \| graded \| [\d.]+ \| ([\d.]+) \|", table, re.MULTILINE
    )
    assert row is not None, f"docs/performance.md: no {case} of {block}"
    is_rate = "TFLOP/s" in table
    return float(row[1]) if is_rate else float(row[1]) * intensity / 1000


FIGURES: dict[str, Callable[[], Drawing]] = {
    "memory-hierarchy": memory_hierarchy,
    "grid": grid,
    "coalescing": coalescing,
    "bank-conflicts": bank_conflicts,
    "gemm-tiles": gemm_tiles,
    "l2-order": l2_order,
    "online-softmax": online_softmax,
    "flash-tiles": flash_tiles,
    "roofline": roofline,
}
if samples.trace("manual").is_file():
    FIGURES["host-ahead"] = host_ahead


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; ask")
    asked = parser.parse_args(arguments)
    old = [name for name, text in drawn().items() if _kept(name) != text]
    if asked.check:
        for name in old:
            print(f"docs/figures/{name}.svg is out of date: run make figures", file=sys.stderr)
        return int(bool(old))
    FOLDER.mkdir(exist_ok=True)
    for name in old:
        (FOLDER / f"{name}.svg").write_text(drawn()[name], encoding="utf-8")
        print(f"docs/figures/{name}.svg")
    return 0


def drawn() -> dict[str, str]:
    """Each figure's text, by its name."""
    return {name: make().render() for name, make in FIGURES.items()}


def _kept(name: str) -> str:
    path = FOLDER / f"{name}.svg"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
