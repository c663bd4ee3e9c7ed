"""`make bench-reference`: goals, arithmetic, checks, the table; and its way through on the CPU."""

from __future__ import annotations

import io
import json
import math
import os
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from benchmarks import reference_kernels as program
from benchmarks.kernels import checking, course, document, rounds, table, versions
from benchmarks.kernels.checking import Truth, check
from benchmarks.kernels.goals import (
    EXPERT,
    GRADED,
    PLAIN,
    VERSIONS,
    Aim,
    Case,
    Goal,
    every_case,
)
from benchmarks.kernels.judging import (
    Checked,
    Outcome,
    Spread,
    Verdict,
    geometric_means,
    misses,
    overall,
    verdict,
)
from benchmarks.kernels.kernels import KERNELS
from benchmarks.kernels.peers import PEERS, SLOW, peers_of

CASES = list(every_case())
RIGHT = Checked(1e-4, 2e-4, 1e-4)
SILU = next(case for case in CASES if case.kernel == "silu")


def outcome(case: Case, times: dict[str, float], missing: dict[str, str] | None = None) -> Outcome:
    """Each contender took so many microseconds in each of three rounds, the second 10 % longer."""
    of_rounds = {name: [took, 1.1 * took, took] for name, took in times.items()}
    checked = {name: RIGHT for name in times if name in VERSIONS}
    kernel = KERNELS[case.kernel]
    moved, flops = kernel.moved(case), kernel.flops(case)
    return Outcome(case, moved, flops, of_rounds, checked, missing or {})


# --- goals ----------------------------------------------------------------------------------------


def test_every_case_has_a_goal_and_a_label_of_its_own():
    assert all(case.aims for case in CASES)
    assert len({(case.kernel, case.label) for case in CASES}) == len(CASES)
    assert {case.kernel for case in CASES} == set(KERNELS) == set(PEERS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kernel}-{case.label}")
def test_a_goal_names_a_peer_that_is_timed_unless_it_counts_only_where_it_is(case):
    by_default = set(peers_of(case, slow=False))
    every = set(peers_of(case, slow=True))
    for aim in case.aims:
        for goal in aim.goals:
            assert goal.peer in (every if goal.if_there else by_default)
    assert not by_default & SLOW


def test_attention_asks_more_of_the_expert_and_of_long_sequences():
    asked = {
        (case.sizes[2:], version): aim.goals[0].at_least
        for case in CASES
        if case.kernel == "flash_attention"
        for version in VERSIONS
        if (aim := case.aim_of(version))
    }
    assert asked[(4096, 128), GRADED] == 0.80 and asked[(4096, 64), GRADED] == 0.97
    assert asked[(4096, 128), PLAIN] == 0.80 and asked[(4096, 64), PLAIN] == 0.97
    assert asked[(16384, 64), EXPERT] == 1.05 and asked[(2048, 64), EXPERT] == 1.00
    assert ((1024, 64), GRADED) not in asked


# --- arithmetic -----------------------------------------------------------------------------------


def test_a_ratio_is_the_median_of_pairs_and_above_1_where_the_kernel_is_faster():
    found = Outcome(
        SILU,
        1.0,
        0.0,
        {"graded": [100.0, 200.0, 100.0], "torch": [110.0, 240.0, 90.0]},
        {"graded": RIGHT},
        {},
    )
    ratio = found.ratio("graded", "torch")
    assert ratio.median == pytest.approx(1.1)
    assert ratio.p10 == pytest.approx(0.94) and ratio.p90 == pytest.approx(1.18)
    assert found.ratio("graded", "compile") is None and found.ratio("expert", "torch") is None
    with pytest.raises(ValueError, match="two values or more"):
        Spread.of([1.0])


