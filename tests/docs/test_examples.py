"""The programs in docs/examples run, and the public face has what the pages use."""

import os
import sys
from pathlib import Path

import pytest

import warpgrade
from docs.examples import kernel_ci, leaderboard, rl

ROOT = Path(__file__).parents[2]
SILU = ROOT / "reference" / "silu.py"


def test_a_leaderboard_has_the_correct_kernels(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(SILU.read_text().replace("tl.exp(-x)", "tl.exp2(-x)"))
    rows = leaderboard.rank("silu/triton", [SILU, wrong])
    assert [name for name, _ in rows] == ["silu"]
    assert "silu" in leaderboard.table(rows)


def test_a_leaderboard_shows_no_name_that_a_terminal_obeys(tmp_path):
    file = tmp_path / "Zoë\x1b[2J\x1b[H\u202e\n  1 eve.py"
    file.write_text(SILU.read_text())
    [(name, _)] = leaderboard.rank("silu/triton", [file])
    assert name == "Zoë\ufffd[2J\ufffd[H\ufffd\ufffd  1 eve"


def test_a_name_on_a_leaderboard_stands_where_no_number_does(tmp_path):
    file = tmp_path / "bob           0.1 us 3 of 3.py"
    file.write_bytes(SILU.read_bytes())
    line = leaderboard.table(leaderboard.rank("silu/triton", [file]))
    assert line.endswith(f" of 3  {file.stem}")
    assert line.split()[1:3] == ["not", "timed"]


def test_a_leaderboard_follows_no_link_and_waits_for_no_pipe(tmp_path):
    linked, pipe = tmp_path / "eve.py", tmp_path / "mallory.py"
    linked.symlink_to(SILU)
    os.mkfifo(pipe)
    assert leaderboard.rank("silu/triton", [linked, pipe]) == []
    result = warpgrade.check(linked, "silu/triton")
    assert (result.status, result.score) == (warpgrade.Status.not_attempted, 0)
    assert result.reason.startswith("eve.py is a symbolic link")


def test_a_file_that_is_not_there_is_a_mistake_of_whoever_asks(tmp_path):
    with pytest.raises(warpgrade.Mistake, match=r"nobody\.py: expected a file to check: No such"):
        leaderboard.rank("silu/triton", [tmp_path / "nobody.py"])


def test_ci_names_the_broken_kernel(tmp_path, capsys):
    course = ROOT
    (tmp_path / "silu.py").write_text(SILU.read_text().replace("tl.exp(-x)", "tl.exp2(-x)"))
    assert kernel_ci.main(str(tmp_path), str(course), "silu/triton") == 1
    assert "silu/triton: wrong values" in capsys.readouterr().out


def test_an_environment_rewards_attempts_in_their_order():
    with rl.environment(jobs=1) as environment:
        rewards = environment.rewards("silu/triton", ["def silu(): ...", SILU.read_text()])
    assert rewards == [0.0, 1.0]


def test_what_is_not_decided_lowers_a_reward():
    """A kernel whose larger sizes use what isn't modelled has all points that are gradable."""
    names = {"aligned": 0.0, "degenerate": 0.5, "performance": 0.0}
    checks = [
        {"name": name, "score": gradable, "gradable": gradable, "max_score": 0.5}
        for name, gradable in names.items()
    ]
    result = {"status": "not_measured", "score": 0.5, "gradable": 0.5, "checks": checks}
    assert rl.reward({"outcome": "graded", "error": "", "result": result}) == 0.5


def test_the_public_face_is_small_and_typed():
    assert sorted(warpgrade.__all__) == [
        *("CheckResult", "CheckScore", "Failure", "GradeResult", "Mistake", "Status"),
        *("check", "grade"),
    ]
    assert (Path(sys.modules["warpgrade"].__file__ or "").parent / "py.typed").exists()
