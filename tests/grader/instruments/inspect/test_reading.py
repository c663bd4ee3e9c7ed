"""Texts of compilers and disassemblers, read: lines through inlined calls, loops, what differs
within a warp; and that nothing untrusted makes the reading fail or grow."""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from grader.executors.cuda.joining import Joined
from grader.instruments.inspect import compiling, divergence, ptx, sass, statements
from grader.instruments.inspect.accesses import accesses, blocks
from grader.instruments.inspect.device_code import CudaCode
from grader.instruments.inspect.divergence import THREAD
from grader.instruments.inspect.statements import Files, Place, Statement

FILES = Files({"k.py", "k.cu"})
OURS = "/tmp/warpgrade-x/submission/k.py"
THEIRS = "/usr/lib/triton/language/standard.py"


def lines_of(statements) -> list[int | None]:
    return [each.place.line if each.place else None for each in statements]


# --- places ---------------------------------------------------------------------------------------


def test_a_place_is_a_line_of_the_submissions_own_file():
    assert FILES.place(OURS, 3) == Place("k.py", 3)
    assert FILES.place("k.cu", 3) == Place("k.cu", 3)
    assert FILES.place("/usr/lib/triton/k.py", 3) is None
    assert FILES.place(THEIRS, 3) is None and FILES.place(OURS, 0) is None


def test_a_line_of_a_joined_text_is_one_of_the_file_that_it_comes_from():
    lab = Joined("k.cu", b"", [("a.cuh", 1), ("a.cuh", 2), ("k.cu", 2)])
    files = Files({"k.cu", "a.cuh"}, lab)
    assert files.place("/tmp/warpgrade-x/submission/k.cu", 2) == Place("a.cuh", 2)
    assert files.place("k.cu", 3) == Place("k.cu", 2)
    assert files.place("/usr/include/k.cu", 2) is None


def test_mlir_names_the_innermost_line_of_the_submission_and_hides_locations():
    text = f"""#loc1 = loc("{OURS}":7:3)
module {{
  %0 = tt.load %x : !tt.ptr<f32> loc(#loc4)
  %1 = math.exp %0 : f32 loc(#loc5)
  %2 = arith.addf %0, %1 : f32 loc(#loc6)
}} loc(#loc)
#loc2 = loc("{THEIRS}":50:3)
#loc3 = loc("{OURS}":20:3)
#loc4 = loc("x"(#loc1))
#loc5 = loc(callsite(#loc2 at #loc3))
#loc6 = loc(callsite(#loc1 at #loc3))
"""
    read = statements.read_mlir(text, FILES)
    assert lines_of(read) == [None, 7, 20, 7, None]
    assert not any("loc(" in each.text for each in read)


def test_llvm_names_the_innermost_line_of_the_submission():
    text = f"""define void @k() !dbg !4 {{
  %1 = load i32, ptr %0, align 4, !dbg !5
  %2 = fadd float %a, %b, !dbg !7
}}
!1 = !DIFile(filename: "k.py", directory: "/tmp/warpgrade-x/submission")
!2 = !DIFile(filename: "standard.py", directory: "{THEIRS.rpartition("/")[0]}")
!4 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 5)
!5 = !DILocation(line: 9, column: 3, scope: !4)
!6 = distinct !DISubprogram(name: "sum", scope: !2, file: !2, line: 5)
!7 = !DILocation(line: 50, column: 3, scope: !6, inlinedAt: !5)
"""
    read = statements.read_llvm(text, FILES)
    assert lines_of(read)[1:3] == [9, 9] and "!dbg" not in read[1].text


PTX = f"""
.visible .entry k(
	.param .u64 k_param_0
)
{{
	.loc	1 6 1
	mov.u32 	%r1, %tid.x;
	.loc	1 7 5                           // k.py:7:5
	// begin inline asm
	.loc	1 7 5
	mov.u32 %r2, 0x0;
	.loc	1 8 5
	@%p1 ld.global.v4.b32 {{ %r1, %r2, %r3, %r4 }}, [ %rd1 + 0 ];
	// end inline asm
	.loc	2 50 1, function_name $L__info_string0, inlined_at 1 9 5
	ex2.approx.f32 	%r9, %r8;
$L__BB0_1:
	add.s32 	%r5, %r5, 1;
$L__BB0_2:
	rem.s32 	%r6, %r5, %r7;
	setp.lt.s32 	%p2, %r6, %r1;
	@%p2 bra 	$L__BB0_2;
	bra.uni 	$L__BB0_1;
}}
	.file	1 "{OURS}"
	.file	2 "{THEIRS}"
	.section	.debug_info
	.b8 1
"""


