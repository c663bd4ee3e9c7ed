"""Sandboxes that a process keeps for the next submission, and those that it replaces."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from grader.batch.store.keys import Conditions, Keys
from grader.batch.tasks import HandinTask, Wanted, grade_in_pool, hash_of
from grader.grading import kept_sandboxes
from grader.sandbox import Sandbox
from grader.spec.compiling import digest
from tests.support.small_exercise import BRIEF, RIGHT, write_spec


@pytest.fixture(autouse=True)
def none_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    kept: dict = {}
    monkeypatch.setattr(kept_sandboxes, "_emptied", kept)
    yield
    for sandbox in kept.values():
        sandbox.close()


def server_of(sandbox: Sandbox) -> int:
    sandbox.start()
    assert sandbox._server is not None
    return sandbox._server.pid


def test_one_with_nothing_left_in_it_goes_on_with_the_next_submission():
    with kept_sandboxes.of_a_submission("cpu", False) as (plans, native):
        assert (plans.kind, native["emulator"].kind) == ("plans", "native")
        if plans.confinement.level.value == "limits":
            pytest.skip("without a sandbox none goes on")
        first = server_of(plans)
        plans.hold("left.py", b"x")
    with kept_sandboxes.of_a_submission("cpu", False) as (plans, _):
        assert server_of(plans) == first
        assert not list((plans.scratch.parent / "submission").iterdir())


def test_one_whose_server_was_killed_is_replaced():
    with kept_sandboxes.of_a_submission("cpu", False) as (plans, _):
        first = server_of(plans)
        psutil.Process(first).kill()
    with kept_sandboxes.of_a_submission("cpu", False) as (plans, _):
        assert server_of(plans) != first
    assert not psutil.pid_exists(first)


def test_one_is_closed_where_the_grader_fails():
    with (
        pytest.raises(RuntimeError),
        kept_sandboxes.of_a_submission("cpu", False) as (plans, _),
    ):
        first = server_of(plans)
        raise RuntimeError
    assert not psutil.pid_exists(first) and not kept_sandboxes._emptied.get("cpu")


def test_the_hand_ins_of_a_class_import_torch_once_for_a_process(tmp_path, monkeypatch):
    exercises = write_spec(tmp_path)
    begun = []
    launch = Sandbox.begin

    def begin(self: Sandbox) -> object:
        if self._server is None and self.kind == "plans":
            begun.append(self)
        return launch(self)

    monkeypatch.setattr(Sandbox, "begin", begin)
    for number in range(3):
        data = f"{RIGHT}\n# {number}\n".encode()
        keys = Keys(exercises, Conditions(7, "cpu", BRIEF))
        key = keys.of("silu", "triton", digest([hash_of(data)]))
        task = HandinTask(
            {"silu.py": data},
            (Wanted("silu", "triton", key),),
            exercises,
            7,
            effort=BRIEF,
            require_sandbox=False,
        )
        [result] = grade_in_pool(task).results
        assert '"passed"' in result.evidence
    plans = kept_sandboxes._emptied["cpu"]
    assert len(begun) == (1 if plans.confinement.is_enough else 4)
