"""The native host speaks the protocol, refuses what isn't it, and dies of nothing it is asked."""

from __future__ import annotations

import random
import re
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader.worker import protocol
from grader.worker.protocol import (
    ARGUMENT,
    MAGIC,
    MAX_TEXT,
    REQUEST,
    REQUEST_BYTES,
    VERSION,
    Argument,
    Code,
    DType,
    Kind,
    Operation,
    Reply,
    Request,
    Space,
)
from tests.support.native import (
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

FAR = 1 << 62  # from the start of a buffer
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
    with NativeWorker(program, "plan_two", placement.arena.buffers, NAMED) as worker:
        assert worker.receive() == Reply(0, Code.ok)
        yield worker


def loaded(worker: NativeWorker, count: int) -> NativeWorker:
    assert worker.load(count).code is Code.ok
    return worker


def integer(value: int) -> Argument:
    return Argument(Kind.int64, scalar=value)


def vector_argument(count: int) -> Argument:
    return Argument(Kind.tensor, DType.float32, shape=(count,), strides=(1,))


# --- both languages mean the same bytes ---------------------------------------------------------


def test_structs_and_enums_agree_with_the_python_side(tmp_path: Path) -> None:
    enums = [Operation, Kind, Space, DType, Code]
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
    for name in ("magic", "version", "max_arguments", "max_rank", "max_text"):
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
    }
    return layout


# --- serving ------------------------------------------------------------------------------------


def executed(worker: NativeWorker, arguments: Sequence[Argument], kernel: str) -> Reply:
    """The answer to a document that names a kernel of plain_backend.cpp."""
    return worker.ask(Operation.execute, arguments, document=kernel.encode())


def test_a_planner_calls_the_entry_and_goes_on_with_what_it_told(worker: NativeWorker) -> None:
    loaded(worker, 3)
    for count in (1000, 7):
        # Far beyond any buffer, where nothing is: a planner's tensors need no memory.
        far = [replace(vector_argument(count), buffer=each, offset=FAR) for each in (8, 9)]
        reply = worker.ask(Operation.plan, [*far, integer(count)])
        whole = f"n {count}\ninput {4 * count}\noutput {4 * count}\n"
        assert (reply.code, reply.text) == (Code.ok, whole)
        assert worker.ask(Operation.more, repeat=4).text == whole[4:]


def test_an_executor_works_on_the_arena_and_again(
    worker: NativeWorker, placement: Placement
) -> None:
    for _ in range(2):  # nothing is loaded: an executor has no entry
        reply = executed(worker, [*placement.arguments, integer(1000)], "add_one")
        assert reply.code is Code.ok, reply
    assert torch.equal(placement.values("output"), torch.arange(1.0, 1001.0))


def test_scalars_of_every_type_arrive(program: Path) -> None:
    with NativeWorker(program, "scalars") as worker:
        worker.receive()
        loaded(worker, 4)
        scalars = [
            Argument(Kind.float64, scalar=0.1),
            Argument(Kind.boolean, scalar=True),
            integer(-(2**40)),
            Argument(Kind.float64, scalar=0.1),
        ]
        single, flag, number, double = worker.ask(Operation.plan, scalars).text.split()
        assert float.fromhex(single) == torch.tensor(0.1, dtype=torch.float32).item()
        assert (flag, number, float.fromhex(double)) == ("1", str(-(2**40)), 0.1)


def test_missing_entry_is_told_with_those_present(program: Path) -> None:
    with NativeWorker(program, "transpose") as worker:
        worker.receive()
        reply = worker.load(3)
        assert reply.code is Code.entry_missing
        assert fields(reply)["message"] == "missing"
        assert "plan_two" in fields(reply)["functions"]


def test_wrong_number_of_arguments_is_told_when_loading(worker: NativeWorker) -> None:
    reply = worker.load(2)
    assert reply.code is Code.entry_missing
    assert fields(reply) == {"message": "signature", "signature": "ppi"}
    assert worker.ask(Operation.plan).code is Code.bad_request


