"""Runs calls of several runners side by side, in threads: most of a call waits for processes.

A runner belongs to one lane (Runner.lane). Runners of one lane may share processes, so that they
run one after the other; those of different lanes share none.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import torch

COUNT = 2 if len(os.sched_getaffinity(0)) > 1 else 1
Job = Callable[[], None]


def run(jobs: Iterable[tuple[int, Job]]) -> None:
    """Run jobs with their lanes, those of one lane in order, and wait for all.

    Once one has raised, and on Ctrl-C, no other is begun; what was raised is raised again.
    """
    by_lane: defaultdict[int, list[Job]] = defaultdict(list)
    for lane, job in jobs:
        by_lane[lane].append(job)
    if len(by_lane) < 2:
        for job in (each for lane in by_lane.values() for each in lane):
            job()
        return
    is_over = False

    def work(own: list[Job]) -> None:
        nonlocal is_over
        for job in own:
            if is_over:
                return
            try:
                job()
            except BaseException:
                is_over = True
                raise

    # The number of threads for one tensor's arithmetic is each thread's own.
    with ThreadPoolExecutor(len(by_lane), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for done in [pool.submit(work, own) for own in by_lane.values()]:
                done.result()
        finally:
            is_over = True
