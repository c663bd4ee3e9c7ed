"""The reader of TTIR takes untrusted text: it is quick, bounded, and says what is wrong."""

from __future__ import annotations

import contextlib
import random
import re
import sys
from pathlib import Path

import pytest

from grader.worker.compile import origins
from grader.worker.ttir import names, scanning, types
from grader.worker.ttir import text as reader
from grader.worker.ttir.errors import LimitExceeded, MalformedIR, NotModelled
from grader.worker.ttir.executor import Launch, execute
from grader.worker.ttir.ir import UNKNOWN
from grader.worker.ttir.locations import Locations
from grader.worker.ttir.memory import Memory
from grader.worker.ttir.state import Limits
from grader.worker.ttir.text import read
from grader.worker.ttir.types import parse_type

GOLDEN = Path(__file__).parent / "golden" / "3.9.0"
HEAD = "module {\n  tt.func public @k(%x: !tt.ptr<f32>, %n: i32) {\n"
TAIL = "    tt.return\n  }\n}\n"


LONG = 20_000  # characters
MOST_STEPS = 40  # for each of them


class _Work:
    """Counts the steps that the reader of TTIR makes."""

    def __init__(self):
        self.steps = 0

    def count_patterns(self, monkeypatch):
        """Count the characters that regular expressions look at."""
        for module in (reader, scanning, types, origins, names):
            for name, value in vars(module).items():
                if isinstance(value, re.Pattern):
                    monkeypatch.setattr(module, name, _Counted(value, self))

    @contextlib.contextmanager
    def counting_lines(self):
        """Count the lines of Python that run meanwhile."""

        def step(frame, event, argument):
            self.steps += 1
            return step

        before = sys.gettrace()
        sys.settrace(step)
        try:
            yield
        finally:
            sys.settrace(before)


class _Counted:
    """A pattern that counts."""

    def __init__(self, pattern, work):
        self._pattern, self._work = pattern, work

    def __getattr__(self, name):
        def look(*given):
            text, start = given[-1] if name == "sub" else given[0], 0
            if name in ("match", "fullmatch", "search") and len(given) > 1:
                start = given[1]
            found = getattr(self._pattern, name)(*given)
            is_match = isinstance(found, re.Match)
            self._work.steps += (found.end() if is_match else len(text)) - start
            return found

        return look


def _kernel(*lines):
    return HEAD + "".join(f"    {line}\n" for line in lines) + TAIL


@pytest.mark.parametrize(
    "text",
    [
        "",
        "module {",
        "import os",
        HEAD,
        _kernel("%a = arith.addi %b, %n : i32"),
        _kernel("%a = arith.addi %n, %n"),
        _kernel("%a, %b = arith.addi %n, %n : i32 -> (i32, i32, i32)"),
        _kernel("%a = tt.splat %n : i32 -> tensor<0xi32>"),
        _kernel("%a = tt.splat %n : i32 -> tensor<4x"),
        _kernel("%a = tt.splat %n : i32 -> tensor<4x__import__('os')>"),
        _kernel("^bb1(%a: i32", "cf.br ^bb1"),
        _kernel("cf.br ^nowhere"),
        _kernel("scf.for %i = %n to %n step {", "}"),
        _kernel("scf.if %n {"),
        _kernel("}"),
        HEAD + TAIL + HEAD.replace("module {", "") + TAIL,
        HEAD.replace("public", "private") + TAIL,
    ],
)
def test_what_is_no_ttir_is_refused(text):
    with pytest.raises((MalformedIR, NotModelled)):
        read(text)


def _run(text, **limits):
    launch = Launch(read(text), (1, 1, 1), [0, 5])
    return execute(launch, Memory(), limits=Limits(**limits))


@pytest.mark.parametrize(
    "lines",
    [
        ["%a = arith.constant dense<[1, 2]> : tensor<4xi32>"],
        ['%a = arith.constant dense<"0x00"> : tensor<4xi32>'],
        ["%a = arith.constant 1e : f32"],
        ["%a = arith.constant " + "9" * 5000 + " : i32"],
        ["%a = tt.make_range {end = 9 : i32, start = 0 : i32} : tensor<4xi32>"],
        ["%a = tt.get_program_id w : i32"],
        ["%a = tt.call @k(%x) : (!tt.ptr<f32>) -> i32"],
        ["%a = tt.call @nobody(%n) : (i32) -> i32"],
        ["%a = tt.splat %n : i32 -> tensor<4xi32>", "%b = arith.addi %a, %x : tensor<4xi32>",
         "%c = tt.trans %a {order = array<i32: 5, 0>} : tensor<4xi32> -> tensor<4xi32>"],
        ["scf.for %i = %n to %n step %z : i32 {", "}"],
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(lines):
    with pytest.raises((MalformedIR, NotModelled)):
        _run(_kernel(*lines))


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["%a = tt.frobnicate %n : i32"], "tt.frobnicate"),
        (['%a = tt.extern_elementwise %n {symbol = "system"} : (i32) -> i32'], "system"),
        (['%a = tt.elementwise_inline_asm "bar;" {pure = false} : i32'], "inline assembly"),
        (["%a = arith.constant 1 : i256"], "i256"),
    ],
)
def test_what_isnt_modelled_is_named(lines, what):
    with pytest.raises(NotModelled, match=what):
        _run(_kernel(*lines))


def test_waits_for_other_grids_as_inline_assembly_change_nothing():
    words = '{constraints = "=r", packed_element = 1 : i32, pure = false} -> i32'
    _run(
        _kernel(
            f'%a = tt.elementwise_inline_asm "griddepcontrol.wait; // dummy $0" {words}',
            f'%b = tt.elementwise_inline_asm "griddepcontrol.launch_dependents;" {words}',
        )
    )
    with pytest.raises(NotModelled, match="inline assembly"):
        _run(_kernel(f'%a = tt.elementwise_inline_asm "bar.sync 0;" {words}'))