def test_text_is_cut_to_what_a_reply_holds(program: Path) -> None:
    with NativeWorker(program, "babbles") as worker:
        worker.receive()
        assert loaded(worker, 0).ask(Operation.plan).text == "x" * MAX_TEXT


# --- bad requests -------------------------------------------------------------------------------


def test_no_bytes_end_the_host(worker: NativeWorker, placement: Placement) -> None:
    drawn = random.Random(7)
    good = Request(Operation.plan, 5, (*placement.arguments, integer(9))).pack()
    lengths = [1, 24, REQUEST_BYTES - 1, REQUEST_BYTES, REQUEST_BYTES + 1, 2 * REQUEST_BYTES]
    for length in lengths:
        assert worker.send_bytes(drawn.randbytes(length)).code is Code.bad_request
    loaded(worker, 3)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(drawn.randint(1, 3)):
            data[drawn.randrange(len(data))] = drawn.randrange(256)
        assert worker.send_bytes(bytes(data)) is not None
    assert worker.send_bytes(good).code is Code.ok


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
    source, output = placement.arguments
    wrong = [replace(source, **change), output]
    assert executed(worker, wrong, "add_one").code is Code.bad_request
    assert worker.ask(Operation.place, wrong).code is Code.bad_request
    assert executed(worker, [source, output], "add_one").code is Code.ok


@pytest.mark.parametrize(
    "scalar",
    [integer(2**31), Argument(Kind.float64, scalar=1.0), Argument(Kind.boolean, scalar=True)],
    ids=["too large", "a float", "a bool"],
)
def test_scalar_the_entry_does_not_take_is_refused(
    worker: NativeWorker, placement: Placement, scalar: Argument
) -> None:
    loaded(worker, 3)
    reply = worker.ask(Operation.plan, [*placement.arguments, scalar])
    assert reply.code is Code.bad_request
    assert fields(reply)["message"]


def test_operations_without_an_entry_or_a_meaning_are_refused(worker: NativeWorker) -> None:
    assert worker.ask(Operation.plan).code is Code.bad_request
    loaded(worker, 3)
    assert worker.ask(Operation.translate).code is Code.bad_request
    for number in (0, 2, 3, 4, 5, 6, 7, 10, 11, 0xFFFF):
        head = REQUEST.pack(MAGIC, VERSION, number, 9, 0, 1)
        answer = worker.send_bytes(head.ljust(REQUEST_BYTES, b"\0"))
        assert fields(answer)["message"] == f"operation {number}"


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["3"],
        ["x", "plan_two"],
        ["3", "plan_two", "4:5"],
        ["3", "plan_two", "4:0:1"],
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
        reply = loaded(worker, 0).ask(Operation.plan)
        assert reply.code is Code.raised
        assert fields(reply)["message"] == 'a "quoted"\nreason'
        assert worker.ask(Operation.plan).code is Code.raised


def test_anything_else_that_an_entry_throws_is_an_answer_too(program: Path) -> None:
    with NativeWorker(program, "throws_a_number") as worker:
        worker.receive()
        reply = loaded(worker, 0).ask(Operation.plan)
        assert (reply.code, fields(reply)["type"]) == (Code.raised, "unknown")


@pytest.mark.parametrize(("entry", "status"), [("aborts", -signal.SIGABRT), ("leaves", 3)])
def test_entry_that_ends_the_process_leaves_no_answer(
    program: Path, entry: str, status: int
) -> None:
    with NativeWorker(program, entry) as worker:
        worker.receive()
        loaded(worker, 0).post(Operation.plan)
        assert worker.receive() is None
        assert worker.ends_with()[0] == status


@pytest.mark.parametrize("kernel", ["stray", "write_input"])
def test_stray_store_on_the_arena_faults(
    worker: NativeWorker, placement: Placement, kernel: str
) -> None:
    worker.post(Operation.execute, placement.arguments[:1], document=kernel.encode())
    assert worker.receive() is None
    assert worker.ends_with()[0] == -signal.SIGSEGV


