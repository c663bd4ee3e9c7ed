"""Reading a submission: texts that would keep a parser busy, and files that are none."""

from __future__ import annotations

import itertools
import os
import time

import psutil
import pytest

from grader.grading import source_reading, source_rules, submitted
from grader.mistakes import Mistake
from grader.spec import load_all
from grader.spec.task import Task

SILU = load_all()["silu"]
MEGABYTE = 1 << 20
INVOLVED = {
    "comparisons": "x<" * (MEGABYTE // 2),
    "sums": "x+" * (MEGABYTE // 2) + "x",
    "blocks": "if(x){" * (MEGABYTE // 6),
    "headers": "#if " + "__has_include(<a>)||" * (MEGABYTE // 20) + "0\n#endif\n",
    "brackets": "(" * MEGABYTE,
}


@pytest.mark.parametrize("text", INVOLVED.values(), ids=INVOLVED)
@pytest.mark.parametrize(("variant", "language"), [("triton", "triton"), ("cuda", "cuda")])
def test_an_involved_text_gets_an_answer(text, variant, language) -> None:
    """The bound is of the reading process; a test that is late by a busy machine fails nothing."""
    started = time.monotonic()
    assert isinstance(source_reading.is_untouched(text.encode(), "silu", language), str)
    found = source_rules.violations_of(Task(SILU, SILU.variants[variant]), text.encode())
    assert not found or language == "cuda"
    assert all(failure.what for failure in found)
    assert time.monotonic() - started < 20 * source_reading.SECONDS


def test_reading_that_does_not_end_is_ended() -> None:
    with pytest.raises(source_reading.TooInvolved, match="longer than"):
        source_reading.limited(lambda: next(i for i in itertools.count() if i < 0))


def test_reading_on_a_busy_machine_takes_what_it_takes(monkeypatch) -> None:
    """Time that others have the processor is nothing that a text can help."""
    monkeypatch.setattr(source_reading, "SECONDS", 0.2)
    assert source_reading.limited(lambda: time.sleep(0.6)) is None


def test_a_process_that_hangs_is_made_again_and_nobody_is_blamed(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(source_reading, "HUNG_SECONDS", 0.2)
    tries = tmp_path / "tries"

    def hangs_once() -> int:
        with tries.open("a") as file:
            file.write(".")
        if tries.stat().st_size == 1:
            time.sleep(3600)
        return 7

    assert source_reading.limited(hangs_once) == 7
    with pytest.raises(Mistake, match="hung 3 times: the machine's fault"):
        source_reading.limited(time.sleep, 3600)


def test_reading_that_takes_all_memory_is_ended() -> None:
    with pytest.raises(source_reading.TooInvolved, match="memory"):
        source_reading.limited(lambda: len(bytearray(8 << 30)))


def test_a_reading_that_dies_leaves_no_process() -> None:
    before = _children()  # other tests of this process may have left theirs
    with pytest.raises(source_reading.TooInvolved):
        source_reading.limited(os.abort)
    assert _children() <= before


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def test_a_result_comes_back_whole() -> None:
    assert source_reading.limited(lambda: ["a" * 1_000_000, 1]) == ["a" * 1_000_000, 1]


def test_a_link_a_fifo_and_a_device_are_named(tmp_path) -> None:
    (tmp_path / "there.py").write_text("solution")
    (tmp_path / "linked.py").symlink_to(tmp_path / "there.py")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "device.py").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "folder.py").mkdir()
    assert submitted.contents(tmp_path / "there.py") == b"solution"
    assert submitted.contents(tmp_path / "missing.py") == "there is no missing.py"
    for name in ("linked.py", "dangling.py", "device.py"):
        assert "symbolic link" in submitted.contents(tmp_path / name)
    for name in ("fifo.py", "folder.py"):
        assert "is no regular file" in submitted.contents(tmp_path / name)
    assert submitted.modules(tmp_path) == {"there.py": b"solution"}
