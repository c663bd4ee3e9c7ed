"""Inline assembly is translated exactly, or not at all."""

from __future__ import annotations

import time

import pytest

from grader.emulator import ptx, tokens

# Lawful statements that would do something else if they were translated like their neighbours.
DOUBTFUL = [
    # The compiler may merge these, move them over stores and barriers, or delete them.
    'asm("shfl.sync.bfly.b32 %0, %1, 1, 31, -1;" : "=r"(x) : "r"(y))',
    'asm("ld.global.f32 %0, [%1];" : "=f"(x) : "l"(p))',
    'asm("activemask.b32 %0;" : "=r"(x))',
    # Other functions, types and sizes.
    'asm("popc.b64 %0, %1;" : "=r"(x) : "l"(y))',
    'asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(x) : "d"(y))',
    'asm("tanh.approx.bf16 %0, %1;" : "=h"(x) : "h"(y))',
    'asm("mul.hi.u32 %0, %1, %1;" : "=r"(x) : "r"(y))',
    'asm("cvt.rn.relu.bf16x2.f32 %0, %1, %1;" : "=r"(x) : "f"(y))',
    'asm("mov.b64 %0, {%1, %1};" : "=l"(x) : "r"(y))',
    'asm("add.sat.s32 %0, %1, %1;" : "=r"(x) : "r"(y))',
    'asm("add.cc.u32 %0, %1, %1;" : "=r"(x) : "r"(y))',
    'asm("fma.rz.f32 %0, %1, %1, %1;" : "=f"(x) : "f"(y))',
    'asm("cvt.rn.satfinite.f16.f32 %0, %1;" : "=h"(x) : "f"(y))',
    'asm("prmt.b32.f4e %0, %1, %1, 0;" : "=r"(x) : "r"(y))',
    'asm("redux.sync.add.s32 %0, %1, -1;" : "=r"(x) : "r"(y))',
    'asm volatile("redux.sync.min.abs.f32 %0, %1, -1;" : "=f"(x) : "f"(y))',
    'asm volatile("match.all.sync.b32 %0|p, %1, -1;" : "=r"(x) : "r"(y))',
    'asm volatile("ld.global.v4.f64 {%0, %1, %2, %3}, [%4];" : "=d"(x), "=d"(x), "=d"(x), "=d"(x)'
    ' : "l"(p))',
    # Other threads, lanes and orders.
    'asm volatile("barrier.arrive 0;" ::: "memory")',
    'asm volatile("bar.sync 1, 64, 3;" ::: "memory")',
    'asm volatile("bar.red.popc.u32 %0, 1, p;" : "=r"(x) :: "memory")',
    'asm volatile("shfl.sync.down.b32 %0, %1, 1, 0x101f, -1;" : "=r"(x) : "r"(y))',
    'asm volatile("shfl.sync.bfly.b32 %0, %1, 1, %2, -1;" : "=r"(x) : "r"(y), "r"(31))',
    'asm volatile("ld.acquire.cluster.u32 %0, [%1];" : "=r"(x) : "l"(p))',
    'asm volatile("atom.inc.u32 %0, [%1], 3;" : "=r"(x) : "l"(p))',
    'asm volatile("fence.proxy.async;" ::: "memory")',
    'asm volatile("prefetch.tensormap [%0];" :: "l"(p))',
    'asm volatile("prefetch.global.L2 %0;" :: "l"(p))',
    # The last operand isn't a number of bytes.
    'asm volatile("{.reg .pred p; cp.async.ca.shared.global [%0], [%1], 4, p;}" :: "r"(s), "l"(p))',
    'asm volatile("cp.async.cg.shared.global [%0], [%1], 4;" :: "r"(s), "l"(p))',
    # Control flow, scopes and names.
    'asm("L: mov.u32 %0, 1;" : "=r"(x))',
    'asm("{{ .reg .u32 a; } mov.u32 %0, a; }" : "=r"(x))',
    'asm("/* mov.u32 %0, 1; */" : "=r"(x))',
    'asm("mov.u32 %0, %1;" : "=r"(x) : "0"(y))',
    'asm("mov.u32 %0, %1;" : "=r"(x) : "r"(R"(\\n)"[0]))',
    'asm("mov.u32 %0, put;" : "=r"(x))',
    # The compiler reads a line break there, which ends a comment.
    r'asm("mov.u32 %0, 0; // \x0a mov.u32 %0, 7;" : "=r"(x))',
    r'asm("mov.u32 %0, 0; // \012 mov.u32 %0, 7;" : "=r"(x))',
    r'asm("mov.u32 %0, 0; // \r mov.u32 %0, 7;" : "=r"(x))',
    r'asm("mov.u32 %0, 0; // \v mov.u32 %0, 7;" : "=r"(x))',
    r'asm("mov.u32 %0, 0; /\x2a mov.u32 %0, 7; \x2a/" : "=r"(x))',
]


def translated(text: str, macros: tuple[str, ...] = ()) -> str | None:
    edit = ptx.rewrite(tokens.read(text).code.tokens, 0, macros)
    return edit.text if edit else None


@pytest.mark.parametrize("text", DOUBTFUL)
def test_a_doubtful_statement_is_not_translated(text: str) -> None:
    assert translated(text) is None


@pytest.mark.parametrize("constraint", ["=&f", "+&f"])
def test_an_operand_with_a_register_of_its_own_is_translated_as_any(constraint: str) -> None:
    text = 'asm("add.f32 %0, %0, %1; mul.f32 %0, %0, %1;" : "{}"(x) : "f"(y))'
    made = translated(text.format(constraint))
    assert made is not None
    assert made == translated(text.format(constraint.replace("&", "")))


def test_a_macro_of_the_file_cannot_change_a_translation() -> None:
    text = 'asm("mov.u32 %0, 7;" : "=r"(put))'
    assert translated(text) is not None
    assert translated(text, ("put",)) is None
    assert translated(text, ("auto",)) is None


@pytest.mark.parametrize("expression", ["i++", "a && b", "a < b", "c >> 1"])
def test_operands_stay_as_they_are(expression: str) -> None:
    made = translated(f'asm("add.s32 %0, %1, %2;" : "=r"(x) : "r"({expression}), "r"(c >> 2))')
    assert made is not None
    assert made.count(f"_1 = ({expression});") == made.count("_2 = (c >> 2);") == 1
    assert made.count("= (x);") == 1


@pytest.mark.parametrize(
    "text",
    [
        "asm(" * 100_000,
        'asm("' + "{" * 200_000 + "}" * 200_000 + '")',
        'asm("' + "/*" * 200_000 + '")',
        'asm("mov.u32 ' + "{," * 200_000 + '")',
        'asm("ld' + ".ca" * 100_000 + '.f32 %0, [%1];")',
        'asm("{.reg .u32 ' + ",".join(f"r{i}" for i in range(50_000)) + ';}")',
        'asm("x" : "=r"(' + "(" * 100_000,
    ],
)
def test_strange_text_takes_little_time(text: str) -> None:
    run = tokens.read(text).code.tokens
    begin = time.monotonic()
    for i, token in enumerate(run):
        if token.text == "asm":
            ptx.rewrite(run, i)
    assert time.monotonic() - begin < 2