def test_recursion_is_bounded():
    function = "tt.func private @f(%a: i32) -> i32 {\n%b = tt.call @f(%a) : (i32) -> i32\n"
    function += "tt.return %b : i32\n}\n"
    text = _kernel("%a = tt.call @f(%n) : (i32) -> i32").removesuffix("}\n") + function + "}\n"
    with pytest.raises(LimitExceeded, match="nested"):
        _run(text)


def test_nesting_is_bounded():
    deep = ["%c = arith.constant true"] + ["scf.if %c {"] * 500 + ["}"] * 500
    with pytest.raises(LimitExceeded, match="nested"):
        read(_kernel(*deep))


def test_sizes_are_bounded():
    with pytest.raises(LimitExceeded, match="elements of a block"):
        read(_kernel("%a = tt.splat %n : i32 -> tensor<65536x65536xi32>"))
    with pytest.raises(LimitExceeded, match="characters"):
        read("#" * (reader.MAX_TEXT + 1))
    with pytest.raises(LimitExceeded, match="operations in a kernel"):
        read(_kernel(*["tt.return"] * (reader.MAX_OPERATIONS + 1)))


@pytest.mark.parametrize(
    "part",
    [
        *(
            '"',
            "%a = ",
            " : ",
            "<",
            "tensor<",
            "loc(",
            "callsite(",
            "\\",
            "a = ",
            "x = 1, ",
            "((",
            "%",
        ),
        *("-> ", "1x", "a", "1", "a.", "^b("),
    ],
)
def test_long_lines_take_linear_time(part, monkeypatch):
    """Each character is read so often that it can be counted: by lines of Python, and by patterns.

    A pattern that doesn't match is taken to have looked at the whole rest.
    """
    work = _Work()
    work.count_patterns(monkeypatch)
    long = part * (LONG // len(part))
    for line in (long, f"%a = tt.reshape {long}", f"%a = arith.addi %n, %n : {long}",
                 f"#loc1 = loc({long})", f"%a = tt.load %x loc({long})"):  # fmt: skip
        whole = _kernel(line, "%b = arith.addi %a, %n : i64, i32, i8 loc(#loc1)")
        work.steps = 0
        with work.counting_lines(), pytest.raises((MalformedIR, NotModelled, LimitExceeded)):
            read(whole)
        assert 0 < work.steps < MOST_STEPS * len(whole), line[:40]


def test_damaged_text_never_breaks_the_reader():
    generator = random.Random(7)
    whole = (GOLDEN / "control.ttir").read_text()
    for _ in range(150):
        letters = list(whole)
        for _ in range(generator.randint(1, 12)):
            place = generator.randrange(len(letters))
            action = generator.randrange(3)
            if action == 0:
                del letters[place]
            elif action == 1:
                letters[place] = generator.choice('%<>(){}[]":,=#^0123456789abc \n')
            else:
                start = generator.randrange(len(letters))
                letters[place:place] = letters[start : start + generator.randint(1, 200)]
        try:
            module = read("".join(letters))
            execute(Launch(module, (2, 1, 1), [0, 0, 0, 40]), Memory(), limits=Limits(steps=3000))
        except (MalformedIR, NotModelled, LimitExceeded):
            pass


def test_types():
    assert str(parse_type("tensor<4x8x!tt.ptr<f16>>")) == "4x8xptr<f16>"
    assert parse_type("!tt.ptr<f32, 3>").pointee == "f32"
    assert parse_type("!tt.tensordesc<tensor<16x32xbf16>>") == parse_type(
        "!tt.tensordesc<16x32xbf16>"
    )
    assert parse_type("!tt.ptr<tensor<8x8xf32>>").shape == (8, 8)


def test_locations():
    places = Locations({
        "#loc1": '"a.py":7:3',
        "#loc2": '"/x/triton/language/standard.py":40:1',
        "#loc3": "callsite(#loc2 at #loc1)",
        "#loc4": '"name"(#loc3)',
        "#loc5": "callsite(#loc1 at #loc6)",
        "#loc6": '"b.py":9:1',
        "#loc7": "#loc8",
        "#loc8": "#loc7",
        "#loc9": "fused<#x>[#loc6, #loc1]",
    })  # fmt: skip
    assert places.place("#loc4") == ("a.py", 7)
    assert places.place("#loc5") == ("a.py", 7)
    assert places.place('callsite("v"(#loc2) at callsite(#loc2 at #loc6))') == ("b.py", 9)
    assert places.place("#loc7") == UNKNOWN
    assert places.place("#loc9") == ("b.py", 9)
    assert places.place("unknown") == UNKNOWN


def test_locations_that_share_a_long_one_take_few_steps(monkeypatch):
    """Each name is another location's, whose parts are read once."""
    work = _Work()
    work.count_patterns(monkeypatch)
    shared = ", ".join(["#loc1"] * 280)
    names_of_it = [f"#loc{number}" for number in range(2, LONG // 40)]
    aliases = {"#loc1": f"fused[{shared}]", **dict.fromkeys(names_of_it, "#loc1")}
    places = Locations(aliases)
    with work.counting_lines():
        assert {places.place(name) for name in names_of_it} == {UNKNOWN}
    assert work.steps < MOST_STEPS * LONG


def test_an_array_without_numbers_is_empty():
    read_attributes = scanning.attributes("boundaryCheck = array<i32>, order = array<i32: 1, 0>")
    assert read_attributes == {"boundaryCheck": (), "order": (1, 0)}
