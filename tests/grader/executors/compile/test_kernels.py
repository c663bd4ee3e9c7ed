"""Which of the kernels that a variant launches are compiled to cubins."""

from __future__ import annotations

import itertools
from typing import Any

from grader.executors.compile.frontend import Kernel
from grader.executors.compile.kernels import BackendQueue
from grader.plan import Specialisation

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
