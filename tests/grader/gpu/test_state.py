"""What NVML says is read whole, and what makes a measurement untrustworthy is said plainly."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from grader.gpu.nvml import MISSING, observe
from grader.gpu.state import GpuState, Process, Unobserved, at_work, remarks, troubles
from tests.support import fake_nvml
from tests.support.fake_nvml import NVMLError, NVMLError_NotFound, process, sample

USUAL = GpuState(
    "NVIDIA H100 80GB HBM3",
    "GPU-1234",
    "580.159.04",
    sm_mhz=1980,
    sm_most_mhz=1980,
    memory_mhz=2619,
    memory_most_mhz=2619,
    celsius=43,
    watts=512.3,
    watts_most=700.0,
    heat_seconds=2.0,
    processes=(Process(10, "python3", 96), Process(11, "python3", 3)),
)
OURS = {5, 10, 11}


def test_a_state_is_all_that_nvml_says():
    nvml = fake_nvml.module(
        ComputeRunningProcesses=[process(77), process(12)],
        ProcessUtilization=[sample(12, 40), sample(12, 90)],
        CurrentClocksEventReasons=0x4 | 0x40,
    )
    state = observe(nvml=nvml)
    assert state == GpuState(
        "NVIDIA H100 80GB HBM3",
        "GPU-1234",
        "580.159.04",
        sm_mhz=1755,
        sm_most_mhz=1980,
        memory_mhz=2619,
        memory_most_mhz=2619,
        memory_bus_bits=5120,
        celsius=43,
        watts=512.3,
        watts_most=700.0,
        busy_percent=97,
        held_back_by=("power cap", "hardware thermal slowdown"),
        heat_seconds=2.0,
        processes=(Process(12, "", 90), Process(77, "python3", 0)),
        at_microseconds=state.at_microseconds,
    )
    assert nvml.calls[0] == "init"
    assert nvml.calls[-1] == "shutdown"


@pytest.mark.parametrize("uuid", ["1234", "GPU-1234"])
def test_the_gpu_is_found_by_its_uuid(uuid):
    nvml = fake_nvml.module()
    observe(uuid, nvml=nvml)
    assert "GPU-1234" in nvml.calls


def test_what_a_board_does_not_support_is_left_open():
    missing = ("ClockInfo", "MigMode", "ProcessUtilization", "ViolationStatus", "PowerUsage")
    nvml = fake_nvml.module(
        **{name: NVMLError("Not Supported") for name in missing},
        ComputeRunningProcesses=[process(77)],
    )
    del nvml.nvmlDeviceGetMemoryBusWidth  # an older binding
    state = observe(nvml=nvml)
    assert (state.sm_mhz, state.memory_mhz, state.watts) == (None, None, None)
    assert (state.memory_bus_bits, state.heat_seconds, state.is_mig) == (None, None, False)
    assert state.processes == (Process(77, "python3", None),)
    assert nvml.calls[-1] == "shutdown"


def test_a_binding_from_before_the_reasons_were_renamed_will_do():
    nvml = fake_nvml.module(CurrentClocksThrottleReasons=0x20)
    del nvml.nvmlDeviceGetCurrentClocksEventReasons
    assert observe(nvml=nvml).held_back_by == ("software thermal slowdown",)


def test_without_the_package_there_is_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert observe() == Unobserved(MISSING)


def test_without_a_driver_there_is_a_reason():
    nvml = fake_nvml.module()

    def fail():
        raise NVMLError("Driver Not Loaded")

    nvml.nvmlInit = fail
    assert observe(nvml=nvml) == Unobserved("NVML: Driver Not Loaded")
    nvml = fake_nvml.module(Name=NVMLError("GPU is lost"))
    assert observe(nvml=nvml) == Unobserved("NVML: GPU is lost")
    assert nvml.calls[-1] == "shutdown"


def test_the_evidence_of_a_state_is_flat_json():
    state = replace(USUAL, held_back_by=("power cap", "idle"), watts=None)
    row = state.as_dict()
    assert json.loads(json.dumps(row)) == row
    assert row["held_back_by"] == "power cap, idle"
    assert row["processes"] == 2
    assert row["is_mps"] == "no"
    assert "watts" not in row
    assert all(type(value) in (str, float, int) for value in row.values())
    assert Unobserved("no driver").as_dict() == {"unobserved": "no driver"}


# --- what voids ------------------------------------------------------------------------------


def test_a_usual_gpu_gives_no_trouble():
    assert troubles(USUAL, USUAL, OURS) == []
    assert remarks(USUAL, OURS) == []


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({"held_back_by": ("hardware thermal slowdown",)}, "too hot"),
        ({"held_back_by": ("software thermal slowdown",)}, "too hot"),
        ({"held_back_by": ("power brake",)}, "power supply"),
        ({"held_back_by": ("hardware slowdown",)}, "slowed it down"),
        ({"held_back_by": ("sync boost",)}, "another GPU"),
        ({"heat_seconds": 2.5}, "for its heat for 0.50 s (43 degrees Celsius)"),
        ({"sm_mhz": 1200}, "fell from 1980 to 1200 MHz"),
        ({"memory_mhz": 1593}, "memory runs at 1593 of 2619 MHz"),
        ({"compute_mode": "exclusive process"}, "nvidia-smi -c 0"),
        ({"is_mps": True}, "MPS is running"),
        ({"uuid": "GPU-9"}, "another GPU"),
    ],
)
def test_each_trouble_is_one_sentence(after, said):
    (sentence,) = troubles(USUAL, replace(USUAL, **after), OURS)
    assert said in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_heat_before_the_measurement_counts_too():
    hot = replace(USUAL, held_back_by=("hardware thermal slowdown",))
    assert len(troubles(hot, USUAL, OURS)) == 1


def test_a_power_cap_holds_back_everyone_alike_and_is_only_remarked():
    capped = replace(USUAL, sm_mhz=1300, held_back_by=("power cap",))
    assert troubles(USUAL, capped, OURS) == []
    assert troubles(capped, USUAL, OURS) == []
    assert remarks(capped, OURS) == ["Its power limit of 700 W holds its clock back."]


def test_a_clock_below_the_usual_one_voids_unless_the_power_cap_explains_it():
    slow = replace(USUAL, sm_mhz=1410)
    (sentence,) = troubles(slow, slow, OURS, usual_sm_mhz=1980)
    assert "1410 MHz, below its usual 1980 MHz" in sentence
    assert troubles(slow, slow, OURS, usual_sm_mhz=1500) == []
    assert troubles(slow, slow, OURS) == []
    assert remarks(slow, OURS) == ["It runs at 1410 of 1980 MHz."]
    capped = replace(slow, held_back_by=("power cap",))
    assert troubles(capped, capped, OURS, usual_sm_mhz=1980) == []


def test_the_clocks_of_an_idle_gpu_mean_nothing():
    idle = replace(USUAL, sm_mhz=345, memory_mhz=405, held_back_by=("idle",))
    assert troubles(idle, idle, OURS, usual_sm_mhz=1980) == []


def with_other(busy: int | None) -> GpuState:
    return replace(USUAL, processes=(*USUAL.processes, Process(4123, "python3", busy)))


@pytest.mark.parametrize("busy", [60, None])
def test_a_process_that_works_or_may_work_voids(busy):
    (sentence,) = troubles(with_other(0), with_other(busy), OURS)
    assert "shared with another process: python3, pid 4123" in sentence


def test_a_process_that_only_holds_memory_is_remarked():
    assert troubles(with_other(0), with_other(0), OURS) == []
    (said,) = remarks(with_other(0), OURS)
    assert "pid 4123" in said


def test_idleness_is_believed_only_where_our_own_work_is_seen():
    silent = tuple(replace(each, busy_percent=0) for each in with_other(0).processes)
    assert len(troubles(with_other(0), replace(USUAL, processes=silent), OURS)) == 1


@pytest.mark.parametrize(
    ("answer", "busy"),
    [(NVMLError_NotFound("nothing"), 0), (NVMLError("Not Supported"), None), ([], 0)],
)
def test_nobody_busy_is_told_from_not_knowing_who_is(answer, busy):
    nvml = fake_nvml.module(ComputeRunningProcesses=[process(77)], ProcessUtilization=answer)
    assert observe(nvml=nvml).processes == (Process(77, "python3", busy),)


def test_who_else_is_at_work_is_told_before_anything_is_timed():
    assert at_work(with_other(0), OURS) == at_work(with_other(None), OURS) == []
    (sentence,) = at_work(with_other(60), OURS)
    assert "another process: python3, pid 4123, 60 % busy" in sentence
    assert at_work(Unobserved(MISSING), OURS) == []


@pytest.mark.parametrize(("before", "after"), [(USUAL, with_other(0)), (with_other(0), USUAL)])
def test_a_process_that_comes_or_goes_voids(before, after):
    assert len(troubles(before, after, OURS)) == 1


def test_where_ids_are_counted_differently_the_number_decides():
    assert troubles(USUAL, USUAL, {5, 6}) == []  # a container: the driver's ids are the host's
    (sentence,) = troubles(with_other(0), with_other(0), {5, 6})
    assert "shared with other processes" in sentence
    assert len(troubles(USUAL, replace(USUAL, processes=USUAL.processes[:1]), {5, 6})) == 1
    assert len(troubles(USUAL, USUAL, ())) == 1


def test_what_cannot_be_seen_is_not_trusted():
    (sentence,) = troubles(USUAL, Unobserved(MISSING), OURS)
    assert MISSING in sentence
    assert remarks(Unobserved(MISSING)) == []


def test_mps_is_known_by_its_server_and_by_its_clients():
    server = fake_nvml.module(ComputeRunningProcesses=[process(99)])
    client = fake_nvml.module(MPSComputeRunningProcesses=[process(12)])
    assert observe(nvml=server).is_mps
    assert observe(nvml=client).is_mps
    assert not observe(nvml=fake_nvml.module()).is_mps


@pytest.mark.parametrize(("mode", "name"), [(0, "default"), (3, "exclusive process")])
def test_the_compute_mode_is_named(mode, name):
    assert observe(nvml=fake_nvml.module(ComputeMode=mode)).compute_mode == name


def test_the_binding_has_what_is_asked_of_it():
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py isn't installed")
    fake = fake_nvml.module()
    for name in vars(fake):
        assert name == "calls" or hasattr(pynvml, name), name
    for constant in ("NVML_CLOCK_SM", "NVML_CLOCK_MEM", "NVML_PERF_POLICY_THERMAL"):
        assert getattr(pynvml, constant) == getattr(fake, constant)
