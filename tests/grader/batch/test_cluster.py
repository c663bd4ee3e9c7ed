"""On a Dask cluster a class comes out as it does here, also where a worker is lost midway."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from grader.batch.run import cluster
from grader.batch.run.run import Machines
from grader.batch.tasks import Graded, HandinTask
from grader.mistakes import Mistake
from tests.support import standin
from tests.support.small_exercise import GRID_ROUNDS_DOWN, ROOT, submission, write_spec
from tests.support.standin import InThisProcess, grade_class, make_class, quick, two_variants

distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")

HANDINS = 30


@pytest.fixture(scope="module")
def workers():
    """A cluster of worker processes of this machine, with a client."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None
        ) as started,
        distributed.Client(started, set_as_default=False) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client


def slowly(task: HandinTask) -> Graded:
    """As `quick`, long enough for a worker to be killed in the middle of it."""
    time.sleep(0.05)
    return quick(task)


def test_a_real_submission_is_graded_by_a_worker(workers, tmp_path):
    specs = write_spec(tmp_path / "specs")
    submission(tmp_path / "in" / "bob", GRID_ROUNDS_DOWN)
    there = cluster.machines_of(workers)
    _, book = grade_class(
        tmp_path / "in", tmp_path / "out", specs, machines=there, require_sandbox=False
    )
    [bob] = book.entries
    assert bob.counted.evidence.variants[0].parts[0].status.value == "not_written"


def test_a_class_comes_out_as_it_does_here_though_a_worker_is_killed(workers, tmp_path):
    source, specs = make_class(tmp_path / "in", HANDINS), two_variants(tmp_path / "specs")
    here = Machines("cpu", InThisProcess(quick))
    _, expected = grade_class(source, tmp_path / "here", specs, machines=here)
    there = cluster.machines_of(workers, slowly)
    assert there.device == "cpu"
    assert there.measure is None
    pids = list(workers.run(os.getpid).values())
    killed = []

    class Killer:
        """Kills a worker when some hand-ins are done."""

        def finished(self, finished, seen, done: int) -> None:
            if done >= 6 and not killed:
                os.kill(pids[0], signal.SIGKILL)
                killed.append(done)

        def __getattr__(self, name):
            return lambda *args: None

    outcome, book = grade_class(source, tmp_path / "there", specs, machines=there, watcher=Killer())
    assert killed
    assert killed[0] < HANDINS
    assert outcome.complete
    assert outcome.failed == []
    assert outcome.graded == 2 * HANDINS
    assert [entry.score for entry in book.entries] == [entry.score for entry in expected.entries]
    assert [entry.counted.evidence for entry in book.entries] == [
        entry.counted.evidence for entry in expected.entries
    ]


def test_a_task_that_kills_every_worker_is_given_up(workers, tmp_path, monkeypatch):
    source, specs = make_class(tmp_path / "in", 2), two_variants(tmp_path / "specs")
    (source / "student001" / "silu.py").write_text("x = 'deadly'\n")
    workers.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    workers.wait_for_workers(2, timeout=60)
    there = cluster.machines_of(workers, standin.deadly)
    outcome, book = grade_class(source, tmp_path / "there", specs, machines=there)
    assert outcome.failed == ["student001"]
    assert [bool(entry.waiting) for entry in book.entries] == [False, True]


def test_workers_that_cannot_do_the_work_are_refused(workers):
    class Told:
        """A client of other workers."""

        def __init__(self, *found: dict) -> None:
            self._found = dict(enumerate(found))

        def scheduler_info(self, n_workers=-1):
            return {"workers": self._found}

        def run(self, function, workers):
            return {each: self._found[each]["gpu"] for each in workers}

        def get_executor(self, **options):
            return options

    def worker(gpu: str = "", threads: int = 1) -> dict:
        return {"nthreads": threads, "resources": {"GPU": 1} if gpu else {}, "gpu": gpu}

    for found, said in (
        ((), "no workers"),
        ((worker(threads=4),), "--nthreads 1"),
        ((worker("H100"), worker("A100")), "one kind of GPU, the workers have A100, H100"),
    ):
        with pytest.raises(Mistake, match=said):
            cluster.machines_of(Told(*found))
    machines = cluster.machines_of(Told(worker("H100"), worker(), worker()))
    assert machines.device == "H100"
    assert machines.measure is machines.check
    assert machines.check.width == 1
    assert machines.check._executor["resources"] == {"GPU": 1.0}


def test_the_slurm_script_of_the_documents_starts_workers_as_they_must_be():
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    text = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    made, _, _ = code.replace("8786", '0, "dashboard_address": ":0"').partition("cluster.adapt")
    names: dict = {}
    exec(made, names)
    try:
        script = names["cluster"].job_script()
    finally:
        names["cluster"].close()
    for word in ("--nthreads 1", "--resources GPU=1", "#SBATCH --gres=gpu:1"):
        assert word in script
