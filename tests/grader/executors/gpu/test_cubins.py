"""What a backend process says of a kernel, and what is in a cubin, is read as untrusted bytes."""

from __future__ import annotations

import base64
import json
import random
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from grader.executors.compile import cubins
from grader.executors.compile.frontend import Failure
from grader.executors.encoding import DeviceKernel, NotExecutable
from grader.executors.gpu import gpu_encoding
from grader.plan import Buffer, Plan
from grader.plan.model import Launch
from grader.sandbox.worker_process import Cause, Death
from grader.worker.compile.cubin import usage, variables
from grader.worker.protocol import Code, Operation, Reply
from tests.support.fake_gpu import NEEDS_COMPILER

TOLD = {
    "name": "kernel",
    "cubin": base64.b64encode(b"code").decode(),
    "num_warps": 4,
    "shared": 1024,
    "global_scratch_size": 0,
    "descriptors": [{"elem_type": 7}],
}
NONSENSE: dict[str, list[Any]] = {
    "name": [None, 3, "x" * 1001, "a\0b", "\ud800", "two\nlines"],
    "cubin": [None, "", "not base64!", "QQ=", 7, base64.b64encode(bytes((3 << 20) + 1)).decode()],
    "num_warps": [None, 0, 65, -4, 4.0, True, "4", 1 << 70],
    "shared": [None, -1, 1 << 20, 1.5, [1]],
    "global_scratch_size": [None, -1, (1 << 30) + 1, "0"],
    "descriptors": [None, {}, "x", [{}] * 65],
}
CASES = [(name, value) for name, values in NONSENSE.items() for value in values]


def test_an_answer_becomes_a_kernel() -> None:
    made = cubins.read(TOLD)
    assert made == DeviceKernel(b"code", "kernel", 4, 1024, 0, ({"elem_type": 7},))
    assert cubins.read({**TOLD, "descriptors": [1, None, {}]}).descriptors == ({},)


@pytest.mark.parametrize(("name", "value"), CASES, ids=lambda each: repr(each)[:20])
def test_an_answer_that_makes_no_sense_is_none(name: str, value: Any) -> None:
    assert cubins.read({**TOLD, name: value}) is None
    assert cubins.read({key: each for key, each in TOLD.items() if key != name}) is None


# --- asking ---------------------------------------------------------------------------------------


class Backend:
    """A compiler's process that gives the next of some answers."""

    def __init__(self, *answers: Reply | Death) -> None:
        self.answers = list(answers)
        self.started = self.asked = 0

    def spawn(self, limits: object) -> Any:
        self.started += 1
        return self

    def ask_at_length(self, operation: Operation, **given: Any) -> Reply | Death:
        assert operation is Operation.assemble and given["document"]
        self.asked += 1
        return self.answers.pop(0)

    def close(self) -> None:
        pass


def answer(**kernel: Any) -> Reply:
    return Reply(1, Code.ok, json.dumps({"kernels": [kernel]}))


def test_each_text_is_asked_for_once() -> None:
    backend = Backend(answer(**TOLD), answer(**TOLD | {"name": "other"}))
    known = cubins.Cubins(backend.spawn)
    for _ in range(3):
        assert known.of("one", "text", {}).name == "kernel"
        assert known.of_ours("ours").name == "other"
    assert (backend.started, backend.asked) == (1, 2)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (answer(error={"message": "no such\noption"}), "no such option"),
        (answer(), "no code that can be used"),
        (Reply(1, Code.ok, "[]"), "no code that can be used"),
        (Reply(1, Code.ok, '{"kernels": [3, {"name": "x"}]}'), "no code that can be used"),
        (answer(**TOLD | {"cubin": "A" * (5 << 20)}), "machine code is larger than the 3 MiB"),
        (Reply(1, Code.raised, '{"type": "PlanLimit"}'), "machine code is larger than the 3 MiB"),
        (Reply(1, Code.bad_request, ""), "could not serve"),
        (Death(Cause.signalled, "killed by SIGSEGV"), "process ended"),
    ],
)
def test_why_there_is_no_cubin(reply: Reply | Death, words: str) -> None:
    backend = Backend(reply, answer(**TOLD))
    known = cubins.Cubins(backend.spawn)
    made = known.of("one", "text", {})
    assert isinstance(made, Failure) and words in made.message
    assert known.of("two", "text", {}).name == "kernel"
    assert backend.started == 1 + isinstance(reply, Death)
    backend = Backend(reply)
    with pytest.raises(NotExecutable, match="a copy of a strided view"):
        cubins.Cubins(backend.spawn).of_ours("ours")