@pytest.mark.parametrize(
    ("times", "graded"),
    [
        ({"copy": 98.0, "torch": 100.0, "compile": 101.0}, Verdict.reached),
        ({"copy": 97.9, "torch": 100.0, "compile": 101.0}, Verdict.missed),
        ({"copy": 98.0, "torch": 99.9, "compile": 101.0}, Verdict.missed),
        ({"copy": 98.0, "torch": 100.0}, Verdict.unknown),
        ({"copy": 90.0, "torch": 100.0}, Verdict.missed),
    ],
)
def test_all_goals_of_an_aim_count(times, graded):
    found = outcome(SILU, {"graded": 100.0, **times})
    assert verdict(found, GRADED, SILU.aims[0]) is graded
    assert verdict(found, EXPERT, SILU.aims[0]) is Verdict.missed


def test_a_peer_that_is_not_there_counts_only_where_it_has_to_be():
    aim = Aim((Goal("torch", 1.0), Goal("liger", 1.0, if_there=True)))
    found = outcome(SILU, {"graded": 100.0, "torch": 101.0})
    assert not misses(found, GRADED, aim)
    with_liger = outcome(SILU, {"graded": 100.0, "torch": 101.0, "liger": 90.0})
    assert [goal.peer for goal, _ in misses(with_liger, GRADED, aim)] == ["liger"]


def test_an_aim_is_reached_where_one_version_reaches_all_of_it():
    both = {"copy": 100.0, "torch": 100.0, "compile": 100.0}
    assert overall(outcome(SILU, {"graded": 105.0, "expert": 99.0, **both}), SILU.aims[0]) is (
        Verdict.reached
    )
    assert overall(outcome(SILU, {"graded": 105.0, **both}), SILU.aims[0]) is Verdict.missed


def test_the_mean_of_products_is_geometric_by_dtype_and_needs_every_case():
    of_gemm = [case for case in CASES if case.kernel == "gemm"]
    ratios = [0.5, 2.0, 1.0, 1.0, 1.0, 1.0] * 2
    found = [
        outcome(case, {"graded": 100.0, "cublas": 100.0 * ratio})
        for case, ratio in zip(of_gemm, ratios, strict=True)
    ]
    assert [each.verdict for each in table.means(found)] == [Verdict.reached] * 2
    means = geometric_means(table.MEANS[0], found)
    assert means == {
        ("graded", "bfloat16"): pytest.approx(1.0),
        ("graded", "float16"): pytest.approx(1.0),
    }
    found[0] = outcome(of_gemm[0], {"cublas": 100.0}, {"graded": "wrong"})
    assert [each.verdict for each in table.means(found)] == [Verdict.unknown, Verdict.reached]


def test_buffers_are_several_times_the_cache_and_a_stretch_is_long_enough():
    cache = 50 << 20
    assert rounds.sets_for(24 << 20, cache) == 9
    assert rounds.sets_for(512 << 20, cache) == 2
    assert rounds.calls_for(24.0) == 11
    assert rounds.calls_for(1000.0) == 1
    assert rounds.calls_for(1.0) == rounds.MOST_CALLS


@pytest.mark.parametrize(("sets", "microseconds"), [(2, 1000.0), (2, 90.0), (9, 24.0), (4, 60.0)])
def test_no_stretch_finds_what_the_one_before_it_left_in_the_cache(sets, microseconds):
    used: list[int] = []

    class Noted:
        def stretch(self, first: int, calls: int) -> float:
            used.extend((first + each) % sets for each in range(calls))
            return microseconds

    contenders = {name: Noted() for name in ("copy", "torch", "expert")}
    _, calls = rounds.time_in_rounds(contenders, rounds.Effort(rounds=5, fewest=5), 7)
    timed = used[-5 * len(contenders) * calls :]
    for at, one in enumerate(timed):
        assert one not in timed[max(0, at - sets + 1) : at]


# --- checks ---------------------------------------------------------------------------------------


def small(kernel: str, sizes: tuple[int, ...], dtype: str = "float32") -> Case:
    case = next(each for each in CASES if each.kernel == kernel)
    return replace(case, sizes=sizes, dtype=dtype)


