"""Groups that bound memory and processes: on real ones where there are any, else on their files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.sandbox import cgroup
from grader.sandbox.cgroup import ProcessGroup

MIB = 1 << 20


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    """A real group of 64 MiB and 20 processes."""
    reason = cgroup.why_not()
    if reason:
        pytest.skip(f"no groups here: {reason}")
    made = ProcessGroup.create(64 * MIB, 20)
    assert made is not None
    yield made
    made.close()


def inside(group: ProcessGroup, code: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the group."""
    line = group.command([sys.executable, "-I", "-c", code])
    return subprocess.run(line, capture_output=True, text=True, timeout=60)


def test_a_program_starts_inside(group):
    done = inside(group, "print(open('/proc/self/cgroup').read())")
    assert group.folder.name in done.stdout


def test_too_much_memory_ends_a_process_and_is_counted(group):
    done = inside(group, f"x = bytearray({256 * MIB})")
    assert done.returncode != 0
    assert group.times_out_of_memory() >= 1


def test_too_many_processes_are_refused(group):
    code = """
import os, signal, time
children = []
try:
    for _ in range(50):
        children.append(os.fork())
        if not children[-1]:
            time.sleep(60)
            os._exit(0)
except BlockingIOError:
    print("refused")
for child in children:
    os.kill(child, signal.SIGKILL)
"""
    assert inside(group, code).stdout == "refused\n"


def test_closing_ends_what_is_inside(group):
    process = subprocess.Popen(group.command(["sleep", "60"]))
    while group.is_empty():
        assert process.poll() is None
    group.close()
    assert process.wait(10) == -9
    assert not group.folder.exists()


# --- without a real one -------------------------------------------------------------------------


@pytest.fixture
def hierarchy(tmp_path, monkeypatch) -> Iterator[Path]:
    """Files like those of a hierarchy, in which this process is in /slice/scope."""
    scope = tmp_path / "slice" / "scope"
    scope.mkdir(parents=True)
    for folder, passed_on in (
        (tmp_path, "memory pids"),
        (scope.parent, "pids memory"),
        (scope, ""),
    ):
        (folder / "cgroup.controllers").write_text("cpu memory pids")
        (folder / "cgroup.subtree_control").write_text(passed_on)
        (folder / "cgroup.procs").write_text("")
    monkeypatch.setattr(cgroup, "_mount_point", lambda: tmp_path)
    monkeypatch.setattr(cgroup, "_own_group", lambda: "/slice/scope")
    monkeypatch.setattr(cgroup, "_takes_a_process", lambda folder: True)
    cgroup._home.cache_clear()
    cgroup.why_not.cache_clear()
    yield tmp_path
    cgroup._home.cache_clear()
    cgroup.why_not.cache_clear()


def test_the_nearest_group_that_passes_controllers_on_is_used(hierarchy):
    group = ProcessGroup.create(64 * MIB, 20)
    assert group is not None
    assert group.folder.parent == hierarchy / "slice"
    assert (group.folder / "memory.max").read_text() == str(64 * MIB)
    assert (group.folder / "pids.max").read_text() == "20"
    assert cgroup.why_not() == ""


def test_a_group_that_takes_no_process_is_not_used(hierarchy, monkeypatch):
    monkeypatch.setattr(cgroup, "_takes_a_process", lambda folder: False)
    assert ProcessGroup.create(64 * MIB, 20) is None
    assert cgroup.why_not() == "no cgroup v2 that may be written to"
    assert sorted(path.name for path in (hierarchy / "slice").iterdir() if path.is_dir()) == [
        "scope"
    ]


def test_without_cgroup_v2_there_is_no_group_and_a_reason(hierarchy, monkeypatch):
    monkeypatch.setattr(cgroup, "_mount_point", lambda: None)
    assert ProcessGroup.create(64 * MIB, 20) is None
    assert cgroup.why_not() == "no cgroup v2"


def test_events_are_read_and_nonsense_counts_as_none(tmp_path):
    group = ProcessGroup(tmp_path)
    assert group.times_out_of_memory() == 0
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\n")
    assert group.times_out_of_memory() == 3
    (tmp_path / "memory.events").write_text("oom_kill many\n")
    assert group.times_out_of_memory() == 0


def test_a_program_is_in_the_group_before_it_runs(tmp_path):
    """Its own number is what the shell writes: 0 stands for the writer."""
    (tmp_path / "cgroup.procs").write_text("")
    line = ProcessGroup(tmp_path).command(["cat", str(tmp_path / "cgroup.procs")])
    assert subprocess.run(line, capture_output=True, text=True).stdout == "0\n"


def test_a_program_in_a_group_has_the_environment_that_it_is_given(tmp_path):
    line = ProcessGroup(tmp_path).command(["env"])
    done = subprocess.run(line, capture_output=True, text=True, env={"GIVEN": "1"})
    assert done.stdout == "GIVEN=1\n"


def test_a_program_does_not_start_outside_its_group(tmp_path):
    line = ProcessGroup(tmp_path / "gone").command(["echo", "started"])
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode != 0
    assert "started" not in done.stdout


def test_a_hierarchy_without_controllers_does_not_count(monkeypatch, tmp_path):
    (tmp_path / "cgroup.controllers").write_text("")
    assert not cgroup._has_controllers(tmp_path, "cgroup.controllers")
    (tmp_path / "cgroup.controllers").write_text("cpu pids memory io")
    assert cgroup._has_controllers(tmp_path, "cgroup.controllers")
    assert not cgroup._has_controllers(tmp_path / f"gone{os.getpid()}", "cgroup.controllers")
