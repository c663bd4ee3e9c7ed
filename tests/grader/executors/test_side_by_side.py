"""Calls of several runners side by side."""

import threading

import pytest
import torch

from grader.executors import side_by_side


def test_jobs_of_different_queues_run_side_by_side_and_those_of_one_in_order():
    meeting = threading.Barrier(2)
    done = []

    def job(name):
        meeting.wait(timeout=60)  # for the other queue's
        done.append((name, torch.get_num_threads()))

    side_by_side.run(
        (queue, lambda name=f"{queue}{turn}": job(name)) for turn in "ab" for queue in (0, 1)
    )
    assert {threads for _, threads in done} == {1}
    names = [name for name, _ in done]
    assert sorted(names) == ["0a", "0b", "1a", "1b"]
    assert names.index("0a") < names.index("0b") and names.index("1a") < names.index("1b")


def test_one_queue_takes_no_thread():
    ran = []
    side_by_side.run((3, lambda: ran.append(threading.current_thread())) for _ in range(2))
    assert ran == [threading.main_thread()] * 2


def test_after_an_error_no_other_job_is_begun():
    begun, failed, ran = threading.Event(), threading.Event(), []

    def fail():
        begun.wait(timeout=60)
        failed.set()
        raise KeyError("lost")

    def wait():
        begun.set()
        failed.wait(timeout=60)
        ran.append("begun before")

    jobs = [(0, fail), (0, lambda: ran.append("behind it")), (1, wait)]
    with pytest.raises(KeyError, match="lost"):
        side_by_side.run(jobs)
    assert ran == ["begun before"]
