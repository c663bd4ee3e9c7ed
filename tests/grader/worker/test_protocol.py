"""The protocol: what is packed comes back, and no bytes do anything but raise ProtocolError."""

from __future__ import annotations

import ast
import math
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.worker import protocol
from grader.worker.protocol import (
    MAX_ARGS,
    MAX_RANK,
    MAX_REPLY_BYTES,
    MAX_TEXT,
    REPLY,
    REQUEST,
    REQUEST_BYTES,
    Argument,
    Code,
    DType,
    Kind,
    Operation,
    ProtocolError,
    Reply,
    Request,
    Space,
)

WORKER = Path(protocol.__file__).parent
FEW = settings(max_examples=60, deadline=None)

unsigned = st.integers(0, 2**64 - 1)
signed = st.integers(-(2**63), 2**63 - 1)


@st.composite
def tensors(draw: st.DrawFn) -> Argument:
    rank = draw(st.integers(0, MAX_RANK))
    return Argument(
        kind=Kind.tensor,
        dtype=draw(st.sampled_from(DType)),
        space=draw(st.sampled_from(Space)),
        buffer=draw(st.integers(-(2**31), 2**31 - 1)),
        offset=draw(unsigned),
        allocation=(draw(unsigned), draw(unsigned)),
        shape=tuple(draw(st.lists(signed, min_size=rank, max_size=rank))),
        strides=tuple(draw(st.lists(signed, min_size=rank, max_size=rank))),
    )


scalars = st.one_of(
    st.builds(Argument, kind=st.just(Kind.float64), scalar=st.floats(allow_nan=False)),
    st.builds(Argument, kind=st.just(Kind.int64), scalar=signed),
    st.builds(Argument, kind=st.just(Kind.boolean), scalar=st.booleans()),
)
requests = st.builds(
    Request,
    operation=st.sampled_from(Operation),
    sequence=unsigned,
    arguments=st.lists(tensors() | scalars, max_size=MAX_ARGS).map(tuple),
    repeat=st.integers(0, 2**32 - 1),
)


@FEW
@given(requests)
def test_request_comes_back_as_it_was_sent(request: Request) -> None:
    packed = request.pack()
    assert len(packed) == REQUEST_BYTES
    assert Request.unpack(packed) == request


@FEW
@given(unsigned, st.sampled_from(Code), st.text(max_size=200))
def test_reply_comes_back_as_it_was_sent(sequence: int, code: Code, text: str) -> None:
    reply = Reply(sequence, code, text)
    assert Reply.unpack(reply.pack()) == reply


@pytest.mark.parametrize("value", [math.inf, -math.inf, -0.0, 5e-324, 1e-6])
def test_float_scalars_keep_every_bit(value: float) -> None:
    back = _sent(Argument(kind=Kind.float64, scalar=value)).scalar
    assert (back, math.copysign(1, back)) == (value, math.copysign(1, value))


def test_nan_scalar_stays_nan() -> None:
    assert math.isnan(_sent(Argument(kind=Kind.float64, scalar=math.nan)).scalar)


def test_boolean_scalar_comes_back_as_bool() -> None:
    assert _sent(Argument(kind=Kind.boolean, scalar=True)).scalar is True


def _sent(argument: Argument) -> Argument:
    """What the worker gets."""
    (got,) = Request.unpack(Request(Operation.plan, 1, (argument,)).pack()).arguments
    return got


def _unpacks_or_refuses(kind: type[Request] | type[Reply], data: bytes) -> None:
    try:
        kind.unpack(data)
    except ProtocolError:
        return


@FEW
@given(st.binary(max_size=300))
@example(b"")
@example(b"\xff" * REPLY.size)
@example(b"\xff" * MAX_REPLY_BYTES)
@example(b"\xff" * (MAX_REPLY_BYTES + 1))
def test_arbitrary_bytes_raise_protocol_error_only(data: bytes) -> None:
    for kind in (Reply, Request):
        _unpacks_or_refuses(kind, data)


@FEW
@given(requests, st.lists(st.tuples(st.integers(0, REQUEST_BYTES - 1), st.integers(0, 255))))
def test_damaged_request_raises_protocol_error_only(request: Request, damage: list) -> None:
    data = bytearray(request.pack())
    for place, value in damage:
        data[place] = value
    _unpacks_or_refuses(Request, bytes(data))


