"""Peaks agree with the data sheets, floors are never above what is possible, advice fits."""

from __future__ import annotations

import pytest

from grader.gpu import datasheets
from grader.gpu.roofline import (
    Counted,
    Place,
    RooflineError,
    Roofs,
    advice,
    floor_seconds,
    peaks,
    peaks_from_properties,
    place,
)

H100 = peaks("NVIDIA H100 80GB HBM3")

# Dense TFLOP/s as the makers publish them: float32, tf32, float16 with sums in float32.
DATA_SHEETS = {
    "NVIDIA B200": (75, 1125, 2250),
    "NVIDIA H200": (67, 494.5, 989.5),
    "NVIDIA H100 80GB HBM3": (67, 494.5, 989.5),
    "NVIDIA H100 PCIe": (51, 378, 756),
    "NVIDIA H100 NVL": (60, 417.5, 835.5),
    "NVIDIA A100-SXM4-80GB": (19.5, 156, 312),
    "NVIDIA A100-PCIE-40GB": (19.5, 156, 312),
    "NVIDIA A30": (10.3, 82, 165),
    "NVIDIA A40": (37.4, 74.8, 149.7),
    "NVIDIA A10": (31.2, 62.5, 125),
    "NVIDIA A10G": (35, 35, 70),
    "NVIDIA L4": (30.3, 60, 121),
    "NVIDIA L40": (90.5, 90.5, 181),
    "NVIDIA L40S": (91.6, 183, 366),
    "Tesla T4": (8.1, None, 65),
    "Tesla V100-SXM2-16GB": (15.7, None, 125),
    "Tesla V100-PCIE-32GB": (14, None, 112),
    "NVIDIA RTX A6000": (38.7, 77.4, 154.8),
    "NVIDIA RTX 6000 Ada Generation": (91.1, 182.1, 364.2),
    "NVIDIA GeForce RTX 3060": (12.7, 12.7, 25.5),
    "NVIDIA GeForce RTX 3070": (20.3, 20.3, 40.6),
    "NVIDIA GeForce RTX 3080": (29.8, 29.8, 59.5),
    "NVIDIA GeForce RTX 3090": (35.6, 35.6, 71),
    "NVIDIA GeForce RTX 4060": (15.1, 15.1, 30.2),
    "NVIDIA GeForce RTX 4070": (29.1, 29.1, 58.3),
    "NVIDIA GeForce RTX 4080": (48.7, 48.7, 97.5),
    "NVIDIA GeForce RTX 4090": (82.6, 82.6, 165.2),
    "NVIDIA GeForce RTX 5090": (104.8, 104.8, 209.5),
}


@pytest.mark.parametrize("name", DATA_SHEETS)
def test_rates_per_sm_and_clock_give_the_published_ones(name):
    found = peaks(name)
    for dtype, published in zip(("float32", "tf32", "float16"), DATA_SHEETS[name], strict=True):
        if published is None:
            assert dtype not in found.flops
        else:
            assert found.flops[dtype] / 1e12 == pytest.approx(published, rel=0.022)


@pytest.mark.parametrize(
    ("name", "gb_s"),
    [
        ("NVIDIA H100 80GB HBM3", 3350),
        ("NVIDIA H100 PCIe", 2000),
        ("NVIDIA H100 NVL", 3900),
        ("NVIDIA H200", 4800),
        ("NVIDIA A100-SXM4-40GB", 1555),
        ("NVIDIA A100-SXM4-80GB", 2039),
        ("NVIDIA A100-PCIE-40GB", 1555),
        ("NVIDIA A100 80GB PCIe", 1935),
        ("NVIDIA GH200 480GB", 4000),
        ("Tesla V100S-PCIE-32GB", 1134),
        ("Tesla T4", 320),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 672),
        ("NVIDIA GeForce RTX 3060 Ti", 448),
        ("NVIDIA GeForce RTX 4060 Ti", 288),
        ("  nvidia geforce RTX 3090\n", 936),
    ],
)
def test_the_drivers_name_leads_to_the_board(name, gb_s):
    assert peaks(name).bandwidth == gb_s * 1e9


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 4060 Laptop GPU",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA H100 96GB HBM3",
        "NVIDIA H20",
        "NVIDIA L400",
        "AMD Instinct MI300X",
        "GeForce RTX 4090 something",
        "",
    ],
)
def test_a_board_that_is_not_known_is_not_taken_for_another(name):
    assert peaks(name) is None


def test_no_name_matches_two_models():
    names = [*DATA_SHEETS, "NVIDIA GH200 480GB", "NVIDIA A100 80GB PCIe", "NVIDIA H100"]
    for name in names:
        model = datasheets.find(name)
        others = [each for each in datasheets.MODELS if each is not model]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(datasheets, "MODELS", tuple(others))
            assert datasheets.find(name) is None


