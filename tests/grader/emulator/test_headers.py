"""Arithmetic on 16-bit floating-point numbers in the emulator rounds as IEEE 754 has it."""

from __future__ import annotations

import math
import random
import shutil
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from grader.emulator import toolchain
from grader.emulator.build import Entry, build
from grader.worker.protocol import Argument, Code, Kind
from tests.support.emulated import Call
from tests.support.native import Placement, vector

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

N = 1500
OPERATIONS = ("add", "sub", "mul", "div", "fma", "sqrt", "down", "up", "zero")
SOURCE = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <class T> __global__ void compute(const T* x, const T* y, const T* z, T* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i] + y[i];
    out[n + i] = x[i] - y[i];
    out[2 * n + i] = x[i] * y[i];
    out[3 * n + i] = x[i] / y[i];
    out[4 * n + i] = __hfma(x[i], y[i], z[i]);
    out[5 * n + i] = hsqrt(__habs(x[i]));
}
__global__ void round(const float* values, half* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[6 * n + i] = __float2half_rd(values[i]);
    out[7 * n + i] = __float2half_ru(values[i]);
    out[8 * n + i] = __float2half_rz(values[i]);
}
__global__ void round(const float* values, __nv_bfloat16* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[6 * n + i] = __float2bfloat16_rd(values[i]);
    out[7 * n + i] = __float2bfloat16_ru(values[i]);
    out[8 * n + i] = __float2bfloat16_rz(values[i]);
}
extern "C" void entry(TYPE* x, TYPE* y, TYPE* z, float* values, TYPE* out, int n) {
    compute<<<(n + 63) / 64, 64>>>(x, y, z, out, n);
    round<<<(n + 63) / 64, 64>>>(values, out, n);
}
"""
TYPES = {torch.float16: "half", torch.bfloat16: "__nv_bfloat16"}


def patterns(dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Any bits but infinities and NaNs; half of them within 2^4 of one."""
    draw = random.Random(seed)
    bits = 10 if dtype is torch.float16 else 7
    one = torch.tensor(1.0, dtype=dtype).view(torch.int16).item()
    values = [
        one + draw.randrange(-4 << bits, 4 << bits) if i % 2 else draw.randrange(0, 0x7F00)
        for i in range(N)
    ]
    # Where all exponent bits are set it is no number.
    least_infinite = 0x7C00 if dtype is torch.float16 else 0x7F80
    values = [value if value < least_infinite else one for value in values]
    magnitudes = torch.tensor(values, dtype=torch.int16).view(dtype)
    signs = torch.tensor([draw.choice((-1.0, 1.0)) for _ in values]).to(dtype)
    return magnitudes * signs


def neighbours(result: torch.Tensor) -> tuple[float, float]:
    """The next numbers of the type below and above."""
    infinity = torch.tensor(math.inf, dtype=result.dtype)
    return torch.nextafter(result, -infinity).item(), torch.nextafter(result, infinity).item()


def is_nearest(result: torch.Tensor, exact: Fraction) -> bool:
    """Whether no number of the type is nearer; of two as near, the even one is right."""
    if math.isinf(result.item()):
        largest = torch.finfo(result.dtype).max
        before = torch.nextafter(
            torch.tensor(largest, dtype=result.dtype), torch.zeros_like(result)
        )
        half_a_step = (Fraction(largest) - Fraction(before.item())) / 2
        return abs(exact) >= Fraction(largest) + half_a_step
    error = abs(Fraction(result.item()) - exact)
    odd = int(result.view(torch.int16).item()) & 1
    for other in neighbours(result):
        distance = math.inf if math.isinf(other) else abs(Fraction(other) - exact)
        if distance < error or (distance == error and odd):
            return False
    return True


@pytest.fixture(scope="module", params=TYPES, ids=list(TYPES.values()))
def computed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """The operands, the float32 values, and the results: a row for each of OPERATIONS."""
    dtype: torch.dtype = request.param
    folder: Path = tmp_path_factory.mktemp("headers")
    source = folder / "rounding.cu"
    source.write_text(SOURCE.replace("TYPE", TYPES[dtype]))
    name = str(dtype).removeprefix("torch.")
    kinds = [f"pointer:{name}"] * 3 + ["pointer:float32", f"pointer:{name}", "int"]
    made = build(source, [Entry("entry", tuple(kinds))], folder / "built", toolchain.prepare())
    assert made.executable is not None, made.problems
    operands = [patterns(dtype, seed) for seed in range(3)]
    values = patterns(dtype, 3).float() * (1 + torch.linspace(-0.01, 0.01, N))
    slots = [vector(letter, tensor) for letter, tensor in zip("xyz", operands, strict=True)]
    slots += [vector("values", values)]
    slots += [vector("out", torch.zeros(len(OPERATIONS) * N, dtype=dtype), role="inout")]
    described = ",".join(f"{slot.name}:{slot.role}" for slot in slots)
    with Placement(slots) as placement:
        options = [f"--arguments={described},n:input"]
        arguments = [*placement.arguments, Argument(Kind.int64, scalar=N)]
        outcome = Call(made, "entry", arguments, placement.arena.buffers, options).run()
        assert outcome.code is Code.ok, outcome
        results = placement.values("out").view(len(OPERATIONS), N).clone()
    return operands, values, results


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div", "fma"])
def test_an_operation_gives_the_nearest_number(
    computed: tuple[list[torch.Tensor], torch.Tensor, torch.Tensor], operation: str
) -> None:
    operands, _, results = computed
    for i, result in enumerate(results[OPERATIONS.index(operation)]):
        x, y, z = (Fraction(operand[i].item()) for operand in operands)
        if operation == "div" and y == 0:
            continue
        exact = {
            "add": lambda x, y, _: x + y,
            "sub": lambda x, y, _: x - y,
            "mul": lambda x, y, _: x * y,
            "div": lambda x, y, _: x / y,
            "fma": lambda x, y, z: x * y + z,
        }[operation](x, y, z)
        assert is_nearest(result, exact), (operation, float(x), float(y), float(z), result)


def test_a_square_root_is_the_nearest_number(
    computed: tuple[list[torch.Tensor], torch.Tensor, torch.Tensor],
) -> None:
    operands, _, results = computed
    for i, result in enumerate(results[OPERATIONS.index("sqrt")]):
        x, low, high = abs(Fraction(operands[0][i].item())), *neighbours(result)
        root = Fraction(result.item())
        assert ((root + Fraction(low)) / 2) ** 2 <= x or x == 0
        assert x <= ((root + Fraction(high)) / 2) ** 2


@pytest.mark.parametrize("direction", ["down", "up", "zero"])
def test_a_conversion_rounds_in_its_direction(
    computed: tuple[list[torch.Tensor], torch.Tensor, torch.Tensor], direction: str
) -> None:
    _, values, results = computed
    for value, result in zip(values.tolist(), results[OPERATIONS.index(direction)], strict=True):
        low, high = neighbours(result)
        rounded = result.item()
        towards_less = direction == "down" or (direction == "zero" and value > 0)
        if value == rounded or (direction == "zero" and value == 0):
            continue
        if math.isinf(rounded):  # beyond the largest, away from zero
            assert abs(value) > torch.finfo(result.dtype).max
        elif towards_less:
            assert rounded < value < high or (math.isinf(high) and rounded < value)
        else:
            assert low < value < rounded or (math.isinf(low) and value < rounded)