def right(case: Case, given: dict, outputs: tuple[torch.Tensor, ...]) -> None:
    """What the oracle says, in the kernel's place."""
    wide = {k: v.double() if isinstance(v, torch.Tensor) else v for k, v in given.items()}
    found = getattr(checking.oracles(), KERNELS[case.kernel].stem)(**wide)
    for out, each in zip(outputs, checking._as_tuple(found), strict=True):
        out.copy_(each)


def not_written(outputs):
    outputs[0].view(-1)[7] = float("nan")


def one_wrong(outputs):
    outputs[0].view(-1)[7] += 0.1


def cut(outputs):
    outputs[0].copy_(outputs[0].bfloat16())


def other_bits(outputs):
    outputs[0].view(-1)[0] *= 1 + 1e-7 * torch.randint(0, 9, ()).item()


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        (not_written, "output 0 is off by nan"),
        (one_wrong, "off by"),
        (cut, "output 0 is off by"),
        (other_bits, "its bits differ between runs"),
    ],
)
def test_what_is_wrong_is_found(spoilt, said):
    torch.manual_seed(3)
    case = small("softmax", (64, 300))
    given, outputs = KERNELS["softmax"].given(case, "cpu"), KERNELS["softmax"].outputs(case, "cpu")
    truth = Truth("softmax", given)

    def call(given, outputs):
        right(case, given, outputs)
        spoilt(outputs)

    assert said in check(call, given, outputs, truth).wrong
    assert not check(lambda *pair: right(case, *pair), given, outputs, truth).wrong


@pytest.mark.parametrize(
    ("kernel", "sizes", "dtype"),
    [
        ("silu", (4, 8), "bfloat16"),
        ("rmsnorm", (4, 8), "bfloat16"),
        ("softmax", (4, 8), "float32"),
        ("transpose", (5, 8), "bfloat16"),
        ("transpose_cuda", (5, 8), "float32"),
        ("gemm", (5, 6, 7), "float16"),
        ("gemm_cuda", (5, 6, 7), "float32"),
        ("flash_attention", (1, 2, 9, 16), "bfloat16"),
    ],
)
def test_a_case_runs_from_its_inputs_to_its_row(monkeypatch, kernel, sizes, dtype):
    """Over the CPU: the entries are given arguments in their order, peers compute the same."""
    stand_in_for_a_gpu(monkeypatch)
    case = small(kernel, sizes, dtype)
    known = KERNELS[kernel]
    orders = []

    def load(case, version, built):
        def call(given, outputs):
            orders.append([type(each).__name__ for each in known.arguments(given, outputs)])
            right(case, given, outputs)

        return call

    monkeypatch.setattr(course, "load", load)
    monkeypatch.setattr(course, "is_there", lambda case, version: version == GRADED)
    found = course.outcome(case, None, {}, effort=rounds.Effort(3, 1.0, 2))
    assert not found.checked[GRADED].wrong and GRADED in found.times
    own = {"flash_attention": {"flash"}, "gemm": {"cublas"}, "gemm_cuda": {"cublas"}}
    assert own.get(kernel, {"copy", "torch", "compile"}) <= set(found.times)
    scalars = {
        "rmsnorm": ["float"],
        "transpose_cuda": ["int"] * 2,
        "gemm_cuda": ["int"] * 3,
        "flash_attention": ["float", "bool"],
    }
    assert [each for each in orders[0] if each != "Tensor"] == scalars.get(kernel, [])
    printed(table.tables([found]))
    json.dumps(table.as_dict(found))


def stand_in_for_a_gpu(monkeypatch) -> None:
    """The CPU in its place, and torch.compile that compiles nothing."""
    monkeypatch.setattr(course, "DEVICE", "cpu")
    of_device = SimpleNamespace(L2_cache_size=64)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: of_device)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(torch.compiler, "reset", lambda: None)

    class Untimed:
        def __init__(self, turn, sets):
            self.turn = turn

        def warm_up(self):
            self.turn(0)

        def stretch(self, first, calls):
            return 300.0

    monkeypatch.setattr(course, "Contender", Untimed)


