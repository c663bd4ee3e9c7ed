"""Which of the kernels that a variant launches are compiled to cubins."""

from __future__ import annotations

import itertools
import json
from typing import Any

from grader.executors.compile.frontend import Kernel
from grader.executors.compile.kernels import BackendQueue, Kernels
from grader.plan import Specialisation
from grader.sandbox.worker_process import Cause, Death
from grader.worker.protocol import Code, Reply

STRIDES = ("m", "n", "k")


def wanted(ones: tuple[str, ...], **constants: Any) -> Specialisation:
    """A kernel of three integers, of which `ones` are 1."""
    given = dict.fromkeys(ones, 1) | constants
    signature = {name: "constexpr" if name in ones else "i32" for name in STRIDES}
    signature |= {"x_ptr": "*fp32"} | dict.fromkeys(constants, "constexpr")
    return Specialisation("a.py", 3, "kernel", "0" * 64, signature, given, {}, {}, {"num_warps": 4})


NUMBERS = itertools.count()


def chosen(queue: BackendQueue, *all_wanted: Specialisation) -> list[tuple[list[str], dict]]:
    """What would be compiled of these, as those that are 1 and the other constants."""
    for each in all_wanted:
        queue.add(each, Kernel(f"kernel {next(NUMBERS)}", ""))
    compiled = []
    for each, _ in queue.take():
        ones = [k for k in STRIDES if k in each.constants]
        compiled.append((ones, {k: v for k, v in each.constants.items() if k not in ones}))
    return compiled


def test_what_is_1_is_compiled_once_and_not_in_every_combination() -> None:
    queue = BackendQueue()
    subsets = [s for size in range(4) for s in itertools.combinations(STRIDES, size)]
    compiled = chosen(queue, *(wanted(ones, BLOCK=64) for ones in subsets[:-1]))
    assert compiled[0] == ([], {"BLOCK": 64})
    assert [ones for ones, _ in compiled[1:]] == [["n", "k"], ["m", "k"]]
    assert chosen(queue, wanted(("m", "k"), BLOCK=64)) == []


def test_every_set_of_constants_dtypes_and_options_is_compiled() -> None:
    queue = BackendQueue()
    for each in (
        {"BLOCK": 64},
        {"BLOCK": 128},
        {"BLOCK": 64, "CAUSAL": True},
        {"BLOCK": 64, "CAUSAL": False},
        {"BLOCK": 1},
    ):
        assert chosen(queue, wanted(("m",), **each)), each
        assert not chosen(queue, wanted(("m",), **each))


class Backend:
    """A worker that makes a cubin of every kernel, until it is dead."""

    def __init__(self) -> None:
        self.asked, self.is_dead, self.is_closed = 0, False, False

    def post(self, _: object, document: bytes) -> Death | None:
        self.asked, self._count = self.asked + 1, len(json.loads(document)["kernels"])
        return Death(Cause.out_of_memory, "killed") if self.is_dead else None

    def wait_at_length(self, _: object) -> Reply:
        return Reply(1, Code.ok, json.dumps({"kernels": [{} for _ in range(self._count)]}))

    def close(self) -> None:
        self.is_closed = True


def test_a_backend_that_has_answered_is_asked_again(tmp_path, monkeypatch) -> None:
    started: list[Backend] = []

    def spawn(_: object) -> Backend:
        started.append(Backend())
        return started[-1]

    kernels = Kernels(spawn, tmp_path)  # type: ignore[arg-type]
    monkeypatch.setattr(kernels._frontend, "translate_aligned", lambda e: Kernel("", str(e)))

    def settled(block: int) -> list[object]:
        kernels._queue.add(wanted((), BLOCK=block), Kernel(f"kernel {block}", ""))
        return [kernels.settled(each) for each in kernels.assemble()]

    assert [settled(block) for block in (16, 32, 64)] == [[[]]] * 3
    assert [each.asked for each in started] == [3]
    started[0].is_dead = True
    assert settled(128) == [None]
    assert started[0].is_closed
    assert settled(256) == [[]]
    assert [each.asked for each in started] == [4, 1]
    kernels.close()
    assert started[1].is_closed