def test_ptx_inside_of_assembly_keeps_the_line_before_it():
    program = ptx.read(PTX, FILES)
    named = {each.opcode: each.place for each in program.of("k") if each.place}
    assert named["ld.global.v4.b32"] == Place("k.py", 7)
    assert named["ex2.approx.f32"] == Place("k.py", 9)
    load = next(each for each in program.instructions if each.opcode == "ld.global.v4.b32")
    assert load.guard == "%p1"
    assert not any(".b8" in each.text for each in program.instructions)


def test_loops_of_ptx_are_from_a_label_to_the_last_branch_back():
    instructions = ptx.read(PTX, FILES).of("k")
    found = ptx.loops(instructions)
    assert len(found) == 2
    (inner,) = ptx.innermost(found)
    remainder = next(each for each in instructions if each.opcode == "rem.s32")
    addition = next(each for each in instructions if each.opcode == "add.s32")
    assert inner.has(remainder.number) and not inner.has(addition.number)


SASS = f"""
	.section	.text.k,"ax",@progbits
.text.k:
	//## File "{OURS}", line 6
	//## File ".nv_debug_ptx_txt", line 7
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_1:
	//## File "{OURS}", line 8
	//## File ".nv_debug_ptx_txt", line 13
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;
	//## File "{THEIRS}", line 50 inlined at "{OURS}", line 9
	//## File "{OURS}", line 9
	//## File ".nv_debug_ptx_txt", line 17
        /*0020*/                   MUFU.EX2 R9, R8 ;
        /*0030*/               @P1 BRA `(.L_x_1) ;
        /*0040*/                   EXIT ;
.L_x_0:
        /*0050*/                   BRA `(.L_x_0);
        /*0060*/                   NOP;
	.section	.text.other,"ax",@progbits
        /*0000*/                   EXIT ;
"""


def test_sass_takes_the_line_of_assembly_from_ptx_and_ends_before_the_padding():
    read = sass.read(SASS, "k", FILES, ptx.read(PTX, FILES))
    assert [each.opcode for each in read] == ["S2R", "LDG.E.128", "MUFU.EX2", "BRA", "EXIT"]
    assert lines_of(read) == [6, 7, 9, 9, 9]
    assert (read[1].guard, read[3].target) == ("!P0", 0x10)
    assert sass.in_loops(read) == {0x10, 0x20, 0x30}
    (other,) = sass.read(SASS, "other", FILES, ptx.read("", FILES))
    assert other.opcode == "EXIT"


@pytest.mark.parametrize(
    ("opcode", "width"),
    [
        ("LDG.E", 4),
        ("LDG.E.U16", 2),
        ("LDG.E.S8.CONSTANT", 1),
        ("LDG.E.64", 8),
        ("LDG.E.LTC128B.128", 16),
        ("LDG.E.LTC128B", 4),
        ("STG.E.128", 16),
        ("LDGSTS.E.BYPASS.128", 16),
    ],
)
def test_the_width_is_a_part_of_an_instructions_name(opcode: str, width: int):
    (found,) = accesses([sass.Instruction(f"@P0 {opcode} R4, [R2]", Place("k.py", 1))])
    assert found.bytes == width


def test_blocks_of_ttgir_have_elements_and_bytes():
    place = Place("k.py", 1)
    lines = [
        "%1 = tt.load %0, %m : tensor<64x32x!tt.ptr<bf16>, #blocked>",
        "%1 = tt.load %0 : !tt.ptr<f32>",
        "tt.store %0, %v : tensor<128x!tt.ptr<i1>, #blocked>",
    ]
    found = blocks([Statement(text, place) for text in lines])
    assert (found[place, "load"].elements, found[place, "load"].bytes) == (2048, 2)
    assert found[place, "store"].bytes == 1
    assert found[place, "load"].of_thread(128) == 16


