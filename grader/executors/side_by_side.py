"""Runs calls of several runners side by side, in threads: most of a call waits for processes.

A runner stands in one queue (Runner.queue). Runners of one queue may share processes, so that they
run one after the other; those of different queues share none.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import torch

QUEUES = 2 if len(os.sched_getaffinity(0)) > 1 else 1
Job = Callable[[], None]


def run(jobs: Iterable[tuple[int, Job]]) -> None:
    """Run jobs, each with its queue, and wait for all; those of one queue run in order.

    After a job has raised, or after Ctrl-C, no further job begins; the exception is raised here.
    """
    by_queue: defaultdict[int, list[Job]] = defaultdict(list)
    for queue, job in jobs:
        by_queue[queue].append(job)
    if len(by_queue) < 2:
        for job in (each for queue in by_queue.values() for each in queue):
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
    with ThreadPoolExecutor(
        len(by_queue), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        try:
            for done in [pool.submit(work, own) for own in by_queue.values()]:
                done.result()
        finally:
            is_over = True