# --- floors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moved", "computed", "dtype", "seconds"),
    [
        # What was measured on an H100: the fastest of each kind is possible.
        (2 * 8192**2 * 4, 0, "float32", 181.6e-6),
        (2 * 8192**2 * 2, 0, "bfloat16", 93.1e-6),
        (3 * 4096**2 * 2, 2 * 4096**3, "float16", 2 * 4096**3 / 763e12),
        (3 * 4096**2 * 2, 2 * 4096**3, "bfloat16", 2 * 4096**3 / 792e12),
        (3 * 4096**2 * 4, 2 * 4096**3, "tf32", 2 * 4096**3 / 401e12),
        (3 * 4096**2 * 4, 2 * 4096**3, "float32", 2 * 4096**3 / 52e12),
    ],
)
def test_what_was_measured_is_above_its_floor(moved, computed, dtype, seconds):
    assert floor_seconds(H100, moved, computed, dtype) < seconds


def test_the_floor_is_the_larger_of_moving_and_computing():
    moving = floor_seconds(H100, 1e9, 0, "float16")
    computing = floor_seconds(H100, 0, 1e15, "float16")
    assert moving == pytest.approx(1 / 3350 / 1.03)
    assert computing == pytest.approx(1e15 / (132 * 4096 * 1.98e9))
    assert floor_seconds(H100, 1e9, 1e15, "float16") == max(moving, computing)
    assert floor_seconds(H100, 1e9, None, "int32") == moving
    assert floor_seconds(H100, 1e9, 1e15, "int32") == moving  # a rate nobody published


def test_float32_may_be_computed_by_any_units_that_keep_its_accuracy():
    """On tensor cores, from three float16 products, it is faster than on the CUDA cores."""
    assert H100.most_flops["float32"] == pytest.approx(H100.most_flops["float16"] / 3)
    assert H100.most_flops["float32"] > H100.flops["float32"]


def test_geforce_may_sum_in_float16_at_twice_the_rate():
    card = peaks("NVIDIA GeForce RTX 4090")
    assert card.most_flops["float16"] > 2 * card.flops["float16"]


@pytest.mark.parametrize("name", DATA_SHEETS)
def test_no_limit_is_below_what_is_published(name):
    found = peaks(name)
    assert found.most_bandwidth > found.bandwidth
    assert all(found.most_flops[dtype] >= rate for dtype, rate in found.flops.items())


# The highest clocks NVML shows: SM and memory in MHz, and the width of the memory bus.
@pytest.mark.parametrize(
    ("name", "memory_mhz", "bits"),
    [("NVIDIA H100 80GB HBM3", 2619, 5120), ("NVIDIA H200", 3201, 6144)],
)
def test_published_bandwidth_is_rounded_and_the_floor_allows_for_it(name, memory_mhz, bits):
    real = 2 * memory_mhz * 1e6 * bits / 8
    assert peaks(name).most_bandwidth >= real
    tighter = peaks(name).at_clocks(memory_hz=memory_mhz * 1e6, bus_bits=bits)
    assert tighter.most_bandwidth == pytest.approx(real)


def test_the_boards_own_clocks_replace_the_margin():
    card = peaks("NVIDIA GeForce RTX 4090")
    known = card.at_clocks(sm_hz=3105e6)
    assert known.most_flops["float16"] == 128 * 1024 * 3105e6
    assert known.most_flops["float16"] < card.most_flops["float16"]
    assert known.flops == card.flops
    assert card.at_clocks() == card


def test_an_unknown_gpu_is_worked_out_from_its_properties():
    known = peaks("NVIDIA H100 80GB HBM3")
    found = peaks_from_properties(132, 1.98e9, 2.619e9, 5120, (9, 0), "NVIDIA H100 something")
    assert found.bandwidth == pytest.approx(known.bandwidth, rel=0.01)
    assert found.flops["float32"] == pytest.approx(known.flops["float32"])
    assert found.flops["bfloat16"] == 132 * 4096 * 1.98e9
    assert found.source.startswith("worked out from 132 SMs at 1980 MHz")
    assert "compute capability 9.0" in found.source


def test_a_capability_from_the_future_has_no_rates_and_no_floor_of_computing():
    found = peaks_from_properties(100, 2e9, 2e9, 256, (99, 0))
    assert found.flops == {}
    assert floor_seconds(found, 1000, 1e18, "float16") == 1000 / found.most_bandwidth
    assert found.at_clocks(sm_hz=3e9).most_flops == {}


@pytest.mark.parametrize("index", range(4))
def test_a_property_of_zero_is_refused_by_name(index):
    given = [100, 2e9, 2e9, 256]
    given[index] = 0
    with pytest.raises(RooflineError, match="above 0, got 0"):
        peaks_from_properties(*given, (9, 0))


# --- places ------------------------------------------------------------------------------------


def test_a_row_kernel_is_bound_by_memory():
    placed = place(2 * 8192**2 * 2, None, "bfloat16", 93.1e-6, H100.roofs())
    assert (placed.bound, placed.intensity, placed.ridge) == ("memory", 0.0, None)
    assert placed.reached == pytest.approx(2883e9, rel=0.001)
    assert placed.fraction == pytest.approx(0.86, abs=0.005)