# --- what differs within a warp -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("mov.u32 %r1, %tid.x; setp.lt.s32 %p1, %r1, 16;", {THREAD}),
        ("mov.u32 %r1, %tid.x; setp.lt.s32 %p1, %r1, 64;", set()),
        ("mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 31;", set()),
        ("mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.s32 %p1, %r2, 0;", set()),
        ("mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 96; setp.eq.s32 %p1, %r2, 0;", set()),
        ("mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; setp.eq.s32 %p1, %r2, 0;", {THREAD}),
        ("mov.u32 %r1, %ctaid.x; setp.lt.s32 %p1, %r1, 16;", set()),
        ("mov.u32 %r1, %tid.y; setp.lt.s32 %p1, %r1, 16;", set()),
        (
            "mov.u32 %r1, %tid.x; ld.global.f32 %f1, [%r1]; setp.gt.f32 %p1, %f1, 0f0;",
            {divergence.DATA},
        ),
        ("ld.global.f32 %f1, [%rd1]; setp.gt.f32 %p1, %f1, 0f0;", set()),
        (
            "mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; setp.eq.s32 %p1, %r2, 0;",
            set(),
        ),
    ],
)  # fmt: skip
def test_a_condition_differs_where_it_comes_from_a_thread(code: str, kinds: set[str]):
    text = "\n".join([".visible .entry k(", ")", "{", *code.split("; "), "}"])
    instructions = ptx.read(text, FILES).of("k")
    values = divergence.differing(instructions, (64, 4, 1))
    assert values.get("%p1", frozenset()) == kinds


# --- untrusted answers ----------------------------------------------------------------------------


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def test_an_answer_is_unpacked():
    assert compiling.unpacked(packed(json.dumps({"sass": "EXIT"}).encode())) == {"sass": "EXIT"}


@pytest.mark.parametrize("answer", [None, 3, "x", "eA==", packed(b"[1]"), packed(b"{"), "ü"])
def test_an_answer_that_makes_no_sense_has_no_fields(answer: object):
    assert compiling.unpacked(answer) == {}


def test_an_answer_that_unpacks_to_too_much_is_not_read():
    assert compiling.unpacked(packed(b" " * (compiling.MAX_TEXT_BYTES + 1))) == {}


@pytest.mark.parametrize(
    "text", ["", "\0", "loc(" * 1000, "@ @ ;", "/*0000*/ ;", ".loc\t1", "!1 = "]
)
def test_text_that_is_none_of_a_compilers_is_read_without_an_error(text: str):
    program = ptx.read(text, FILES)
    for read in (statements.read_mlir, statements.read_llvm):
        assert all(each.place is None for each in read(text, FILES))
    assert sass.read(text, "k", FILES, program) == []
    assert ptx.loops(program.instructions) == []


def test_locations_that_lead_to_themselves_end():
    text = "%0 = x loc(#loc1)\n#loc1 = loc(callsite(#loc2 at #loc1))\n#loc2 = loc(fused[#loc1])"
    assert lines_of(statements.read_mlir(text, FILES)) == [None]


# --- names of kernels -----------------------------------------------------------------------------


def test_a_launch_finds_its_kernel_by_name_and_template_arguments():
    code = CudaCode(b"", "", {
        "_Z1aPf": "a(float*)",
        "_Z1bIfLi4EEvPT_": "void b<float, 4>(float*)",
        "_Z1bIfLi8EEvPT_": "void b<float, 8>(float*)",
        "_ZN12_GLOBAL__N_11cEv": "(anonymous namespace)::c()",
        "_ZN1n1dE1sIiE": "n::d(s<int>)",
    })  # fmt: skip
    assert code.symbols_of("a") == ["_Z1aPf"]
    assert code.symbols_of("b<float,8>") == ["_Z1bIfLi8EEvPT_"]
    assert code.symbols_of("b<T, N>") == ["_Z1bIfLi4EEvPT_", "_Z1bIfLi8EEvPT_"]
    assert code.symbols_of("c") == ["_ZN12_GLOBAL__N_11cEv"]
    assert code.symbols_of("n::d") == ["_ZN1n1dE1sIiE"]
    assert code.symbols_of("missing") == []