def test_a_version_that_fails_is_left_out_and_said(monkeypatch):
    stand_in_for_a_gpu(monkeypatch)

    def load(case, version, built):
        def call(given, outputs):
            if version == GRADED:
                raise RuntimeError("no such instruction\nand more")
            right(case, given, outputs)
            outputs[0].view(-1)[0] += 1

        return call

    monkeypatch.setattr(course, "load", load)
    monkeypatch.setattr(course, "is_there", lambda case, version: True)
    found = course.outcome(small("silu", (4, 8)), None, {})
    assert found.missing[GRADED] == "RuntimeError: no such instruction"
    assert found.missing[EXPERT].startswith("wrong: ")
    assert not {GRADED, EXPERT} & set(found.times)
    unfit = {(small("silu", (4, 8)), version): "it had not ended" for version in VERSIONS}
    found = course.outcome(small("silu", (4, 8)), None, unfit)
    assert found.missing[GRADED] == "it had not ended"


def test_the_files_of_a_version_and_which_are_there():
    by_name = {(case.kernel, case.dtype): case for case in CASES}
    cuda = by_name["transpose_cuda", "bfloat16"]
    assert versions.source(cuda, EXPERT).parts[-3:] == ("reference", "expert", "transpose.cu")
    assert not versions.is_there(cuda, GRADED)
    assert versions.is_there(by_name["transpose_cuda", "float32"], GRADED)
    for case in CASES:
        if not KERNELS[case.kernel].is_cuda:
            assert versions.is_there(case, GRADED)
        assert versions.is_there(case, PLAIN) == (case.kernel == "flash_attention")


