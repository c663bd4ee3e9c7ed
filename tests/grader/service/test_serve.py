"""The server as a program, end to end: neighbours, ends and the public functions."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import warpgrade
from benchmarks.serve import TRITON, WRONG, is_right, requests
from tests.support import warm_python

ROOT = Path(__file__).parents[3]
SERVE = [sys.executable, "-m", "grader", "serve", "--jsonl", "--jobs", "1"]
QUICK = {"effort": "quick", "timed": False, "limit_s": 20}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("of temporary files")


@pytest.fixture(scope="module")
def answers(folder) -> dict[object, dict]:
    right, hang = TRITON, "while True:\n    pass\n" + TRITON
    lines = [
        json.dumps(
            {"schema": 1, "id": name, "exercise": "silu/triton", "source": s, **QUICK, **more}
        )
        for name, s, more in (
            ("right", right, {"seed": 7}),
            ("hang", hang, {"limit_s": 1}),
            ("wrong", WRONG["silu/triton"], {}),
            ("again", right, {"seed": 7}),
            ("unknown", right, {"exercise": "nope"}),
        )
    ]
    lines.insert(1, "{nonsense")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        done = warm_python.run(SERVE[1:], ROOT, input="\n".join(lines))
    assert done.returncode == 0, done.stderr
    return {each["id"]: each for each in map(json.loads, done.stdout.splitlines())}


def test_every_line_is_answered_by_its_id(answers):
    assert set(answers) == {"right", "hang", "wrong", "again", "unknown", None}
    assert answers[None]["error"].startswith("line 2: ")
    assert answers["unknown"]["outcome"] == "refused"


def test_a_hang_ends_at_its_limit_and_its_neighbours_are_graded(answers):
    assert answers["hang"]["outcome"] == "time_limit"
    assert answers["right"]["result"]["status"] == answers["again"]["result"]["status"] == "passed"
    assert answers["wrong"]["result"]["status"] == "wrong_values"


def test_no_request_leaves_a_folder(answers, folder):
    assert answers and not [*folder.iterdir()]


def test_a_verdict_is_made_anew_and_the_same(answers):
    first, again = (answers[name]["result"] for name in ("right", "again"))
    assert first["seconds"] > 0.05 and again["seconds"] > 0.05
    assert {**first, "seconds": 0} == {**again, "seconds": 0}


def test_sigterm_answers_what_is_left_as_interrupted():
    with subprocess.Popen(
        SERVE, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        for name in ("a", "b"):
            request = {"schema": 1, "id": name, "exercise": "silu/triton", "source": TRITON}
            server.stdin.write(json.dumps({**request, **QUICK}) + "\n")
        server.stdin.write("{}\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["outcome"] == "malformed"  # all are read
        server.send_signal(signal.SIGTERM)
        left = {each["id"]: each["outcome"] for each in map(json.loads, server.stdout)}
    assert left == {"a": "interrupted", "b": "interrupted"}
    assert server.returncode == 130


def test_the_server_ends_where_nobody_reads_its_answers():
    pipe = subprocess.PIPE
    with subprocess.Popen(
        SERVE, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as server:
        assert server.stdin and server.stdout and server.stderr
        server.stdout.close()
        server.stdin.write("{}\n" * 3)
        server.stdin.flush()  # and stays open
        try:
            assert server.wait(60) == 130
        finally:
            server.kill()
        assert server.stderr.read() == ""


def test_what_is_asked_for_in_python_and_is_not_there_is_a_mistake(tmp_path):
    with pytest.raises(warpgrade.Mistake, match="expected one of silu/triton, silu/cuda, got"):
        warpgrade.check(TRITON, "silu")
    with pytest.raises(warpgrade.Mistake, match="expected a course's folder, with"):
        warpgrade.check(TRITON, "silu/triton", course=tmp_path)
    with pytest.raises(warpgrade.Mistake, match="effort: expected one of full, quick, got 'fast'"):
        warpgrade.check(TRITON, "silu/triton", effort="fast")


def test_one_name_is_taken_as_a_list_of_one(tmp_path):
    with pytest.raises(warpgrade.Mistake, match="silo: expected an exercise or variant of"):
        warpgrade.grade(tmp_path, only="silo")


def test_the_benchmark_tells_right_answers_from_wrong_ones():
    asked = list(requests(40, {}))
    assert {each["expected"] for each in asked} == {
        *("passed", "failed", "crash", "hang", "fork bomb", "memory hog")
    }
    passed = {"outcome": "graded", "result": {"status": "passed"}}
    failed = {"outcome": "graded", "result": {"status": "crashed"}}
    late = {"outcome": "time_limit", "result": None}
    assert is_right("passed", passed) and not is_right("passed", late)
    assert is_right("hang", late) and not is_right("hang", passed)
    assert is_right("failed", failed) and not is_right("failed", late)