# --- documents of plans that no planner of ours writes --------------------------------------------


@pytest.mark.parametrize("grid", [(-1, 1, 1), ((1 << 32) - 1, 1, 1)])
def test_a_grid_that_no_document_holds_is_named(grid: tuple[int, int, int]) -> None:
    kernel = DeviceKernel(b"code", "kernel", 4)
    step = Launch("launch", 0, grid, cluster=(2,))
    with pytest.raises(NotExecutable, match="a number that no launch has"):
        gpu_encoding.encode(Plan(1, "triton", (), (), ((step,),)), [(step,)], {0: kernel})


# --- variables ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An object whose sections are called as a cubin's."""
    folder: Path = tmp_path_factory.mktemp("elf")
    source = folder / "variables.cpp"
    source.write_text(
        "#define IN(name) __attribute__((section(name), used))\n"
        'extern "C" { IN(".nv.global") int counter = 1; IN(".nv.global.init") double sums[3] = {1};'
        ' IN(".nv.constant3") float factors[5] = {1}; IN(".nv.constant0.kernel") int own = 1;'
        " int elsewhere = 3; void nothing() {} }\n"
    )
    made = folder / "variables.o"
    subprocess.run(["g++", "-c", str(source), "-o", str(made)], check=True)
    return made.read_bytes()


@NEEDS_COMPILER
def test_variables_that_outlive_a_launch(elf: bytes) -> None:
    assert sorted(variables(elf)) == [("counter", 4), ("factors", 20), ("sums", 24)]


@NEEDS_COMPILER
def test_bytes_that_are_no_cubin_have_none(elf: bytes) -> None:
    chance = random.Random(5)
    assert variables(b"") == variables(b"\x7fELF\x02") == variables(bytes(1000)) == []
    for _ in range(3000):
        data = bytearray(elf[: chance.choice((len(elf), chance.randrange(len(elf))))])
        for _ in range(chance.randrange(4) if data else 0):
            data[chance.randrange(len(data))] = chance.randrange(256)
        found = variables(bytes(data))
        assert all(isinstance(name, str) and size for name, size in found)
        usage(bytes(data))


def test_a_table_of_sections_beyond_every_address_is_no_cubin() -> None:
    head = bytearray(64)
    head[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", head, 40, 2**64 - 1)
    struct.pack_into("<HHH", head, 58, 64, 1, 0)
    assert variables(bytes(head)) == [] and usage(bytes(head)) == {}


def test_sections_that_lie_over_each_other_take_no_time() -> None:
    """4,000 tables of symbols in the same megabyte: 4 GB to read, 160 million symbols."""
    count, size = 4000, 1 << 20
    table = 64 + size
    head = bytearray(64)
    head[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", head, 40, table)
    struct.pack_into("<HHH", head, 58, 64, count, 0)
    header = struct.pack("<IIQQQQI", 0, 2, 0, 0, 64, size, 0).ljust(64, b"\0")
    began = time.monotonic()
    assert variables(bytes(head) + bytes(size) + header * count) == []
    assert time.monotonic() - began < 5


def test_names_without_an_end_take_no_time() -> None:
    """20,000 variables that have one name of a megabyte."""
    symbols = struct.pack("<IBBHQQ", 13, 1, 0, 1, 0, 4) * 20_000
    names = b"\0.nv.global\0\0" + b"x" * (1 << 20) + b"\0"
    sections = [(0, 1, names), (1, 2, symbols)]
    body, headers = b"", b""
    for name, kind, data in sections:
        at = 64 + len(body)
        headers += struct.pack("<IIQQQQI", name, kind, 0, 0, at, len(data), 0).ljust(64, b"\0")
        body += data
    head = bytearray(64)
    head[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", head, 40, 64 + len(body))
    struct.pack_into("<HHH", head, 58, 64, len(sections), 0)
    began = time.monotonic()
    assert variables(bytes(head) + body + headers) == []
    assert time.monotonic() - began < 5


def test_a_variable_of_no_kernel_is_named() -> None:
    plan = Plan(1, "cuda", (Buffer(4, "symbol", name="counter"),), (), ((),))
    with pytest.raises(NotExecutable, match="a variable \\(counter\\)"):
        gpu_encoding.encode(plan, [()], {})
