"""What `grader profile` reads from a trace and shows of it; and that a program leaves one."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from grader.instruments.profile import page, read, recording, sentences, tables, terminal, tools
from grader.instruments.profile.read import Place, Profile
from grader.instruments.profile.recording import Program
from grader.mistakes import Mistake
from tests.grader.instruments.profile.traces import TRACE
from tests.support import warm_python, work

PROGRAM = """\
import torch

def work():
    x = torch.ones(64)
    y = x * 2
    return y.sum().item()

if __name__ == "__main__":
    print(work())
"""


@pytest.fixture(scope="module")
def profile() -> Profile:
    return read.from_trace(TRACE)


def test_kernels_have_the_line_that_launched_them(profile: Profile):
    assert [(each.name, str(each.place)) for each in profile.kernels] == [
        ("void mul<float>(float)", "a.py:1"),
        ("add", "a.py:3"),
        ("add", "a.py:3"),
    ]


def test_what_is_nested_deeply_is_compared_soon(profile: Profile):
    """Comparing what is around each span with all that is around that takes 2**60 steps."""
    named = next(each for each in TRACE["traceEvents"] if each.get("cat") == "cpu_op")
    inner = [{**named, "ts": named["ts"] + 0.01 * k, "dur": 1 - 0.02 * k} for k in range(1, 40)]
    deep = {**TRACE, "traceEvents": [*TRACE["traceEvents"], *inner]}
    with work.ending():
        assert read.from_trace(deep) == read.from_trace(deep) != profile
    assert max(len(each.parents) for each in read.from_trace(deep).host) >= len(inner)


def test_a_wait_is_named_as_it_is_written_with_its_line(profile: Profile):
    (wait,) = profile.waits
    assert (wait.name, wait.place, wait.duration) == ("`.item()`", Place("a.py", 2), 40)


def test_gaps_are_the_hosts_waiting_or_its_lateness(profile: Profile):
    after_wait, late = profile.gaps
    assert (after_wait.start, after_wait.duration) == (77, 68)
    assert "waited in `.item()`" in after_wait.cause and after_wait.place == Place("a.py", 2)
    assert (late.start, late.duration) == (185, 77)
    assert late.cause.startswith("the host was late") and late.place == Place("a.py", 3)
    assert profile.busy == 50 + 2 + 40 + 10


def test_torchs_table_separates_what_is_inside_from_what_is_its_own(profile: Profile):
    rows = {row.name: row for row in tables.operators(profile)}
    item = rows["aten::item"]
    assert (item.cpu_total, item.self_cpu, item.cuda_total, item.self_cuda) == (80, 2, 2, 0)
    add = rows["aten::add"]
    assert (add.calls, add.cpu_total, add.self_cpu, add.cuda_total) == (2, 40, 28, 50)


def test_stacks_add_up(profile: Profile):
    root = tables.stacks(profile)
    assert root.time == 15 + 90 + 20 + 20
    assert root.children["Tensor.item"].children["aten::item"].time == 80


@pytest.mark.parametrize("columns", [80, 50])
def test_the_terminals_view_fits_and_has_every_fact(profile: Profile, columns: int):
    out = io.StringIO()
    console = Console(file=out, width=columns)
    terminal.show(profile, console)
    terminal.show_tool(tools.ToolReport("nsys", problem="it made no report"), console)
    terminal.explain(console)
    text = out.getvalue()
    assert all(len(line) <= columns for line in text.splitlines())
    joined = " ".join(text.split())
    assert "a.py:2 `.item()` waits here for the device, once, 40 us in all." in joined
    assert "nsys: it made no report" in joined
    for name in tables.COLUMNS:
        assert name in joined


def test_the_page_is_one_file_and_what_it_shows_is_text():
    trace = json.loads(json.dumps(TRACE).replace("void mul", "<script>evil"))
    part = page.Part(read.from_trace(trace))
    text = page.render([part], [sentences.NO_GRADE])
    assert not re.search(r"<script|<link|<img|src=|url\(http", text)
    assert text.count("<svg ") == 2 and "gap 77 µs" in text and "&lt;script&gt;evil" in text
    assert "`.item()` waits for 40 µs (a.py:2)" in text


def test_a_file_that_is_no_trace_is_one_line(tmp_path: Path):
    (tmp_path / "a.json").write_text('{"traceEvents": []}')
    with pytest.raises(Mistake, match="expected a trace"):
        read.read(tmp_path / "a.json")


@pytest.mark.parametrize("function", ["", ":work"])
def test_a_program_runs_as_python_runs_it_and_leaves_its_lines(
    tmp_path: Path, function: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "try_it.py").write_text(PROGRAM)
    program = Program(f"{tmp_path}/try_it.py{function}")
    out = tmp_path / "trace.json"
    python, *words = program.command(out)
    assert python == sys.executable
    done = warm_python.run(words)
    assert (done.returncode, done.stdout) == (0, "" if function else "128.0\n"), done.stderr
    profile = read.read(out)
    items = [each for each in profile.host if each.name == "aten::item"]
    assert len(items) == (3 if function else 1)
    assert {str(each.place) for each in items} == {"try_it.py:6"}
    assert profile.calls == len(items)


def test_tools_are_run_on_the_program_as_it_would_be_typed():
    assert Program("try_it.py").command()[1:] == ["try_it.py"]
    assert "--out" not in Program("try_it.py:work").command()


def test_ncus_metrics_are_read_by_launch():
    text = (
        "==PROF== Connected\n"
        '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
        '"0","mul","gpu__time_duration.sum","us","25.1"\n'
        '"0","mul","launch__registers_per_thread","register/thread","32"\n'
        '"1","add","gpu__time_duration.sum","us","7.0"\n'
        '"2","add","gpu__time_duration.sum","us","7.0"\n'
    )
    first, second, third = tools.read_ncu(text)
    assert first.values["launch__registers_per_thread"] == "32 register/thread"
    assert (second.kernel, second.values) == ("add", {"gpu__time_duration.sum": "7.0 us"})
    listed = tables.by_kernel([first, second, third], "gpu__time_duration.sum")
    assert listed == [("mul", "25.1 us"), ("add", "7.0 us"), ("add", "7.0 us")]


@pytest.mark.parametrize(("run", "name"), [(tools.ncu, "ncu"), (tools.nsys, "nsys")])
def test_a_tool_that_is_missing_says_so_in_a_line(
    run, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    report = run(["python", "a.py"], False) if name == "ncu" else run(["python"], tmp_path / "x")
    assert report.tool == name and report.problem.startswith("it isn't installed")


@pytest.mark.gpu
def test_on_a_gpu_manual_gelu_has_many_kernels_fused_one_and_item_waits(tmp_path: Path):
    from grader.instruments.profile import samples

    profiles = {
        name: recording.record(Program(f"{samples.PROGRAM}:{name}"), tmp_path / f"{name}.json")
        for name in samples.FUNCTIONS
    }
    assert len(profiles["manual"].kernels) > 5 * profiles["manual"].calls
    assert len(profiles["fused"].kernels) == profiles["fused"].calls
    assert not profiles["fused"].waits
    line = 1 + samples.PROGRAM.read_text().splitlines().index(
        "    largest = inner.abs().max().item()  # the host waits here until the GPU is done"
    )
    waits = {(each.name, str(each.place)) for each in profiles["waiting"].waits}
    assert waits == {("`.item()`", f"gelu.py:{line}")}
