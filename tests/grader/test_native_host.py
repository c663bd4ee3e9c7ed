"""The native host speaks the protocol, refuses what isn't it, and dies of nothing it is asked."""

from __future__ import annotations

import random
import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader.arena import Slot
from grader.timing.request_page import RequestPage
from grader.worker import protocol
from grader.worker.protocol import (
    ARGUMENT,
    MAGIC,
    MAX_TEXT,
    PAGE_BYTES,
    REQUEST,
    REQUEST_BYTES,
    STOP,
    VERSION,
    Argument,
    Code,
    DType,
    Kind,
    Operation,
    Reply,
    Request,
    Space,
    Word,
)
from tests.grader.native import (
    NATIVE,
    NativeWorker,
    Placement,
    compile_plain_host,
    fields,
    only_needed_calls,
    vector,
)

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

# An enumerator that can't be called in C++ what Python calls it.
NAMES = {("DType", "boolean"): "bool"}


NAMED = ["--arguments=input:input,output:output,n:input"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_plain_host(tmp_path_factory.mktemp("host"))


@pytest.fixture(scope="module")
def placement() -> Iterator[Placement]:
    slots = [vector("input", torch.arange(1000.0)), vector("output", 1000)]
    with Placement(slots) as placement:
        yield placement


@pytest.fixture
def worker(program: Path, placement: Placement) -> Iterator[NativeWorker]:
    options = NAMED
    with NativeWorker(program, "add_one", placement.arena.buffers, options) as worker:
        assert worker.receive() == Reply(0, Code.ok)
        yield worker


def loaded(worker: NativeWorker, count: int) -> NativeWorker:
    assert worker.load(count).code is Code.ok
    return worker


def integer(value: int) -> Argument:
    return Argument(Kind.int64, scalar=value)


# --- both languages mean the same bytes ---------------------------------------------------------


def test_structs_and_enums_agree_with_the_python_side(tmp_path: Path) -> None:
    enums = [Operation, Word, Kind, Space, DType, Code]
    lines = []
    text = (NATIVE / "protocol.h").read_text()
    for enum in enums:
        body = re.search(rf"enum class {enum.__name__} .*?\{{(.*?)\}}", text, re.DOTALL).group(1)
        for name in re.findall(r"(\w+) =", body):
            value = f"static_cast<int>({enum.__name__}::{name})"
            known = NAMES.get((enum.__name__, name), name)
            lines.append(f'printf("{enum.__name__} {known} %d\\n", {value});')
    for struct_name, members in FORMATS.items():
        for member in members:
            place = f"{struct_name}, {member}"
            lines.append(f'printf("{struct_name} {member} %zu\\n", offsetof({place}));')
        lines.append(f'printf("{struct_name} size %zu\\n", sizeof({struct_name}));')
    for name in ("magic", "version", "max_arguments", "max_rank", "max_text", "page_bytes", "stop"):
        lines.append(f'printf("constant {name} %llu\\n", 0ull + {name});')
    source = tmp_path / "print.cpp"
    body = "\n".join(lines)
    source.write_text(
        f'#include "protocol.h"\n#include <cstdio>\nusing namespace warpgrade::host;\n'
        f"int main() {{\n{body}\n}}\n"
    )
    command = ["g++", "-std=c++17", f"-I{NATIVE}", str(source), "-o", str(tmp_path / "print")]
    subprocess.run(command, check=True)
    printed = subprocess.run([tmp_path / "print"], check=True, capture_output=True, text=True)
    assert set(printed.stdout.splitlines()) == _expected_layout(enums)


FORMATS = {
    "Request": ("magic", "version", "operation", "sequence", "argument_count", "repeat"),
    "Argument": (
        *("kind", "dtype", "space", "rank", "buffer", "offset"),
        *("allocation_offset", "allocation_length", "scalar_bits", "shape", "strides"),
    ),
    "ReplyHeader": ("sequence", "code", "text_length"),
}


def _expected_layout(enums: list) -> set[str]:
    layout = {f"{enum.__name__} {each.name} {each.value}" for enum in enums for each in enum}
    structs = {"Request": REQUEST, "Argument": ARGUMENT, "ReplyHeader": protocol.REPLY}
    for name, whole in structs.items():
        offset = 0
        letters = re.findall(r"\d+[a-zA-Z]|[a-zA-Z]", whole.format.replace("BBBB", "B B B B"))
        for member, letter in zip(FORMATS[name], letters, strict=True):
            layout.add(f"{name} {member} {offset}")
            offset += struct.calcsize("<" + letter)
    layout |= {
        f"Request size {REQUEST_BYTES}",
        f"Argument size {ARGUMENT.size}",
        f"ReplyHeader size {protocol.REPLY.size}",
        f"constant magic {protocol.MAGIC}",
        f"constant version {protocol.VERSION}",
        f"constant max_arguments {protocol.MAX_ARGS}",
        f"constant max_rank {protocol.MAX_RANK}",
        f"constant max_text {MAX_TEXT}",
        f"constant page_bytes {PAGE_BYTES}",
        f"constant stop {STOP}",
    }
    return layout


# --- serving ------------------------------------------------------------------------------------


def test_entry_runs_over_the_arena_and_again(worker: NativeWorker, placement: Placement) -> None:
    loaded(worker, 3)
    for count in (1000, 7):
        reply = worker.ask(Operation.run, [*placement.arguments, integer(count)])
        assert reply.code is Code.ok
        assert fields(reply) == {"input": 4000, "output": 4000}
    expected = torch.arange(1.0, 1001.0)
    assert torch.equal(placement.values("output"), expected)


def test_scalars_of_every_type_arrive(program: Path) -> None:
    slot = Slot("output", "float64", (4,), (1,), role="output")
    with (
        Placement([slot]) as placement,
        NativeWorker(program, "scalars", placement.arena.buffers) as worker,
    ):
        worker.receive()
        loaded(worker, 5)
        scalars = [
            Argument(Kind.float64, scalar=0.1),
            Argument(Kind.boolean, scalar=True),
            integer(-(2**40)),
            Argument(Kind.float64, scalar=0.1),
        ]
        assert worker.ask(Operation.run, [*placement.arguments, *scalars]).code is Code.ok
        single = torch.tensor(0.1, dtype=torch.float32).item()
        assert placement.values("output").tolist() == [single, 1.0, -(2.0**40), 0.1]


def test_missing_entry_is_told_with_those_present(program: Path) -> None:
    with NativeWorker(program, "transpose") as worker:
        worker.receive()
        reply = worker.load(3)
        assert reply.code is Code.entry_missing
        assert fields(reply)["message"] == "missing"
        assert "add_one" in fields(reply)["functions"]


def test_wrong_number_of_arguments_is_told_when_loading(worker: NativeWorker) -> None:
    reply = worker.load(2)
    assert reply.code is Code.entry_missing
    assert fields(reply) == {"message": "signature", "signature": "ppi"}
    assert worker.ask(Operation.run).code is Code.bad_request


def test_text_is_cut_to_what_a_reply_holds(program: Path) -> None:
    with NativeWorker(program, "babbles") as worker:
        worker.receive()
        assert loaded(worker, 0).ask(Operation.run).text == "x" * MAX_TEXT


# --- bad requests -------------------------------------------------------------------------------


def test_no_bytes_end_the_host(worker: NativeWorker, placement: Placement) -> None:
    drawn = random.Random(7)
    good = Request(Operation.run, 5, (*placement.arguments, integer(9))).pack()
    lengths = [1, 24, REQUEST_BYTES - 1, REQUEST_BYTES, REQUEST_BYTES + 1, 2 * REQUEST_BYTES]
    for length in lengths:
        assert worker.send_bytes(drawn.randbytes(length)).code is Code.bad_request
    loaded(worker, 3)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(drawn.randint(1, 3)):
            # Not in the number of elements: the entry believes that, as a kernel does.
            data[drawn.randrange(24 + 2 * ARGUMENT.size)] = drawn.randrange(256)
        assert worker.send_bytes(bytes(data)) is not None
    assert worker.send_bytes(good).code is Code.ok


FAR = 1 << 62
TENSORS = {
    "a buffer that isn't there": {"buffer": 2},
    "a negative buffer": {"buffer": -1},
    "an allocation past the buffer": {"allocation": (0, FAR)},
    "an allocation that wraps around": {"allocation": (2**64 - 4096, 8192)},
    "a tensor before its allocation": {"offset": 0, "allocation": (4096, 4096)},
    "a tensor past its allocation": {"shape": (1 << 20,)},
    "sizes whose product overflows": {"shape": (FAR, FAR, FAR), "strides": (FAR, FAR, 1)},
    "a negative size": {"shape": (-1,)},
    "a negative stride": {"strides": (-1,)},
}


@pytest.mark.parametrize("change", TENSORS.values(), ids=TENSORS)
def test_tensor_outside_its_memory_is_refused(
    worker: NativeWorker, placement: Placement, change: dict
) -> None:
    loaded(worker, 3)
    source, output = placement.arguments
    wrong = [replace(source, **change), output, integer(5)]
    assert worker.ask(Operation.run, wrong).code is Code.bad_request
    assert worker.ask(Operation.run, [source, output, integer(5)]).code is Code.ok


@pytest.mark.parametrize(
    "scalar",
    [integer(2**31), Argument(Kind.float64, scalar=1.0), Argument(Kind.boolean, scalar=True)],
    ids=["too large", "a float", "a bool"],
)
def test_scalar_the_entry_does_not_take_is_refused(
    worker: NativeWorker, placement: Placement, scalar: Argument
) -> None:
    loaded(worker, 3)
    reply = worker.ask(Operation.run, [*placement.arguments, scalar])
    assert reply.code is Code.bad_request
    assert fields(reply)["message"]


def test_operations_without_an_entry_or_a_meaning_are_refused(worker: NativeWorker) -> None:
    assert worker.ask(Operation.run).code is Code.bad_request
    loaded(worker, 3)
    assert worker.ask(Operation.translate).code is Code.bad_request
    for number in (0, 3, 4, 5, 6, 0xFFFF):
        head = REQUEST.pack(MAGIC, VERSION, number, 9, 0, 1)
        answer = worker.send_bytes(head.ljust(REQUEST_BYTES, b"\0"))
        assert fields(answer)["message"] == f"operation {number}"


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["3"],
        ["x", "add_one"],
        ["3", "add_one", "4:5"],
        ["3", "add_one", "4:0:1"],
        ["--no"],
        ["--arguments=a"],
    ],
    ids=str,
)
def test_wrong_command_line_is_one_clear_line(program: Path, line: list[str]) -> None:
    ended = subprocess.run([program, *line], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "SOCKET_FD ENTRY FD:LENGTH:WRITABLE" in ended.stderr


# --- how it ends --------------------------------------------------------------------------------


def test_exception_of_the_entry_is_an_answer(program: Path) -> None:
    with NativeWorker(program, "throws") as worker:
        worker.receive()
        reply = loaded(worker, 0).ask(Operation.run)
        assert reply.code is Code.raised
        assert fields(reply)["message"] == 'a "quoted"\nreason'
        assert worker.ask(Operation.run).code is Code.raised


@pytest.mark.parametrize(("entry", "status"), [("aborts", -signal.SIGABRT), ("leaves", 3)])
def test_entry_that_ends_the_process_leaves_no_answer(
    program: Path, entry: str, status: int
) -> None:
    with NativeWorker(program, entry) as worker:
        worker.receive()
        assert loaded(worker, 0).ask(Operation.run) is None
        assert worker.ends_with()[0] == status


@pytest.mark.parametrize("entry", ["stray", "write_input"])
def test_stray_store_of_host_code_faults(program: Path, placement: Placement, entry: str) -> None:
    with NativeWorker(program, entry, placement.arena.buffers) as worker:
        worker.receive()
        assert loaded(worker, 1).ask(Operation.run, placement.arguments[:1]) is None
        assert worker.ends_with()[0] == -signal.SIGSEGV


def test_lost_device_ends_the_host_after_its_answer(program: Path) -> None:
    with NativeWorker(program, "loses") as worker:
        worker.receive()
        assert loaded(worker, 0).ask(Operation.run).code is Code.device_failed
        assert worker.receive() is None
        assert worker.ends_with() == (0, "")


def test_host_ends_when_the_grader_has_gone(worker: NativeWorker) -> None:
    assert worker.ends_with() == (0, "")


# --- the filter ---------------------------------------------------------------------------------

CURIOUS = """
#include <fcntl.h>
#include <cstdio>
__attribute__((constructor)) static void look() {
    std::printf("%s\\n", open("/dev/null", O_WRONLY) < 0 ? "refused" : "opened");
}
"""


def test_host_needs_no_other_system_calls_than_it_says(program: Path, placement: Placement) -> None:
    filtered = [only_needed_calls("kill"), *NAMED]
    with NativeWorker(program, "add_one", placement.arena.buffers, filtered) as worker:
        assert worker.receive() == Reply(0, Code.ok)
        loaded(worker, 3)
        reply = worker.ask(Operation.run, [*placement.arguments, integer(1000)])
        assert reply.code is Code.ok
        assert worker.ends_with() == (0, "")


@pytest.mark.parametrize(("filtered", "outcome"), [(True, "refused"), (False, "opened")])
def test_filter_holds_before_any_constructor_runs(
    tmp_path: Path, filtered: bool, outcome: str
) -> None:
    curious = tmp_path / "curious.cpp"
    curious.write_text(CURIOUS)
    program = compile_plain_host(tmp_path, [curious])
    options = [only_needed_calls("refuse")] if filtered else []
    with NativeWorker(program, "throws", options=options) as worker:
        worker.receive()
        assert worker.ends_with() == (0, f"{outcome}\n")


@pytest.mark.parametrize("text", ["", "0", "zz" * 8, "00" * 7], ids=str)
def test_filter_that_is_none_ends_the_host(program: Path, text: str) -> None:
    with NativeWorker(program, "throws", options=[f"--filter={text}"]) as worker:
        assert worker.receive() is None
        assert worker.ends_with()[0] == 70


def test_a_host_that_stands_by_answers_over_the_page(program: Path) -> None:
    count, n = 3, 8
    inputs = [torch.arange(n, dtype=torch.float32) + 10 * each for each in range(count)]
    slots = [slot for x in inputs for slot in (vector("x", x), vector("out", n))]
    with Placement(slots) as placement, RequestPage() as page:
        options = [f"--page={page.descriptor}"]
        with NativeWorker(
            program, "add_one", placement.arena.buffers, options, [page.descriptor]
        ) as worker:
            assert worker.receive() == Reply(0, Code.ok)
            loaded(worker, 3)
            size = Argument(Kind.int64, scalar=n)
            for number in range(count):
                arguments = [*placement.arguments[2 * number : 2 * number + 2], size]
                assert worker.ask(Operation.place, arguments, repeat=number).code is Code.ok
            worker.post(Operation.stand_by)
            page.announce()
            page.ask(1, 2)
            wait_for(lambda: page.is_answered)
            assert 0 < page.inside_seconds < 1.0
            page.stop()
            assert worker.receive().code is Code.ok
        outputs = [each.values for each in placement.arena.collect(placement.placed)]
    assert [output.equal(x + 1) for output, x in zip(outputs, inputs, strict=True)] == [
        False,
        True,
        True,
    ]


def test_a_set_that_was_never_placed_ends_the_standing_by(program: Path) -> None:
    with Placement([vector("out", 4)]) as placement, RequestPage() as page:
        options = [f"--page={page.descriptor}"]
        with NativeWorker(
            program, "throws", placement.arena.buffers, options, [page.descriptor]
        ) as worker:
            assert worker.receive() == Reply(0, Code.ok)
            loaded(worker, 0)
            worker.post(Operation.stand_by)
            page.ask(0, 1)
            reply = worker.receive()
            assert reply.code is Code.bad_request and "no such set" in reply.text
            assert not page.is_answered
            assert worker.ask(Operation.place).code is Code.ok
            worker.post(Operation.stand_by)
            page.ask(0, 1)
            reply = worker.receive()
            assert reply.code is Code.raised and "quoted" in reply.text


def test_a_request_for_no_set_is_answered_and_does_nothing(program: Path) -> None:
    values = torch.arange(4, dtype=torch.float32)
    slots = [vector("x", values), vector("out", 4)]
    with Placement(slots) as placement, RequestPage() as page:
        options = [f"--page={page.descriptor}"]
        with NativeWorker(
            program, "add_one", placement.arena.buffers, options, [page.descriptor]
        ) as worker:
            assert worker.receive() == Reply(0, Code.ok)
            loaded(worker, 3)
            before = placement.arena.outputs.clone()
            arguments = [*placement.arguments, integer(4)]
            assert worker.ask(Operation.place, arguments, repeat=0).code is Code.ok
            worker.post(Operation.stand_by)
            for _ in range(2):  # as the clock wakes a worker
                page.announce()
                page.ask(0, 0)
                wait_for(lambda: page.is_answered)
            assert torch.equal(placement.arena.outputs, before)
            page.announce()
            page.ask(0, 1)
            wait_for(lambda: page.is_answered)
            assert torch.equal(placement.values("out"), values + 1)
            page.ask(2, 0)  # beyond what there is, though nothing of it
            reply = worker.receive()
            assert reply.code is Code.bad_request and "no such set" in reply.text


def test_without_a_page_the_host_does_not_stand_by(worker: NativeWorker) -> None:
    reply = loaded(worker, 3).ask(Operation.stand_by)
    assert reply.code is Code.bad_request and "no page" in reply.text


def wait_for(condition) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
