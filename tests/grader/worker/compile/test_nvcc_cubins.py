"""What a cubin says of its kernels is what nvcc was told of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grader.emulator import toolchain
from grader.worker.compile import cubin
from tests.support.nvcc_plans import NEEDS_NVCC

SOURCE = """
struct Mixed { char first; double second; };
__constant__ float factors[3];
extern "C" __global__ void mixed(Mixed a, char b, const float* c, short d) {
    __shared__ float tile[40];
    tile[threadIdx.x] = c[d] * factors[b];
    __syncthreads();
    const_cast<float*>(c)[0] = tile[a.first];
}
extern "C" __global__ void __launch_bounds__(96) nothing() {}
extern "C" __global__ void spills(float* p) {
    float local[200];
    for (int i = 0; i < 200; ++i) local[i] = p[i];
    p[1] = local[static_cast<int>(p[7])];
}
"""


@NEEDS_NVCC
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_kernels_of_a_cubin(tmp_path: Path, architecture: str) -> None:
    source, made = tmp_path / "all.cu", tmp_path / "all.cubin"
    source.write_text(SOURCE)
    nvcc = toolchain.find_nvcc()
    assert nvcc is not None
    subprocess.run([nvcc, f"-arch={architecture}", "-cubin", source, "-o", made], check=True)
    found = {each.name: each for each in cubin.kernels(made.read_bytes())}
    assert set(found) == {"mixed", "nothing", "spills"}
    mixed = found["mixed"]
    places = [(each.offset, each.bytes) for each in mixed.parameters]
    assert places == [(0, 16), (16, 1), (24, 8), (32, 2)] and mixed.parameter_bytes == 34
    assert (mixed.static_shared, mixed.constant_bytes, mixed.most_threads) == (160, 12, 0)
    assert mixed.registers > 0
    nothing = found["nothing"]
    assert (nothing.parameters, nothing.parameter_bytes, nothing.most_threads) == ((), 0, 96)
    assert found["spills"].local_bytes == 800
    assert '{"mixed", ' in cubin.table(list(found.values()))


def test_other_bytes_are_no_cubin() -> None:
    with pytest.raises(cubin.CubinError):
        cubin.kernels(b"\x7fELF\x02\x01" + bytes(80))
