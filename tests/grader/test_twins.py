"""Compiling beside the cases: what is compiled again, and what isn't."""

from __future__ import annotations

import json
import socket

import pytest

from grader.worker.protocol import Reply
from grader.worker.twins import Twins


class Device:
    """Runs what it is given; compiling names what was settled, and fails for `bad`."""

    def __init__(self, *ran, slow=()):
        self.ran, self.slow = list(ran), slow

    def take_launches(self):
        return self.ran.pop(0)

    def compile(self, launches, settled):
        if "dies" in launches:
            raise SystemExit
        failures = [each for each in launches if each == "bad"]
        unknown = [each for each in launches if each == "unknown"]
        return {"settled": settled, "failures": failures, "not_modelled": unknown}


def answers(*ran):
    """What each twin says was settled before it; None where it says nothing."""
    twins, device, sides = Twins(), Device(*ran), []
    for sequence in range(len(ran)):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        twins.start(device, sequence, theirs.detach(), json.dumps)
        sides.append(ours)
    found = []
    for side in sides:
        with side:
            data = side.recv(1 << 16)
        found.append(json.loads(Reply.unpack(data).text)["settled"] if data else None)
    return found


def test_what_compiled_is_settled_for_all_that_come_later():
    assert answers(["a"], ["b"], [], ["c"]) == [[], [["a"]], [["a"], ["b"]], [["a"], ["b"], []]]


@pytest.mark.parametrize("what", ["bad", "unknown"])
def test_what_does_not_compile_is_tried_again_each_time(what):
    assert answers(["a"], [what], ["b"], ["c"]) == [[], [["a"]], [["a"]], [["a"], ["b"]]]


def test_after_one_that_died_nothing_is_settled():
    assert answers(["a"], ["dies"], ["b"], ["c"]) == [[], None, [], [["b"]]]