@FEW
@given(st.binary(min_size=protocol.ARGUMENT.size, max_size=protocol.ARGUMENT.size))
def test_argument_of_arbitrary_bytes_raises_protocol_error_only(data: bytes) -> None:
    head = _request_with(count=1)[: REQUEST.size]
    _unpacks_or_refuses(Request, (head + data).ljust(REQUEST_BYTES, b"\0"))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(REPLY.pack(1, 0, 5) + b"four", id="length too large"),
        pytest.param(REPLY.pack(1, 0, 3) + b"four", id="length too small"),
        pytest.param(REPLY.pack(1, 99, 0), id="unknown code"),
        pytest.param(REPLY.pack(1, 0, 0)[:-1], id="short"),
        pytest.param(REPLY.pack(1, 0, MAX_TEXT + 1) + b"x" * (MAX_TEXT + 1), id="too long"),
    ],
)
def test_reply_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Reply.unpack(data)


def _request_with(**changes: int) -> bytes:
    good = {
        "magic": protocol.MAGIC,
        "version": protocol.VERSION,
        "operation": int(Operation.plan),
        "sequence": 1,
        "count": 0,
        "repeat": 0,
    }
    return REQUEST.pack(*(good | changes).values()).ljust(REQUEST_BYTES, b"\0")


def test_plain_request_is_accepted() -> None:
    assert Request.unpack(_request_with()) == Request(Operation.plan, 1)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(_request_with(magic=1), id="magic"),
        pytest.param(_request_with(version=2), id="version"),
        pytest.param(_request_with(operation=77), id="operation"),
        pytest.param(_request_with(operation=5), id="an operation that was given up"),
        pytest.param(_request_with(count=MAX_ARGS + 1), id="too many arguments"),
        pytest.param(_request_with(count=1), id="argument of no kind"),
        pytest.param(_request_with()[:-1], id="short"),
        pytest.param(_request_with() + b"\0", id="long"),
    ],
)
def test_request_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Request.unpack(data)


@pytest.mark.parametrize(
    "argument",
    [
        pytest.param(
            Argument(kind=Kind.tensor, dtype=DType.int8, shape=(1,) * 9, strides=(1,) * 9),
            id="rank beyond the struct",
        ),
        pytest.param(
            Argument(kind=Kind.tensor, dtype=DType.int8, shape=(1, 2), strides=(1,)),
            id="a stride missing",
        ),
        pytest.param(Argument(kind=Kind.tensor, dtype=DType.int8, offset=-1), id="offset below 0"),
        pytest.param(Argument(kind=Kind.int64, scalar=2**63), id="integer beyond 64 bits"),
        pytest.param(Argument(kind=Kind.int64, scalar=1.5), id="fraction as integer"),
        pytest.param(Argument(kind=Kind.float64, scalar=10**400), id="integer beyond double"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_sent(argument: Argument) -> None:
    with pytest.raises(ProtocolError):
        argument.pack()


def test_requests_that_do_not_fit_are_refused_before_they_are_sent() -> None:
    with pytest.raises(ProtocolError, match="at most 16"):
        Request(Operation.plan, 1, (Argument(kind=Kind.int64),) * (MAX_ARGS + 1)).pack()
    with pytest.raises(ProtocolError):
        Request(Operation.place, 1, repeat=2**32).pack()


def test_long_text_of_a_reply_is_cut_and_what_is_cut_can_be_read() -> None:
    packed = Reply(1, Code.raised, "é" * MAX_TEXT).pack()  # two bytes each: the cut can be inside
    assert len(packed) == MAX_REPLY_BYTES
    assert Reply.unpack(packed).text.startswith("é" * 1000)


def test_text_that_is_not_utf8_is_read_with_replacements() -> None:
    text = b"a\xff\xfeb"
    assert Reply.unpack(REPLY.pack(1, 0, len(text)) + text).text == "a\ufffd\ufffdb"


def test_layout_is_little_endian_and_fixed() -> None:
    """Not only Python reads these bytes."""
    assert (REQUEST.size, protocol.ARGUMENT.size, REPLY.size) == (24, 8 + 4 * 8 + 16 * 8, 16)
    request = Request(Operation.plan, 258, (Argument(kind=Kind.int64, scalar=-2),)).pack()
    assert request[:4] == b"WGRP"
    assert request[8:16] == (258).to_bytes(8, "little")
    assert request[24 + 32 : 24 + 40] == (-2).to_bytes(8, "little", signed=True)


def test_worker_imports_nothing_of_the_grader() -> None:
    """Relative imports reach its own folder only; absolute ones name no package of ours."""
    files = sorted(WORKER.glob("*.py"))
    assert len(files) > 5
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level <= 1, f"{file.name}:{node.lineno} reaches out of its folder"
                names = [node.module or ""] if node.level == 0 else []
            ours = {"grader", "reference", "assignment", "tests"}
            assert not {name.split(".")[0] for name in names} & ours, (
                f"{file.name}:{getattr(node, 'lineno', 0)}"
            )


def test_protocol_needs_only_the_standard_library() -> None:
    tree = ast.parse((WORKER / "protocol.py").read_text())
    modules = {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    modules |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert {module.split(".")[0] for module in modules} <= set(sys.stdlib_module_names)
