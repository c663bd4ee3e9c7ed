"""`grader doctor --gpu` shows state and roofs, and keeps what was measured in peace."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from grader.cli import gpu_doctor
from grader.cli.app import app
from grader.cli.gpu_doctor import NO_GPU, examine_gpu
from grader.gpu import machine, measured_roofs, nvml
from grader.gpu.machine import GpuProperties
from grader.gpu.measured_roofs import Identity, WorkloadFailed, load
from grader.gpu.nvml import MISSING
from grader.gpu.state import GpuState, Process, Unobserved
from grader.timing import roofs

GPU = GpuProperties(
    "NVIDIA H100 80GB HBM3", "GPU-1234", 132, (9, 0), 80 << 30, 1.98e9, 2.619e9, 5120
)
USUAL = GpuState(
    GPU.name,
    GPU.uuid,
    "580.159.04",
    sm_mhz=1980,
    sm_most_mhz=1980,
    memory_mhz=2619,
    memory_most_mhz=2619,
    memory_bus_bits=5120,
    celsius=43,
    watts=120.4,
    watts_most=700,
)
IDENTITY = Identity(GPU.uuid, "580.159.04", GPU.name)
RATES = {"float32": 52e12, "tf32": 401e12, "float16": 763e12}


class Clock:
    """Answers as an H100 did, and counts how often it was asked."""

    def __init__(self, factor: float = 1.0) -> None:
        self.asked = 0
        self.factor = factor

    @contextlib.contextmanager
    def __call__(self):
        yield self._seconds

    def _seconds(self, workload) -> float:
        self.asked += 1
        if workload.name == "copy":
            return workload.bytes / 2957e9 * self.factor
        if workload.dtype not in RATES:
            raise WorkloadFailed("no such unit")
        return workload.flops / RATES[workload.dtype]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> None:
    """Roofs are kept in a folder of the test."""
    monkeypatch.setattr(measured_roofs, "cache_root", lambda: tmp_path)


def examined(clock, again=False, gpu=GPU, states=(USUAL, USUAL), taken=(0.0, None)) -> str:
    text = io.StringIO()
    looks, probes = iter(states), iter(taken)
    console = Console(file=text, width=100, color_system=None)
    with pytest.MonkeyPatch.context() as here:
        here.setattr(machine, "gpu_properties", lambda: gpu)
        here.setattr(nvml, "observe", lambda uuid, since: next(looks))
        here.setattr(roofs, "timer", clock)
        here.setattr(gpu_doctor, "share_of_others", lambda: next(probes))
        examine_gpu(console, again)
    return text.getvalue()


def test_a_table_shows_each_roof_beside_the_data_sheet():
    told = examined(Clock())
    rows = {" ".join(line.split()) for line in told.splitlines()}
    assert "copy 2957 GB/s 3350 GB/s 88 %" in rows
    assert "matmul float32 52.0 TFLOP/s 66.9 TFLOP/s 78 %" in rows
    assert "matmul tf32 401.0 TFLOP/s 494.7 TFLOP/s 81 %" in rows
    assert "matmul bfloat16 - 989.4 TFLOP/s -" in rows
    assert "bfloat16: no such unit" in rows
    assert "clocks SM 1980 of 1980 MHz, memory 2619 of 2619 MHz" in rows
    assert "drawn 120 of 700 W, 43 degrees Celsius" in rows
    assert "NVIDIA H100 data sheet" in told


def test_what_is_kept_is_not_measured_again_but_on_demand():
    clock = Clock()
    examined(clock)
    kept, asked = load(IDENTITY), clock.asked
    assert kept.sm_mhz == 1980
    told = examined(clock)
    assert clock.asked == asked
    assert "2957 GB/s" in told
    assert "--again" in told
    examined(Clock(factor=1.1), again=True)
    assert load(IDENTITY).bandwidth == pytest.approx(2957e9 / 1.1)


def test_what_was_measured_amid_noise_is_shown_and_not_kept():
    shared = replace(USUAL, processes=(Process(4123, "python3", 60),))
    told = examined(Clock(), states=(USUAL, shared))
    assert "2957 GB/s" in told
    assert "shared with other processes: python3, pid 4123" in told
    assert "Not kept" in told
    assert load(IDENTITY) is None


@pytest.mark.parametrize("taken", [(0.48, 0.0), (0.0, 0.48), (0.48, 0.48)])
def test_roofs_beside_a_load_that_nobody_can_see_are_not_kept(taken):
    told = examined(Clock(), taken=taken)
    assert "Somebody else had 48% of the GPU's time." in told and "Not kept" in told
    assert load(IDENTITY) is None
    examined(Clock(), taken=(0.01, 0.0))
    assert load(IDENTITY) is not None


def test_a_clock_faster_than_physics_is_not_believed():
    told = examined(Clock(factor=0.5))
    assert "The roofs can't be measured: copy: measured 5914 GB/s" in told
    assert load(IDENTITY) is None


def test_without_nvml_the_roofs_are_measured_all_the_same():
    blind = Unobserved(MISSING)
    told = examined(Clock(), states=(blind, blind))
    assert "nvidia-ml-py isn't installed" in told
    assert "2957 GB/s" in told
    assert load(replace(IDENTITY, driver="unknown")) is not None


def test_a_gpu_of_no_data_sheet_is_held_against_its_properties():
    gpu = replace(GPU, name="NVIDIA H100 something new")
    told = examined(Clock(), gpu=gpu)
    assert "worked out from 132 SMs at 1980 MHz" in told
    bare = replace(gpu, clock_hz=0.0, memory_clock_hz=0.0, bus_bits=0)
    assert measured_roofs.peaks_of(bare) is None
    assert measured_roofs.peaks_of(bare, USUAL).flops["float32"] == 132 * 256 * 1.98e9
    blind = Unobserved(MISSING)
    told = examined(Clock(), again=True, gpu=bare, states=(blind, blind))
    assert "No data sheet is known" in told


def test_a_folder_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr(measured_roofs, "cache_root", lambda: file)
    assert "Not kept: " in examined(Clock())


def test_without_a_gpu_there_is_one_clear_line(monkeypatch):
    monkeypatch.setattr(machine, "gpu_name", lambda: None)
    result = CliRunner().invoke(app, ["doctor", "--gpu"])
    assert result.exit_code == 0
    assert " ".join(result.output.split()) == NO_GPU


def test_again_alone_is_a_mistake():
    result = CliRunner().invoke(app, ["doctor", "--again"])
    assert result.exit_code == 2


@pytest.mark.gpu
def test_the_roofs_of_this_gpu_are_measured_and_possible():
    text = io.StringIO()
    found = examine_gpu(Console(file=text, width=100))
    assert found is not None, text.getvalue()
    peaks = measured_roofs.peaks_of(machine.gpu_properties())
    assert 0.5 < found.bandwidth / peaks.bandwidth < 1.1
    assert 0.3 < found.flops["float16"] / peaks.flops["float16"] < 1.1