def test_the_plain_version_is_another_entry_of_the_experts_file(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(versions, "_entry", lambda *of: asked.append(of))
    attention = next(case for case in CASES if case.kernel == "flash_attention")
    for version in VERSIONS:
        versions.load(attention, version, tmp_path)
    assert [(file.parent.name, entry) for file, entry, _ in asked] == [
        ("reference", "flash_attention"),
        ("expert", "flash_attention_plain"),
        ("expert", "flash_attention"),
    ]


class Asked:
    """A result that is there after so many looks."""

    def __init__(self, looks: float) -> None:
        self.looks = looks

    def ready(self):
        return self.looks <= 0

    def wait(self, seconds):
        self.looks -= 1

    def get(self):
        return "what it said"


def test_what_hangs_is_given_up_and_what_was_not_begun_is_not_blamed(monkeypatch, tmp_path):
    mark = tmp_path / "begun"
    now = time.time()
    assert versions._answer(Asked(3), mark, now + 60) == "what it said"
    assert versions._answer(Asked(math.inf), mark, now - 1) == ""
    mark.touch()
    assert versions._answer(Asked(3), mark, now - 1) == "what it said"
    os.utime(mark, (now - 100, now - 100))
    assert versions._answer(Asked(math.inf), mark, now + 60) == "it had not ended after 60 s"


# --- the table ------------------------------------------------------------------------------------


def printed(tables) -> str:
    text = io.StringIO()
    console = Console(file=text, width=400, color_system=None)
    for each in tables:
        console.print(each)
    return text.getvalue()


def test_the_table_fits_100_columns_whatever_the_numbers():
    found = []
    for case in CASES:
        peers = dict.fromkeys(peers_of(case, slow=True), 2345.6)
        found.append(outcome(case, {"graded": 1234.5, "expert": 12345.6, **peers}))
    lines = printed(table.tables(found)).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 100
    assert len(lines) < 2 * len(CASES) + 30


def test_a_row_has_time_rate_ratios_and_whether_the_goal_was_reached():
    times = {"graded": 100.0, "expert": 90.0, "copy": 97.0, "torch": 120.0, "compile": 95.0}
    lines = printed(table.tables([outcome(SILU, times)])).splitlines()
    assert lines[0].split() == ["silu", "us", "GB/s", "copy", "torch", "compile", "goal"]
    expected = "8192x8192 f32 graded 100.0 5369 0.970<97-97 1.200 120-120 0.950<95-95 no"
    assert lines[1].split() == expected.split()
    assert lines[2].split()[:2] == ["expert", "90.0"] and lines[2].split()[-1] == "yes"
    none = printed(table.tables([outcome(SILU, {"copy": 97.0}, {"graded": "wrong"})]))
    assert none.splitlines()[1].split() == ["8192x8192", "f32", "-"]


def test_what_was_missed_is_said_in_words_and_counted():
    times = {"copy": 97.0, "torch": 120.0, "compile": 130.0}
    short = outcome(SILU, {"graded": 100.0, **times})
    attention = next(c for c in CASES if c.label == "4x16x4096x128 bf16")
    plain = outcome(attention, {"graded": 100.0, "cudnn": 85.0}, {"flex": "TypeError: no"})
    found = [short, plain]
    assert table.missed(found) == [
        "silu 8192x8192 f32: graded 0.970 of copy, goal 0.98",
        "flash_attention 4x16x4096x128 bf16: no version of expert was timed",
    ]
    assert str(table.tally(found)) == "1 of 3 goals of cases reached, 2 missed"
    assert table.notes(found) == [
        "flash_attention flex: TypeError: no (1: 4x16x4096x128 bf16, ...)"
    ]
    assert table.errors(found).startswith("2 of 2 results right")
    assert "50 %" in table.errors(found)


def test_all_of_it_is_left_as_json_and_text(tmp_path, capsys):
    found = [outcome(SILU, {"graded": 100.0, "copy": 98.0, "torch": 101.0, "compile": 101.0})]
    about = {
        "gpu": "NVIDIA H100 80GB HBM3",
        "packages": {"torch": "2.11.0"},
        "gpu_after": {"driver": "580", "sm_mhz": 1980},
        "troubles": ["It was too hot."],
        "seconds": 12.0,
    }
    text = program.report(found, about, Console(width=table.WIDTH))
    assert capsys.readouterr().out == text
    assert "1 of 1 goals of cases reached" in text and "It was too hot." in text
    assert "HBM3, driver 580, 1980 MHz after it; torch 2.11.0; 12 s." in " ".join(text.split())
    program.leave(tmp_path / "out", found, about, text)
    stored = json.loads((tmp_path / "out" / "kernels.json").read_text())
    [case] = stored["cases"]
    assert case["ratios"]["graded"]["torch"]["median"] == pytest.approx(1.01)
    # 2 * 8192^2 floats at the data sheet's 3.35 TB/s.
    assert case["least_microseconds"] == {"memory": pytest.approx(160.26), "compute": 0.0}
    assert case["goals"][0]["verdict"] == "yes" and case["rounds"]["graded"] == [
        100.0,
        110.0,
        100.0,
    ]
    assert (tmp_path / "out" / "kernels.txt").read_text() == text


# --- the page in docs/ ----------------------------------------------------------------------------


def test_the_page_gets_its_tables_from_what_was_measured(tmp_path):
    times = {"graded": 100.0, "copy": 97.0, "torch": 120.0, "compile": 101.0}
    about = {
        "gpu": "NVIDIA H100 80GB HBM3",
        "packages": {"torch": "2.11.0"},
        "gpu_after": {"driver": "580", "sm_mhz": 1965},
        "seconds": 12.0,
    }
    program.leave(tmp_path, [outcome(SILU, times)], about, "")
    measured = json.loads((tmp_path / "kernels.json").read_text())
    marks = "a\n<!-- measured: {} -->\nold\n<!-- end -->\nb\n"
    text = "".join(marks.format(name) for name in ("silu", "gemm", "about"))
    once = document.written(text, measured)
    assert document.written(once, measured) == once
    silu, gemm, machine, _ = once.split("<!-- end -->")
    head, _, row = silu.strip().splitlines()[2:]
    peers = "/ copy | / torch | / compile"
    assert head == f"| case | version | us | GB/s | of the floor | {peers} | goal |"
    cells = "| 8192x8192 f32 | graded | 100.0 | 5369 | 1.60 | 0.970 | 1.200 | 1.010 |"
    assert row == f"{cells} not 0.98 of copy |"
    assert gemm.endswith("-->\nold\n"), "it wasn't timed"
    assert "HBM3, driver 580, 1965 MHz after it; torch 2.11.0; 12 s." in machine
    assert "Of 1 goals of single cases 0 are reached. 1 of 1 results are right" in machine


def test_of_several_runs_the_page_has_a_kernels_last():
    def run(took: float, kernels: tuple[str, ...], seconds: float) -> document.Measured:
        about = {"gpu": "H100", "packages": {}, "gpu_after": {}, "seconds": seconds}
        cases = [next(case for case in CASES if case.kernel == each) for each in kernels]
        found = [outcome(case, {"graded": took, "torch": 100.0}) for case in cases]
        return {**about, "cases": [table.as_dict(each) for each in found]}

    marks = "<!-- measured: {} -->\nold\n<!-- end -->\n"
    text = "".join(marks.format(name) for name in ("silu", "softmax", "about"))
    runs = run(100.0, ("silu", "softmax"), 7.0), run(50.0, ("softmax",), 3.0)
    silu, softmax, machine, _ = document.written(text, *runs).split("<!-- end -->")
    assert "| 100.0 |" in silu and "| 50.0 |" in softmax
    assert "H100; ; 7 s. In another run (softmax): H100; ; 3 s. Of 2 goals" in machine
    assert "2 of 2 results" in machine


def test_the_page_has_a_place_for_every_kernel():
    named = {found[1] for found in document.PART.finditer(document.DOCUMENT.read_text())}
    assert named == {case.kernel for case in CASES} | {"about"}


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ended_by", ["seconds", "ctrl-c"])
def test_what_was_timed_is_kept_when_it_ends_early(monkeypatch, tmp_path, ended_by):
    monkeypatch.setattr(program.versions, "build", lambda cases, folder: None)
    monkeypatch.setattr(program.versions, "tried", lambda cases, folder: {})
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(program.time, "monotonic", lambda: float(next(clock)))

    def one(case, *_):
        if case is CASES[1] and ended_by == "ctrl-c":
            raise KeyboardInterrupt
        return outcome(case, {"graded": 100.0})

    monkeypatch.setattr(program, "outcome", one)
    seconds = 15.0 if ended_by == "seconds" else None
    given = SimpleNamespace(seconds=seconds, rounds=40, slow_peers=False, seed=1)
    said = Console(file=io.StringIO(), width=100)
    found = program.timed(CASES, tmp_path, given, said)
    assert [each.case for each in found] == CASES[:1]
    told = " ".join(said.file.getvalue().split())
    assert f"not timed: {CASES[1].kernel} {CASES[1].label} and what follows it" in told
    assert ("interrupted" in told) == (ended_by == "ctrl-c")


def test_cases_and_goals_are_listed_without_a_gpu(capsys):
    program.main(["--list", "--only", "gemm_cuda", "--only", "silu"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["silu", "silu", "gemm_cuda"]
    assert lines[2].endswith("graded or expert: cublas 0.90")


def test_without_a_gpu_nothing_runs_and_it_is_said(monkeypatch):
    monkeypatch.setattr(program.machine, "gpu_properties", lambda: None)
    with pytest.raises(SystemExit, match=r"Nothing ran\."):
        program.main([])


@pytest.mark.parametrize("words", [("--only", "nothing"), ("--rounds", "1"), ("--seconds", "0")])
def test_a_wrong_command_line_is_one_line(capsys, words):
    with pytest.raises(SystemExit) as ended:
        program.main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("reference_kernels.py: error: ")
