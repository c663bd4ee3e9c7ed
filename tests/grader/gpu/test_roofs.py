"""Roofs are measured once per GPU and driver, never believed against physics, and kept whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from grader.emulator import toolchain
from grader.gpu import measured_roofs
from grader.gpu.measured_roofs import (
    Identity,
    MeasuredRoofs,
    RoofsError,
    Workload,
    WorkloadFailed,
    copy_workload,
    load,
    matrix_workload,
    measure,
    path_of,
    store,
)
from grader.gpu.roofline import peaks

H100 = Identity("GPU-1234", "580.159.04", "NVIDIA H100 80GB HBM3")
LIMITS = peaks(H100.device)
GIB = 1 << 30
KEPT = MeasuredRoofs(
    **vars(H100),
    measured_at="2026-01-02T03:04:05",
    bandwidth=2957e9,
    flops={"float16": 763e12},
    missing={"bfloat16": "no such unit"},
    sm_mhz=1980,
)

# What was measured on an H100: GB/s, and TFLOP/s of 4096 by 4096 by 4096.
FOUND = {"copy": 2957e9, "float32": 52e12, "tf32": 401e12, "float16": 763e12, "bfloat16": 792e12}


def seconds_of(workload: Workload) -> float:
    if workload.name == "copy":
        return workload.bytes / FOUND["copy"]
    return workload.flops / FOUND[workload.dtype]


def measured(timer=seconds_of, limits=LIMITS) -> MeasuredRoofs:
    return measure(H100, timer, 80 * GIB, "2026-01-02T03:04:05", limits)


def test_roofs_are_what_the_workloads_reach():
    found = measured()
    assert found.bandwidth == pytest.approx(FOUND["copy"])
    assert found.flops == pytest.approx({k: v for k, v in FOUND.items() if k != "copy"})
    assert found.missing == {}
    assert (found.uuid, found.driver, found.device) == tuple(vars(H100).values())
    assert found.roofs().is_measured


def test_the_median_of_repeats_counts():
    factors = iter([1.0, 9.0, 1.1] + [1.0] * 100)
    found = measured(lambda workload: seconds_of(workload) * next(factors))
    assert found.bandwidth == pytest.approx(FOUND["copy"] / 1.1)


def test_a_dtype_the_gpu_lacks_is_left_out_with_its_reason():
    def timer(workload):
        if workload.dtype == "bfloat16":
            raise WorkloadFailed("not on this GPU")
        return seconds_of(workload)

    found = measured(timer)
    assert found.missing == {"bfloat16": "not on this GPU"}
    assert set(found.flops) == {"float32", "tf32", "float16"}


def test_without_a_copy_there_are_no_roofs():
    def timer(workload):
        raise WorkloadFailed("out of memory")

    with pytest.raises(RoofsError, match="copying 512 MiB failed: out of memory"):
        measured(timer)


@pytest.mark.parametrize("kind", ["copy", "bfloat16"])
def test_a_roof_above_what_the_gpu_can_do_is_a_broken_clock(kind):
    def timer(workload):
        return seconds_of(workload) / (2 if kind in (workload.name, workload.dtype) else 1)

    with pytest.raises(RoofsError, match=f"{kind}: measured .* at most: the clock"):
        measured(timer)
    assert measured(timer, limits=None).bandwidth > 0  # of a GPU nobody knows


@pytest.mark.parametrize("seconds", [0.0, -1e-6, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(seconds):
    with pytest.raises(RoofsError, match="expected a time above 0"):
        measured(lambda workload: seconds)


def test_workloads_fit_the_gpu():
    assert copy_workload(80 * GIB).size == 512 << 20
    small = copy_workload(16 * GIB)
    assert (small.size, small.bytes) == (256 << 20, 512 << 20)
    assert copy_workload(0).size == 1 << 20
    product = matrix_workload("bfloat16")
    assert (product.flops, product.bytes) == (2 * 4096**3, 3 * 4096**2 * 2)
    assert matrix_workload("tf32").bytes == 2 * product.bytes


# --- kept --------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """The folder in which roofs are kept."""
    monkeypatch.setattr(measured_roofs, "cache_root", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def test_what_is_kept_is_found_again():
    path = store(KEPT)
    assert load(H100) == KEPT
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("other", [{"uuid": "GPU-5"}, {"driver": "590.1"}])
def test_another_gpu_or_driver_is_another_file(other):
    store(KEPT)
    another = replace(H100, **other)
    assert load(another) is None
    path_of(H100).rename(path_of(another))  # and the contents are asked too
    assert load(another) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "\xff",
        "{}",
        "[" * 100_000,
        {"bandwidth": "fast"},
        {"bandwidth": -1.0},
        {"bandwidth": float("nan")},
        {"flops": {"float16": 0}},
        {"flops": None},
        {"schema": 3},
        {"uuid": None},
    ],
)
def test_a_damaged_file_is_measured_anew(text):
    path = store(KEPT)
    if isinstance(text, dict):
        text = json.dumps(json.loads(path.read_text()) | text)
    path.write_text(text, encoding="latin-1")
    assert load(H100) is None


def test_a_write_that_fails_leaves_what_was_there(cache, monkeypatch):
    store(KEPT)

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        store(replace(KEPT, bandwidth=1.0))
    assert load(H100) == KEPT
    assert len(list(cache.iterdir())) == 1


def test_a_files_name_is_plain_whatever_the_driver_says(cache):
    untrusted = Identity("GPU-../../x", "5 8/0", "")
    assert path_of(untrusted).parent == cache
    assert "/" not in path_of(untrusted).name


def test_the_folder_is_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(measured_roofs, "cache_root", toolchain.cache_root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert path_of(H100).parent == tmp_path / "warpgrade"