def test_a_matrix_product_is_bound_by_computing():
    placed = place(3 * 4096**2 * 2, 2 * 4096**3, "bfloat16", 2 * 4096**3 / 792e12, H100.roofs())
    assert placed.bound == "compute"
    assert placed.intensity == pytest.approx(4096 / 3)
    assert placed.ridge == pytest.approx(295, abs=1)
    assert placed.fraction == pytest.approx(0.80, abs=0.005)


def test_a_matrix_product_with_few_rows_is_bound_by_memory():
    moved = 2 * (16 * 8192 + 8192**2 + 16 * 8192)
    placed = place(moved, 2 * 16 * 8192**2, "bfloat16", 60e-6, H100.roofs())
    assert placed.bound == "memory"
    assert 0 < placed.intensity < placed.ridge
    assert placed.roof == H100.bandwidth


def test_a_measured_roof_can_be_passed():
    roofs = Roofs(2.9e12, {}, is_measured=True)
    assert place(2.9e8, 0, "float32", 0.95e-4, roofs).fraction == pytest.approx(1.053, abs=1e-3)


def test_without_the_roof_it_needs_a_kernel_has_no_place():
    assert place(1e8, 1e12, "float64", 1e-3, H100.roofs()) is None
    assert place(0, None, "float32", 1e-3, H100.roofs()) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(seconds):
    with pytest.raises(RooflineError, match="expected a time above 0"):
        place(1e8, None, "float32", seconds, H100.roofs())


def advised(bound, fraction, dtype="float16", attainable=1.0) -> str:
    return advice(Place(bound, dtype, 0.5, 295.0, 100.0, 100.0 * fraction, attainable))


@pytest.mark.parametrize(
    ("bound", "fraction", "dtype", "said"),
    [
        ("memory", 1.04, "float32", "only fewer bytes"),
        ("memory", 0.85, "float32", "bytes in flight"),
        ("memory", 0.60, "float32", "count the loads per input"),
        ("memory", 0.20, "float32", "neighbouring"),
        ("memory", 0.01, "float32", "every SM"),
        ("compute", 0.99, "float16", "vendor's library"),
        ("compute", 0.80, "bfloat16", "while this one is multiplied"),
        ("compute", 0.50, "float16", "larger tiles"),
        ("compute", 0.30, "bfloat16", "tl.dot"),
        ("compute", 0.80, "float32", "into registers"),
        ("compute", 0.30, "float32", "8 by 8"),
        ("compute", 0.10, "float32", "shared memory"),
    ],
)
def test_the_advice_fits_the_bound_and_how_far_it_is(bound, fraction, dtype, said):
    assert said in advised(bound, fraction, dtype)


def test_a_data_sheet_promises_more_than_anything_reaches_and_advice_knows_it():
    """77 % of the published matrix peak is all but the vendor's own; of a measured one it isn't."""
    assert advised("compute", 0.78, attainable=0.80) != advised("compute", 0.78)
    assert "vendor" in advised("compute", 0.78, attainable=0.80)


@pytest.mark.parametrize(
    ("useful", "reads", "fraction", "said"),
    [
        # A thread per element: nothing is wasted, and too little is on its way.
        ({"load": 32.0, "store": 32.0}, {"x": 1.0}, 0.58, "keep more bytes in flight"),
        ({"load": 32.0, "store": 32.0}, {"x": 1.0}, 0.05, "every SM"),
        ({"load": 32.0, "store": 4.0}, {"x": 3.0}, 0.58, "its stores use 4 of a sector's 32 bytes"),
        ({"load": 32.0, "store": 32.0}, {"x": 3.0, "y": 1}, 0.58, "those of x are read 3 times"),
        ({"load": 32.0, "store": 4.0}, {"x": 3.0}, 0.98, "only fewer bytes"),
        ({"load": 32.0}, {"b": 4096.0}, 0.58, "those of b are read 4096 times"),
        ({"load": 32.0}, {"x": 1.5}, 0.58, "those of x are read 1.5 times"),
        ({}, {}, 0.58, "keep more bytes in flight"),
    ],
)
def test_advice_follows_what_was_counted(useful, reads, fraction, said):
    place = Place("memory", "float32", 0.5, 295.0, 100.0, 100.0 * fraction, 1.0)
    assert said in advice(place, Counted(useful, reads))


def test_counted_accesses_dont_advise_what_computing_bounds():
    place = Place("compute", "float32", 400.0, 295.0, 100.0, 30.0, 1.0)
    assert advice(place, Counted({"store": 4.0}, {"x": 3.0})) == advice(place)


def test_advice_is_one_clause():
    for bound in ("memory", "compute"):
        for dtype in ("float16", "float32"):
            for percent in range(0, 120, 2):
                text = advised(bound, percent / 100, dtype)
                assert text[0].islower()
                assert "\n" not in text
                assert not text.endswith(".")