def test_lost_device_ends_the_host_after_its_answer(worker: NativeWorker) -> None:
    assert executed(worker, [], "loses").code is Code.device_failed
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
    with NativeWorker(program, "plan_two", placement.arena.buffers, filtered) as worker:
        assert worker.receive() == Reply(0, Code.ok)
        arguments = [*placement.arguments, integer(1000)]
        assert loaded(worker, 3).ask(Operation.plan, arguments).code is Code.ok
        assert executed(worker, arguments, "add_one").code is Code.ok
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


# --- the clock's requests -------------------------------------------------------------------------


CLOCKED = [torch.arange(8.0) + 10 * each for each in range(3)]  # the input of each set


def order(*sets: int) -> bytes:
    """The document of `arrange`: how many calls, and of which sets."""
    return struct.pack(f"<{len(sets) + 1}I", len(sets), *sets)


@pytest.fixture
def placed(program: Path) -> Iterator[tuple[NativeWorker, Placement]]:
    """A host that keeps three sets of arguments and a plan to be timed on them."""
    slots = [slot for x in CLOCKED for slot in (vector("x", x), vector("out", 8))]
    with (
        Placement(slots) as placement,
        NativeWorker(program, "", placement.arena.buffers) as worker,
    ):
        assert worker.receive() == Reply(0, Code.ok)
        for number in range(3):
            arguments = placement.arguments[2 * number : 2 * number + 2]
            assert worker.ask(Operation.place, arguments, repeat=number).code is Code.ok
        assert worker.ask(Operation.adopt, document=b"add_one").code is Code.ok
        yield worker, placement


def written(placement: Placement) -> list[bool]:
    """Of each set, whether its output holds what the kernel writes."""
    outputs = [each.values for each in placement.arena.collect(placement.placed)]
    return [out.equal(x + 1) for x, out in zip(CLOCKED, outputs, strict=True)]


def test_a_replay_makes_the_calls_that_were_arranged(placed) -> None:
    worker, placement = placed
    for sets, done in ((1, 2), [False, True, True]), ((0,), [True, True, True]):
        assert worker.ask(Operation.arrange, document=order(*sets)).code is Code.ok
        reply = worker.ask(Operation.replay, repeat=1)
        assert (reply.code, fields(reply)) == (Code.ok, {"nanoseconds": 1000 * len(sets)})
        assert written(placement) == done


def test_a_replay_without_the_calls_makes_none(placed) -> None:
    worker, placement = placed
    worker.ask(Operation.arrange, document=order(0, 1, 2))
    assert fields(worker.ask(Operation.replay, repeat=0)) == {"nanoseconds": 0}
    assert written(placement) == [False, False, False]


def test_a_set_can_be_placed_again_and_those_behind_it_are_gone(placed) -> None:
    worker, placement = placed
    assert worker.ask(Operation.place, placement.arguments[:2], repeat=1).code is Code.ok
    assert worker.ask(Operation.arrange, document=order(2)).code is Code.bad_request
    assert worker.ask(Operation.arrange, document=order(1)).code is Code.ok
    assert worker.ask(Operation.place, placement.arguments[:2], repeat=5).code is Code.bad_request


@pytest.mark.parametrize(
    "document",
    [None, b"", b"abc", order(3), order(2**32 - 1), order(0)[:4], order(0) + b"abcd"],
    ids=["none", "empty", "short", "beyond", "far", "too few", "too many"],
)
def test_an_order_that_is_none_is_refused(placed, document: bytes | None) -> None:
    worker, _ = placed
    assert worker.ask(Operation.arrange, document=document).code is Code.bad_request
    assert worker.ask(Operation.arrange, document=order(0)).code is Code.ok


def test_what_needs_a_document_is_refused_without_one(worker: NativeWorker) -> None:
    for operation in (Operation.execute, Operation.adopt, Operation.arrange):
        assert worker.ask(operation).code is Code.bad_request


def test_a_document_that_is_too_large_is_refused(worker: NativeWorker) -> None:
    reply = worker.ask(Operation.adopt, document=bytes((16 << 20) + 1))
    assert reply.code is Code.bad_request
