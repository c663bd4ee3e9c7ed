"""How a kernel's warps access memory, read from what the compiler wrote."""

from __future__ import annotations

import inspect
import json
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from grader.executors.compile.warp_layouts import parse
from grader.worker.compile.access_layouts import MAX_ACCESSES, MAX_TEXT, read_layouts
from grader.worker.compile.backend import compile_layouts
from grader.worker.ttir.warp_requests import of_json
from tests.grader.worker.ttir.launches import BASE, access

BY_16 = [["tt.divisibility", 16]]


@triton.jit
def copy(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v, mask=i < n)


@triton.jit
def row(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i * n + tl.load(x).to(tl.int32))
    tl.store(out + i, tl.sum(tl.load(x + i[:, None] * n + i[None, :]), axis=0) + v)


@triton.jit
def transpose(x, out, R, C, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    m = (r[:, None] < R) & (c[None, :] < C)
    v = tl.load(x + r[:, None] * C + c[None, :], mask=m)
    tl.store(out + c[None, :] * R + r[:, None], v, mask=m)


@triton.jit
def product(x, out, K, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        a = tl.load(x + i[:, None] * K + (k + i)[None, :])
        acc += tl.dot(a, a)
    tl.store(out + i[:, None] * B + i[None, :], acc)


def assembly(kernel: Any, block: int, odd: tuple[str, ...] = (), dtype: str = "fp32") -> dict:
    """What the stages make of a kernel, of whose arguments all but `odd` divide by 16."""
    names = list(inspect.signature(kernel.fn).parameters)
    types = {
        name: f"*{dtype}" if name in ("x", "out") else "constexpr" if name == "B" else "i32"
        for name in names
    }
    known = {(place,): BY_16 for place, name in enumerate(names[:-1]) if name not in odd}
    source = ASTSource(kernel, types, {(len(names) - 1,): block}, known)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm


def accesses(made: dict) -> dict[str, dict]:
    """The accesses by kind, without their lines; the grader's reader must accept them."""
    told = read_layouts(made["ttgir"], made["llir"])
    assert parse(json.dumps(told)) is not None
    return {each.pop("kind"): each for each in told["accesses"] if each.pop("line")}


@pytest.mark.parametrize(
    ("odd", "loaded", "stored"),
    [((), 16, 16), (("x",), 4, 16), (("n",), 4, 4), (("out",), 16, 4)],
)
def test_alignment_says_how_much_an_instruction_takes(odd, loaded, stored):
    found = accesses(assembly(copy, 1024, odd))
    assert (found["load"]["bytes"], found["store"]["bytes"]) == (loaded, stored)


def test_both_sides_of_a_transpose():
    found = accesses(assembly(transpose, 64))
    assert found["load"] == {
        "shape": [64, 64],
        "size_per_thread": [1, 4],
        "threads_per_warp": [2, 16],
        "warps": [4, 1],
        "order": [1, 0],
        "copies": 1,
        "bytes": 16,
    }
    assert found["store"]["size_per_thread"] == [4, 1]
    assert found["store"]["order"] == [0, 1]
    assert accesses(assembly(transpose, 64, ("R", "C")))["load"]["bytes"] == 4


def test_warps_load_copies_and_store_none():
    found = accesses(assembly(copy, 64))
    assert (found["load"]["copies"], found["store"]["copies"]) == (2, 1)


def test_what_is_loaded_ahead_of_time_is_loaded_once():
    found = accesses(assembly(product, 32, dtype="fp16"))
    assert found["load"]["bytes"] == 16
    assert found["load"]["copies"] == 1


@pytest.mark.parametrize(
    ("kernel", "block", "odd"),
    [
        (copy, 1024, ()),
        (copy, 1024, ("n",)),
        (copy, 64, ()),
        (transpose, 64, ("C",)),
        (row, 64, ()),
    ],
)
def test_a_program_makes_as_many_requests_as_its_warps_have_instructions(kernel, block, odd):
    made = assembly(kernel, block, odd)
    loads = [line for line in made["llir"].split("\n") if "ld.global" in line]
    layouts = of_json(read_layouts(made["ttgir"], made["llir"]))
    scalars = made["ttgir"].count("tt.load %x :")
    requests = scalars * layouts.counted(access("load", 1, [BASE])).requests
    for line, kind, shape in layouts.by_place:
        if kind == "load":
            at = BASE + 4 * np.arange(np.prod(shape)).reshape(1, *shape)
            requests += layouts.counted(access("load", line, at)).requests
    assert requests == 4 * len(loads)


# --- texts ----------------------------------------------------------------------------------------

TTGIR = """
#blocked = #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#blocked1 = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [2, 2], order = [1, 0]}>
#linear = #ttg.linear<{register = [[1]], lane = [[2]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32} {
    %2 = tt.atomic_rmw fadd, acq_rel, gpu, %1, %v : (tensor<1024x!tt.ptr<f16>, #blocked>, tensor<1024xf16, #blocked>) -> tensor<1024xf16, #blocked> loc(#loc4)
    %3 = tt.load %1 : tensor<1024x!tt.ptr<f16>, #linear> loc(#loc3)
    %4 = tt.load %9 : !tt.ptr<f16> loc(#loc3)
    %5 = tt.load %8 : tensor<32x!tt.ptr<f32>, #ttg.slice<{dim = 0, parent = #blocked1}>> loc(#loc5)
}
#loc1 = loc("/usr/lib/triton/language/standard.py":400:9)
#loc2 = loc("kernel.py":15:5)
#loc3 = loc("v"(#loc2))
#loc4 = loc(callsite(#loc1 at #loc3))
#loc5 = loc("kernel.py":16:5)
"""  # noqa: E501
LLIR = """
  %1 = tail call i32 asm sideeffect "@$3 atom.global.gpu.acq_rel.add.noftz.f16x2 $0, [ $1 + 0 ], $2;", "=r,l,r,b"(i32 %7) #2, !dbg !6
  %2 = tail call i32 asm sideeffect "ld.global.L1::evict_last.v4.b32 { $0 }, [ $1 + 0 ];", "=r,l"(ptr %1) #2, !dbg !7
!1 = !DIFile(filename: "kernel.py", directory: "")
!2 = !DIFile(filename: "standard.py", directory: "/usr/lib/triton/language")
!3 = distinct !DISubprogram(name: "kernel", scope: !1, file: !1, line: 3)
!4 = distinct !DISubprogram(name: "histogram", scope: !2, file: !2, line: 390)
!5 = distinct !DILocation(line: 15, column: 5, scope: !3)
!6 = !DILocation(line: 400, column: 9, scope: !4, inlinedAt: !5)
!7 = !DILocation(line: 16, column: 5, scope: !3)
"""  # noqa: E501


def found(ttgir: str = TTGIR, llir: str = LLIR) -> list[tuple]:
    """(line, kind, bytes, copies) of the accesses of two texts."""
    told = read_layouts(ttgir, llir)["accesses"]
    return [tuple(each[name] for name in ("line", "kind", "bytes", "copies")) for each in told]


def test_a_call_of_the_library_is_at_the_callers_line():
    assert found() == [(15, "atomic", 4, 1), (16, "load", 16, 4)]


def test_a_slice_lacks_a_dimension():
    [_, slice_] = read_layouts(TTGIR, LLIR)["accesses"]
    assert slice_["shape"] == [32]
    assert [slice_[name] for name in ("size_per_thread", "threads_per_warp", "warps", "order")] == [
        [4],
        [8],
        [2],
        [0],
    ]
    parent = TTGIR.replace("dim = 0", "dim = 1")
    assert read_layouts(parent, LLIR)["accesses"][1]["threads_per_warp"] == [4]


def test_what_two_places_tell_differently_is_left_out():
    other = LLIR.replace('asm sideeffect "ld.global', 'asm sideeffect "ld.global.b32;ld.global')
    twice = LLIR + next(line for line in other.split("\n") if "b32;" in line).replace(
        "L1::evict_last.v4.", ""
    )
    assert found(llir=twice) == [(15, "atomic", 4, 1)]
    block = "    %6 = tt.load %7 : tensor<32x!tt.ptr<f32>, #blocked> loc(#loc5)\n}"
    assert found(TTGIR.replace("\n}\n", f"\n{block}\n", 1)) == [(15, "atomic", 4, 1)]


def test_an_access_without_an_instruction_is_left_out():
    assert found(llir="") == []


def test_locations_in_a_circle_lead_nowhere():
    circle = TTGIR.replace('"v"(#loc2)', "callsite(#loc4 at #loc3)")
    assert found(circle, LLIR.replace("scope: !3)", "scope: !4, inlinedAt: !5)")) == []


@pytest.mark.parametrize("attribute", ['"ttg.num-ctas" = 1', '"ttg.num-warps" = 4'])
def test_a_kernel_of_clusters_has_no_layouts(attribute):
    with pytest.raises(ValueError, match="clusters"):
        read_layouts(TTGIR.replace(attribute, attribute[:-1] + "x"), LLIR)


def test_texts_and_answers_are_bounded():
    with pytest.raises(ValueError, match="characters"):
        read_layouts(TTGIR, " " * (MAX_TEXT + 1))
    load = next(line for line in TTGIR.split("\n") if "slice" in line)
    many = TTGIR.replace(
        load, "\n".join(load.replace("loc5", f"loc{n}") for n in range(10, 2 * MAX_ACCESSES))
    )
    lines = "\n".join(f'#loc{n} = loc("kernel.py":{n}:5)' for n in range(10, 2 * MAX_ACCESSES))
    asm = next(line for line in LLIR.split("\n") if "ld.global" in line)
    debug = "\n".join(
        f"{asm.replace('!7', f'!{n}')}\n!{n} = !DILocation(line: {n}, column: 5, scope: !3)"
        for n in range(10, 2 * MAX_ACCESSES)
    )
    assert len(found(many + lines, LLIR + debug)) == MAX_ACCESSES


def test_text_that_is_no_kernel_has_an_error():
    assert "without a kernel" in compile_layouts("module {}", {})["error"]["message"]
