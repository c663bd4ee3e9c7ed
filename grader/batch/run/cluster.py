"""Tasks on a Dask cluster: the same function, on whatever workers a scheduler has.

Dask hands tasks out, and gives those of a lost worker to another one. A worker takes one task at a
time, so its processes are started with one thread each:

    dask worker tcp://head:8786 --nworkers 8 --nthreads 1
    dask worker tcp://head:8786 --nworkers 1 --nthreads 1 --resources GPU=1

Where there are workers with the resource GPU, the class is graded on their GPUs, and by them alone.
The extra [cluster] brings Dask.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from grader.batch.run.run import Machines, device_here
from grader.batch.tasks import Graded, HandinTask, grade_in_pool
from grader.mistakes import Mistake
from grader.spec.course_file import CPU

GPU = "GPU"  # the resource
CONNECT_SECONDS = 20
RETRIES = 2
AHEAD = 1.25  # tasks handed over per worker: none waits for this process


class OnCluster:
    """A cluster as an executor. Workers may come and go."""

    def __init__(
        self,
        client: Any,
        function: Callable[[HandinTask], Graded],
        resources: dict[str, float],
    ) -> None:
        from distributed.scheduler import KilledWorker

        self.lost: tuple[type[BaseException], ...] = (KilledWorker,)
        self._client = client
        self._function = function
        self._resources = resources
        self._executor = client.get_executor(
            pure=False, retries=RETRIES, resources=self._resources or None
        )

    @property
    def width(self) -> int:
        """Tasks to have handed over at a time."""
        return max(1, round(AHEAD * len(_workers(self._client, self._resources))))

    def submit(self, work: HandinTask) -> Future[Graded]:
        """Have a worker do the task."""
        future: Future[Graded] = self._executor.submit(self._function, work)
        return future


@contextmanager
def at(address: str) -> Iterator[Machines]:
    """The cluster of a scheduler, such as tcp://head:8786.

    Raises Mistake where Dask isn't installed, where nobody answers, and where the workers can't
    do the work.
    """
    if importlib.util.find_spec("distributed") is None:
        raise Mistake("--scheduler: expected Dask: pip install 'warpgrade[cluster]'")
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise Mistake(
            f"--scheduler {address}: expected a Dask scheduler, nobody answers there "
            f"({type(error).__name__})"
        ) from None
    with client:
        yield machines_of(client)


def machines_of(client: Any, function: Callable[[HandinTask], Graded] = grade_in_pool) -> Machines:
    """What a cluster's workers are. Raises Mistake where they can't do the work."""
    everyone = _workers(client, {})
    if not everyone:
        raise Mistake("--scheduler: it has no workers; start some, as docs/batch.md says")
    if any(worker["nthreads"] != 1 for worker in everyone.values()):
        raise Mistake("--scheduler: expected workers of one thread each: --nthreads 1")
    resources = {GPU: 1.0} if _workers(client, {GPU: 1.0}) else {}
    chosen = list(_workers(client, resources))
    devices = client.run(device_here, workers=chosen) if resources else {"": CPU}
    kinds = sorted(set(devices.values()))
    if len(kinds) > 1:
        raise Mistake(
            f"--scheduler: expected one kind of GPU, the workers have {', '.join(kinds)}: a "
            "class is graded on one"
        )
    executor = OnCluster(client, function, resources)
    return Machines(kinds[0], executor, executor if resources else None)


def _workers(client: Any, resources: dict[str, float]) -> dict[str, Any]:
    """The workers that have these resources, by address."""
    everyone = client.scheduler_info(n_workers=-1)["workers"]
    return {
        address: worker
        for address, worker in everyone.items()
        if all(worker.get("resources", {}).get(name, 0) >= n for name, n in resources.items())
    }
