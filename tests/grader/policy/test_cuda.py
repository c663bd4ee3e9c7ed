"""The rules on CUDA source: every way around them is refused, every honest file passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader import spec
from grader.emulator.lexer import lex
from grader.grading.source_rules import violations_of
from grader.policy import Rules
from grader.policy.cuda import CUDA_RULES, check
from grader.spec.task import Task
from grader.status import Status

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted([*(ROOT / "reference").glob("*.cu"), *(ROOT / "assignment").glob("*.cu")])

KERNEL = """#include <cuda_runtime.h>

__global__ void silu_kernel(const float* input, float* output, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) output[i] = input[i] / (1.0f + __expf(-input[i]));
}

extern "C" void silu(const float* input, float* output, int n) {
    silu_kernel<<<(n + 255) / 256, 256>>>(input, output, n);
}
"""

EVASIONS: dict[str, tuple[str, str]] = {}


def evades(name: str, rule: str, text: str) -> None:
    """One way around `rule`: `text` stands behind an honest kernel."""
    assert name not in EVASIONS
    EVASIONS[name] = (rule, KERNEL + text)


def rules_broken(text: str) -> list[str]:
    return [violation.rule for violation in check(text)]


# What is included
evades("absolute_path", "include", "#include </etc/passwd>")
evades("absolute_quoted", "include", '#include "/root/.ssh/id_rsa"')
evades("relative_path", "include", '#include "../reference/silu.cu"')
evades("dots_inside", "include", "#include <cuda/std/../../../../etc/passwd>")
evades("other_file", "include", '#include "solution.cu"')
evades("next", "preprocessor", "#include_next <math.h>")
evades("import", "preprocessor", "#import <math.h>")
evades("embed", "preprocessor", "const char data[] = {\n#embed </etc/passwd>\n};")
evades("computed", "include", "#define HEADER </etc/passwd>\n#include HEADER")
evades("computed_text", "include", '#define HEADER "dlfcn.h"\n#include HEADER')
evades("behind_comment", "include", "/**/ # /**/ include <dlfcn.h>")
evades("split_over_lines", "include", "#inc\\\nlude <dlf\\\ncn.h>")
evades("pthreads", "include", "#include <pthread.h>")
evades("digraph_include", "include", "%:include <dlfcn.h>")
evades("in_a_dead_branch", "include", "#ifdef NEVER\n#include <dlfcn.h>\n#endif")
evades("else_of_if_0", "include", "#if 0\n#else\n#include <dlfcn.h>\n#endif")
evades("elif_of_if_0", "include", "#if 0\n#elif 1\n#include <dlfcn.h>\n#endif")
evades("behind_nested_if_0", "include", "#if 0\n#if 1\n#endif\n#endif\n#include <dlfcn.h>")
evades("thrust", "library", "#include <thrust/fill.h>\nusing namespace thrust;")
evades("cub", "library", "#include <cub/cub.cuh>\nnamespace c = cub;")
evades(
    "pasted_cub", "library", "#include <cub/cub.cuh>\n#define J(a, b) a##b\nusing J(cu, b)::Sum;"
)
evades("cutlass", "library", "#include <cutlass/gemm/device/gemm.h>\nint a = CUTLASS_OK;")
evades("cudnn", "library", "#include <cudnn.h>\ncudnnHandle_t h;")
evades("torch", "library", "#include <torch/extension.h>")
evades("declared_cufft", "library", 'extern "C" int cufftExecC2C(void*, int, int);')
evades("declared_cub", "library", "void f() { cub::DeviceReduce::Sum(); }")
evades("nvrtc", "library", 'extern "C" int nvrtcCompileProgram(void*, int, const char**);')

# Assembly
evades("asm_in_file", "assembly", 'asm(".globl main");')
evades("asm_in_host", "assembly", 'void f() { asm volatile("syscall"); }')
evades("asm_underscored", "assembly", 'void f() { __asm__ __volatile__("syscall"); }')
evades("asm_short", "assembly", 'void f() { __asm("syscall"); }')
evades("asm_in_both", "assembly", '__host__ __device__ void f() { asm("nop"); }')
evades(
    "asm_in_both_behind_else",
    "assembly",
    '__host__ __device__ void f() {\n#ifdef __CUDA_ARCH__\n#else\n asm("nop");\n#endif\n}',
)
evades(
    "asm_in_both_if_or",
    "assembly",
    '__host__ __device__ void f() {\n#if defined(__CUDA_ARCH__) || 1\n asm("nop");\n#endif\n}',
)
evades("asm_in_file_of_device", "assembly", '#ifdef __CUDA_ARCH__\nasm(".globl main");\n#endif')
evades("asm_label", "assembly", 'extern "C" int innocent(const char*) asm("fork");')
evades("asm_label_in_kernel", "assembly", '__device__ void f() { int g(int) asm("fork"); }')
evades("asm_register", "assembly", 'void f() { register long a asm("rax") = 60; }')
evades("asm_incbin", "assembly", '__device__ void f() { asm(".incbin \\"/etc/passwd\\""); }')
evades("asm_in_macro", "assembly", '#define GO asm volatile("syscall")\nvoid f() { GO; }')
evades("asm_in_two_macros", "assembly", '#define A asm("x")\n#define B A\nvoid f() { B; }')
evades("asm_macro_alone", "assembly", '#define MY asm\nMY(".globl main");')
evades("asm_in_lambda", "assembly", 'void f() { auto g = [] { asm("syscall"); }; g(); }')
evades("asm_device_lambda", "assembly", 'auto g = [] __device__ () { asm("syscall"); };')
evades("asm_after_kernel", "assembly", '__device__ int a() { return 1; } void b() { asm("x"); }')
evades("asm_in_host_method", "assembly", 'struct S { void f() { asm("x"); } };')
evades(
    "asm_in_class_of_kernel",
    "assembly",
    '__global__ void k() { struct S { static void f() { asm("x"); } }; S::f(); }',
)
evades(
    "asm_where_braces_differ",
    "assembly",
    "#if 1\n__device__ void a() {\n#else\n__device__ void a() { {\n#endif\n}\n"
    'void b() { asm("x"); }',
)
evades(
    "asm_behind_brace_macro",
    "assembly",
    '#define END }\n__device__ void a() { END void b() { asm("x"); }',
)
evades(
    "asm_default_argument",
    "assembly",
    'void b(int x = [] __device__ { return 1; }()) { asm("x"); }',
)

evades(
    "asm_behind_two_specifiers",
    "assembly",
    '#ifdef A\n#define D __device__\n#else\n#define D\n#endif\nD void f() { asm("x"); }',
)
evades(
    "asm_undefined_specifier",
    "assembly",
    '#define D __device__\n#undef D\n#define D\nD void f() { asm("x"); }',
)
evades("asm_both_specifiers", "assembly", '#define D __host__ __device__\nD void f() { asm("x"); }')

# Attributes
evades("constructor", "attribute", "__attribute__((constructor)) void f() {}")
evades("destructor", "attribute", "void f() __attribute__((destructor(101)));\nvoid f() {}")
evades("constructor_underscored", "attribute", "__attribute((__constructor__)) void f() {}")
evades("constructor_in_brackets", "attribute", "[[gnu::constructor]] void f() {}")
evades("constructor_spaced", "attribute", "[ [ __gnu__ :: __constructor__ ] ] void f() {}")
evades("constructor_using", "attribute", "[[using gnu: constructor]] void f() {}")
evades("second_of_two", "attribute", "__attribute__((unused, constructor)) void f() {}")
evades("in_a_macro", "attribute", "#define START __attribute__((constructor))\nSTART void f() {}")
evades("as_an_argument", "attribute", "#define A(x) __attribute__((x))\nA(constructor) void f() {}")
evades("attribute_alias", "attribute", "#define A __attribute__\nA((constructor)) void f() {}")
evades("section", "attribute", 'int x __attribute__((section(".init_array"))) = 1;')
evades("alias", "attribute", 'extern "C" int g() __attribute__((alias("f")));')
evades("weak", "attribute", 'extern "C" __attribute__((weak)) int g();')
evades("ifunc", "attribute", 'int g() __attribute__((ifunc("f")));')
evades("unwatched", "attribute", "__attribute__((no_sanitize_thread)) void f() {}")
evades("unwatched_by_text", "attribute", '__attribute__((no_sanitize("thread"))) void f() {}')
evades("uninstrumented", "attribute", "[[gnu::no_instrument_function]] void f() {}")
evades("opened_by_a_macro", "attribute", "#define O [[\nO gnu::constructor]] void f() {}")
evades("a_bracket_by_a_macro", "attribute", "#define B [\nB B using gnu: constructor]] void f() {}")
evades("a_bracket_around", "attribute", "#define E(x) [x]\n[E(gnu::naked)] void f() {}")
evades("an_empty_macro_between", "attribute", "#define E\n[E [gnu::naked]] void f() {}")
evades(
    "its_namespace_by_a_macro", "attribute", "#define O [[\n#define G gnu\nO G::naked]] void f() {}"
)
evades(
    "its_namespace_pasted",
    "preprocessor",
    "#define C(a, b) a##b\n#define O [[\nO C(g, nu)::naked]] int f();",
)
evades("allowed_name_defined", "attribute", "#define pure naked\n[[gnu::pure]] void f() {}")
evades(
    "allowed_name_redefined",
    "attribute",
    "#define pure naked\n[[gnu::pure]] void f();\n#undef pure\n#define pure",
)
evades(
    "allowed_name_called",
    "attribute",
    "#define pure(x) x\n__attribute__((pure(naked))) void f() {}",
)
evades(
    "behind_an_argument",
    "attribute",
    "#define N 8), naked, aligned(8\n__attribute__((aligned(N))) int x;",
)
evades(
    "behind_two_macros",
    "attribute",
    "#define M 8), naked, aligned(8\n#define N M\n__attribute__((aligned(N))) int x;",
)
evades(
    "unwatched_by_a_macro", "attribute", '#define O [[\nO X::no_sanitize("thread")]] void f() {}'
)
evades("copied", "attribute", "__attribute_copy__(__byte_perm) void f() {}")
evades("naked", "attribute", "__attribute__((naked)) void f() {}")
evades("init_priority", "attribute", "int x __attribute__((init_priority(101)));")
evades("cleanup", "attribute", "void f() { int x __attribute__((cleanup(g))); }")

# Preprocessor
evades("line", "preprocessor", '#line 1 "grader.cu"')
evades("line_marker", "preprocessor", '# 1 "grader.cu" 1')
evades("plugin", "preprocessor", '#pragma GCC plugin "x.so"')
evades("push_options", "preprocessor", '#pragma GCC push_options\n#pragma GCC optimize("O0")')
evades("target", "preprocessor", '#pragma GCC target("avx512f")')
evades("system_header", "preprocessor", "#pragma GCC system_header")
evades("rename", "preprocessor", "#pragma redefine_extname innocent fork")
evades("weak_pragma", "preprocessor", "#pragma weak innocent = other")
evades("push_macro", "preprocessor", '#pragma push_macro("silu")')
evades("operator_pragma", "preprocessor", '_Pragma("GCC optimize(0)")')
evades("operator_from_macro", "preprocessor", "#define P(x) _Pragma(#x)\nP(GCC target)")
_QUOTED = "#define Q(x) #x\n#define T(x) Q(x)\n"
evades("operator_from_text", "preprocessor", _QUOTED + "_Pragma(T(GCC target))")
evades("operator_replaced", "preprocessor", _QUOTED + "#define unroll GCC\n_Pragma(T(unroll 4))")
evades("operator_given", "preprocessor", _QUOTED + "#define P(once) _Pragma(T(once))\nP(weak f)")
evades("operator_of_two", "preprocessor", _QUOTED + "#undef Q\n#define Q(x) x\n_Pragma(T(unroll))")
evades("operator_of_other", "preprocessor", '#define T(x) "weak f"\n_Pragma(T(unroll))')
_PRAGMA = "#define P(x) _Pragma(#x)\n"
evades("operator_renamed", "preprocessor", _PRAGMA + "#define R P\nR(GCC target)")
evades("operator_in_two", "preprocessor", _PRAGMA + "#define R(x) P(x)\nR(weak f)")
evades("operator_by_name", "preprocessor", _PRAGMA + "#define R(f, x) f(x)\nR(P, weak f)")
evades("operator_later", "preprocessor", _PRAGMA + "#define NO\nP NO (weak f)")
evades("operator_of_parts", "preprocessor", _PRAGMA + "#define R(a, b) P(a b)\nR(weak, f)")
evades("operator_joined", "preprocessor", "#define PQ(x) _Pragma(#x)\n#define J(a, b) a##b\n"
       "J(P, Q)(weak f)")  # fmt: skip
evades("operator_of_text", "preprocessor", _QUOTED + "#define P(x) _Pragma(T(x))\nP(weak f)")
evades("redefined_global", "preprocessor", "#define __global__")
evades("redefined_device", "preprocessor", "#define __device__ __host__")
evades("redefined_if", "preprocessor", "#define if while")
evades("undefined_global", "preprocessor", "#undef __global__")
evades("undefined_copy", "preprocessor", "#undef __builtin_memcpy")
evades("undefined_in_parts", "preprocessor", "#un\\\ndef __builtin_\\\nmemcpy")
evades("instruction", "reserved", "void f(float* p) { __builtin_ia32_lfence(); }")
evades(
    "redefined_in_else", "preprocessor", "#ifdef __INTELLISENSE__\n#else\n#define if while\n#endif"
)
evades("redefined_in_elif", "preprocessor", "#ifdef _WIN32\n#elif 1\n#define if while\n#endif")
evades("other_system_defined", "preprocessor", "#define _WIN32\n#ifdef _WIN32\n#endif")
evades("either_system", "include", "#if defined(_WIN32) || 1\n#include <dlfcn.h>\n#endif")
evades("host_compiler", "include", "#ifdef __clang__\n#include <dlfcn.h>\n#endif")
evades("no_other_system", "include", "#ifndef _WIN32\n#include <dlfcn.h>\n#endif")
evades("compiler_undefined", "preprocessor", "#undef __CUDACC__\n#ifndef __CUDACC__\n#endif")
evades("redefined_later", "preprocessor", "#ifdef __INTELLISENSE__\n#endif\n#define if while")
evades("editor_defined", "preprocessor", "#define __INTELLISENSE__")
evades("paste", "preprocessor", '#define GO sys##tem\nvoid f() { GO("id"); }')
evades("paste_parameters", "preprocessor", '#define C(a, b) a##b\nvoid f() { C(sys, tem)("id"); }')
evades("paste_three", "preprocessor", "#define C(a, b, c) a##b##c\nvoid f() { C(f, o, rk)(); }")
evades(
    "paste_indirect",
    "preprocessor",
    "#define C(a, b) a##b\n#define D(a, b) C(a, b)\nint x = D(for, k)();",
)
evades(
    "paste_named",
    "preprocessor",
    "#define C(a, b) a##b\n#define D(a, b) C(a, b)\n#define A dl\n#define B open\n"
    "int x = D(A, B)();",
)
evades("paste_alias", "preprocessor", "#define C(a, b) a##b\n#define D C\nint x = D(for, k)();")
evades(
    "paste_optional",
    "preprocessor",
    '#define C(...) __VA_OPT__(sys) ## tem\nvoid f() { C(x)("id"); }',
)
evades(
    "paste_around",
    "preprocessor",
    "#define C(a, b) a##v##b\n#define D(X) X(exec, e)\nint x = D(C);",
)
evades("paste_asm", "preprocessor", '#define C(a, b) a##b\nC(as, m)(".globl x");')
evades("paste_rest", "preprocessor", "#define C(a, ...) a##__VA_ARGS__\nint x = C(for, k)();")
evades(
    "paste_attribute",
    "preprocessor",
    "#define C(a, b) a##b\nC(__attri, bute__)((constructor)) void f() {}",
)
evades("paste_reserved", "preprocessor", "#define C(a, b) a##b\nint C(__ts, an_read4);")
evades(
    "paste_deferred",
    "preprocessor",
    "#define C(a, b) a##b\n#define L (\n#define E(x) x\nint x = E(C L for, k))();",
)
evades(
    "paste_from_call",
    "preprocessor",
    "#define C(a, b) a##b\n#define D(a, b) C(a, b)\n#define E() for\nint x = D(E(), k)();",
)

# The system
evades("system", "system", '#include <cstdlib>\nvoid f() { system("id"); }')
evades("std_system", "system", '#include <cstdlib>\nvoid f() { std::system("id"); }')
evades("spliced", "system", 'void f() { sys\\\ntem("id"); }')
evades("commented", "system", 'void f() { system/**/("id"); }')
evades("in_parentheses", "system", 'void f() { (system)("id"); }')
evades("by_address", "system", "auto p = &system;")
evades("by_name", "system", "int (*p)(const char*) = system;")
evades("returned", "system", "auto f() { return system; }")
evades("declared_as_variable", "system", 'void f() { int system; }\nvoid g() { system("id"); }')
evades("behind_a_macro", "system", '#define GO system\nvoid f() { GO("id"); }')
evades("call_beside_a_variable", "system", "void f() { int fork = 0; }\nint a = fork();")
evades("value_beside_a_variable", "system", "void f() { int fork = 0; }\nauto g = ::fork;")
evades("macro_beside_a_variable", "system", "#define GO fork\nvoid f() { int fork = GO(); }")
evades(
    "call_behind_a_macro", "system", "#define OF (\nvoid f() { int fork = 0; }\nint a = fork OF );"
)
evades(
    "end_of_a_macro",
    "system",
    "#define GO if (int fork = 0) {} fork\nvoid f() { int i = 1; GO(); }",
)
evades("entry_point", "system", 'extern "C" void _start() {}')
evades("after_raw_string", "system", 'const char* s = R"x(\n)" // )x"; int a = fork();\n')
evades("after_raw_splice", "system", 'const char* s = R"(a)\\\n" b)"; int a = fork();')
evades("after_char", "system", "char a = '\"'; int b = fork(); char c = '\"';")
evades("after_escape", "system", 'const char* s = "\\\\"; int b = fork();')
evades("after_separator", "system", "int a = 1'000; int b = fork(); int c = 1'0;")
evades("after_comment_in_text", "system", 'const char* s = "/*"; int b = fork(); // */')
evades("after_block_comment", "system", "/* // */ int b = fork();")
evades("execve", "system", 'extern "C" int execve(const char*, char**, char**);')
evades("dlopen", "system", 'extern "C" void* dlopen(const char*, int);')
evades("mprotect", "system", 'extern "C" int mprotect(void*, unsigned long, int);')
evades("raw_syscall", "system", 'extern "C" long syscall(long, ...);')
evades("threads_of_c", "system", 'extern "C" int pthread_create(void*, void*, void*, void*);')
evades("getenv", "system", '#include <cstdlib>\nconst char* f() { return getenv("SEED"); }')
evades("fopen", "system", '#include <cstdio>\nvoid f() { fopen("/etc/passwd", "r"); }')
evades("atexit", "system", "#include <cstdlib>\nvoid g();\nvoid f() { atexit(g); }")
evades("kill", "system", 'extern "C" int kill(int, int);\nvoid f() { kill(-1, 9); }')
evades("global_kill", "system", 'extern "C" int kill(int, int);\nint f() { return ::kill(-1, 9); }')
evades("remove", "system", '#include <cstdio>\nvoid f() { remove("x"); }')
evades("read", "system", 'extern "C" long read(int, void*, long);\nvoid f() { read(3, 0, 9); }')
evades("host_callback", "system", "void f() { cudaLaunchHostFunc(0, g, 0); }")
evades("other_process", "system", "void f() { cudaIpcOpenMemHandle(0, h, 1); }")
evades("module", "system", "void f() { cuModuleLoadData(&m, text); }")

# Names that are taken
evades("runtime", "reserved", 'extern "C" void warpgrade_syncthreads();')
evades("namespace", "reserved", "namespace warpgrade { int counting; }")
evades("qualified", "reserved", "void f() { ::warpgrade::counting = false; }")
evades("hook", "reserved", 'extern "C" void __tsan_write4(void*) {}')
evades("sanitizer", "reserved", 'extern "C" void __sanitizer_cov_trace_pc() {}')
evades("registered_end", "reserved", 'extern "C" int __cxa_atexit(void (*)(void*), void*, void*);')
evades("init", "reserved", 'extern "C" void _init() {}')
evades(
    "own_memcpy",
    "reserved",
    'extern "C" void* memcpy(void* a, const void* b, size_t n) { return a; }',
)
evades(
    "own_memcpy_in_block",
    "reserved",
    'extern "C" {\nvoid* memcpy(void* a, const void* b, size_t n) { return a; }\n}',
)
evades(
    "own_event",
    "reserved",
    "cudaError_t cudaEventElapsedTime(float* t, cudaEvent_t a, cudaEvent_t b) { *t = 0; }",
)
evades("own_new", "reserved", "void* operator new(size_t n) { return 0; }")
evades("frame", "reserved", "void f() { void* p = __builtin_return_address(0); }")

# What runs by itself
STRUCT = "struct Early { Early() { n = 1; } int n; };\n"
evades("object", "startup", STRUCT + "Early early;")
evades("static_object", "startup", STRUCT + "static Early early{};")
evades("object_of_class", "startup", "struct Early { Early() {} int n; } early;")
evades("late", "startup", "struct Late { ~Late() { n = 1; } int n; };\nstatic Late late;")
evades("out_of_class", "startup", "struct Late { ~Late(); };\nLate::~Late() { }\nLate late;")
evades("member", "startup", STRUCT + "struct Holder { Early early; };\nHolder holder;")
evades("elaborated", "startup", STRUCT + "struct Early early;")
evades("derived", "startup", STRUCT + "struct Second : public Early { };\nSecond second;")
evades("derived_at_once", "startup", STRUCT + "struct Second : Early { } second;")
evades("array", "startup", STRUCT + "Early early[2];")
evades("of_a_template", "startup", "template <class T> struct E { E() {} };\nE<int> early;")
evades("static_member", "startup", STRUCT + "struct Holder { static inline Early early; };")
evades("filled", "startup", "int fill() { return 1; }\nint x = fill();")
evades("filled_in_expression", "startup", "int fill() { return 1; }\nint x = 1 + 2 * fill();")
evades("filled_by_lambda", "startup", "int x = [] { return 1; }();")
LATE = "struct Late { ~Late() {} };\n"
evades("kept", "startup", LATE + "void f() { static Late late; }")
evades("kept_member", "startup", LATE + "struct H { Late late; };\nvoid f() { static H h; }")
evades("kept_derived", "startup", LATE + "struct D : Late { };\nvoid f() { static D d; }")
evades("kept_local", "startup", LATE + "void f() { struct D : Late { }; static D d; }")
evades("kept_made", "startup", "struct L { L() {} ~L(); };\nL::~L() {}\nvoid f() { static L l; }")

# What can't be read
evades("universal_name", "unreadable", "int \\u0073ystem(const char*);")
evades("stray_backslash", "unreadable", "int a \\ b;")
evades("digraphs", "unreadable", "void f() <% int a<:2:>; %>")
evades("trigraph", "unreadable", "int a??(2??);")
evades("trigraph_in_text", "unreadable", 'const char* s = "??/"; int b; //"')
evades("trigraph_ends_comment", "unreadable", "// what??/\nint b;")
evades("blank_after_backslash", "unreadable", "// comment \\ \nint b;")
evades("lone_return", "unreadable", "// comment \rint b;\n\rint c;")
evades("return_ends_comment", "unreadable", "// comment\rint b;\n")
evades("return_ends_text", "unreadable", 'const char* a = "b\rint c;"\n')
evades("return_ends_directive", "unreadable", "#define A // b\r#include <dlfcn.h>\n")
evades("nul", "unreadable", "int a\0b;")
evades("open_comment", "unreadable", "/* no end")
evades("open_raw_string", "unreadable", 'const char* s = R"x(no end)";')
evades("bad_raw_string", "unreadable", 'const char* s = R"a b(x)a b";')
evades("raw_string_skipped", "unreadable", '#if 0\nR"(\n#endif\nint b;\n// )"\n#endif')
evades("quote_hides_comment", "unreadable", "#if 0\ndon't /* x\n#endif\nint b; // */\n#endif")
evades("deep", "unreadable", "void f() " + "{" * 300 + "}" * 300)


@pytest.mark.parametrize("name", EVASIONS)
def test_a_way_around_a_rule_is_refused(name: str) -> None:
    rule, text = EVASIONS[name]
    assert rule in rules_broken(text)


def test_a_file_in_utf_16_is_one_mistake() -> None:
    text = "#include <cuda_runtime.h>\nvoid f() {}\n".encode("utf-16").decode("latin-1")
    unreadable = [each for each in check(text) if each.rule == "unreadable"]
    assert [(each.line, each.message) for each in unreadable] == [
        (1, "the file has zero bytes, as one that is saved as UTF-16")
    ]


def test_every_rule_is_tried_and_said_in_a_sentence() -> None:
    assert {rule for rule, _ in EVASIONS.values()} - {"unreadable"} == set(CUDA_RULES)
    assert all(sentence.endswith(".") for sentence in CUDA_RULES.values())


HONEST = {
    "nothing_odd": "",
    "unused_libraries": "#include <cublas_v2.h>\n#include <cub/cub.cuh>\n"
    "#include <curand_kernel.h>",
    "unused_headers": "#include <unistd.h>\n#include <fcntl.h>\n#include <sys/mman.h>",
    "profiler": "#include <cuda_profiler_api.h>\nvoid f() { cudaProfilerStart(); }",
    "comments": "// system(), fork(), asm, cublasSgemm, __attribute__((constructor))\n"
    "/* #include <dlfcn.h>\n   asm(\"x\"); warpgrade_ __tsan */",
    "texts": 'const char* s = "system(\\"id\\"); asm(x)"; const char c = \'"\';',
    "raw_text": 'const char* s = R"(asm("x"); #include <dlfcn.h>\n#include "x.h"\n)";',
    "if_0": '#if 0\n#include <dlfcn.h>\nint main() { system("pause"); don\'t }\n#endif',
    "ptx": "__device__ float f(float x) {\n"
    '    asm volatile("ex2.approx.f32 %0, %0;" : "+f"(x));\n    return x;\n}',
    "ptx_under_if": '__global__ void k(int n) { if (n > 0) asm("nop;"); else asm("exit;"); }',
    "ptx_in_macro": '#define COMMIT() asm volatile("cp.async.commit_group;\\n" ::)\n'
    "__device__ void f() { COMMIT(); }",
    "ptx_in_do_macro": '#define WAIT(n) do { asm("cp.async.wait_group %0;" ::"n"(n)); } while (0)\n'
    "template <int N>\n__device__ __forceinline__ void f() { WAIT(N); }",
    "ptx_in_method": 'struct S { __device__ void f() const { asm("nop;"); } };',
    "ptx_in_lambda": '__global__ void k() { auto f = [&](int i) { asm("nop;"); }; f(0); }',
    "ptx_with_bounds": '__global__ void __launch_bounds__(256, 2) k() { { asm("nop;"); } }',
    "ptx_with_if": '__device__ void f() {\n#if __CUDA_ARCH__ >= 800\n    asm("nop;");\n#endif\n}',
    "ptx_in_both": '__host__ __device__ float f(float x) {\n#ifdef __CUDA_ARCH__\n    float y;\n'
    '    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));\n    return y;\n#else\n'
    "    return exp2f(x);\n#endif\n}\n__host__ __device__ void g() {\n"
    '#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800\n    asm("nop;");\n#endif\n}',
    "ptx_behind_a_specifier": "#define INLINE __device__ __forceinline__\n#define FAST INLINE\n"
    'FAST void f() { asm("nop;"); }',
    "derived": "struct A { A() {} };\nstruct B : A { int n; };\nclass C;\nstruct A;\n"
    "template <typename T> struct D : A { };\nB* none = nullptr;",
    "headers": "#include <cstdio>\n#include <algorithm>\n#include <cuda_fp16.h>\n"
    "#include <iosfwd>\n#include <source_location>\n#include <thread>\n#include <fstream>\n"
    "#include <cooperative_groups/reduce.h>\n#include <cuda/std/limits>\n#include <cuda/barrier>\n"
    '#include "cuda_bf16.h"\n#  include<math.h>  // maths',
    "pinned_in_place": "void f(float* h, size_t n) {\n    static float* pinned = nullptr;\n"
    "    if (pinned != h && pinned) cudaHostUnregister(pinned);\n"
    "    cudaHostRegister(h, n, cudaHostRegisterDefault);\n    pinned = h;\n}",
    "own_words": "__device__ float read(const float* p, int i) { return p[i]; }\n"
    "__global__ void k(const float* p, float* o) { o[0] = read(p, 1); }",
    "std_words": "#include <algorithm>\n#include <vector>\n"
    "void f(std::vector<int> v) { v.erase(std::remove(v.begin(), v.end(), 0), v.end()); }",
    "lambda_word": "void f() { auto write = [](int i) { return i; }; write(2); }",
    "variable_words": "void f(int select, float* link) { int open = 1; link[open] = select; }",
    "declared_words": "void f() { dim3 link(2, 2); dim3 pipe(3); }",
    "events_of_a_fork": "void f(cudaStream_t a, cudaStream_t b) {\n    cudaEvent_t fork, join;\n"
    "    cudaEventCreate(&fork);\n    cudaEventRecord(fork, a);\n"
    "    cudaStreamWaitEvent(b, fork, 0);\n}\n"
    "void g() { cudaEvent_t join, fork; cudaEventDestroy(fork); }",
    "events_of_a_benchmark": "#define TIMED(call) do { cudaEvent_t _start, _stop; "
    "cudaEventCreate(&_start); cudaEventRecord(_start); call; cudaEventRecord(_stop); } while (0)",
    "method_words": "struct Q { int read(int); int system; };\n"
    "int f(Q q) { return q.read(1) + q.system; }",
    "own_namespace": "namespace at { int one() { return 1; } }\nint f() { return at::one(); }",
    "check": "#define CHECK(x) do { if ((x) != cudaSuccess) { printf(\"%s\\n\", "
    "cudaGetErrorString(x)); exit(1); } } while (0)",
    "paste": "#define KERNEL(name, T) name##_##T##_kernel\nvoid KERNEL(silu, float)(); "
    "void KERNEL(gelu, half)();",
    "paste_x_macro": "#define EACH(X) X(1) X(2)\n#define MAKE(V) void f_##V(int v, int f, int k);\n"
    "EACH(MAKE)\nvoid e(float x, float ec, float o, float r);",
    "paste_comma": '#define LOG(f, ...) printf(f, ##__VA_ARGS__)\nvoid g() { LOG("%d %d", 1, 2); }',
    "attributes": "struct __align__(16) A { float x[4]; };\nstruct alignas(16) B { float x[4]; };\n"
    "__attribute__((always_inline)) inline int f() { return 1; }\n"
    "[[nodiscard]] int g([[maybe_unused]] int a);\n__attribute__((aligned(16))) float c[4];",
    "attributes_with_macros": "#define WIDE (16)\n#define N WIDE\n#define unused maybe_unused\n"
    "#define likely(x) __builtin_expect(!!(x), 1)\n#define AT(a, i) a[i]\n"
    "struct __attribute__((aligned(N))) A { float x[4]; };\n[[unused]] static int seven = 7;\n"
    "void f(int* a) { if (a) [[likely]] AT(a, 0) = seven; }",
    "indices": "__global__ void k(int* a, int* b) { a[b[0]] = a[b[a[1]]]; }",
    "unroll": "__global__ void k() {\n#pragma unroll 4\n    for (int i = 0; i < 4; ++i) {}\n}\n"
    '#define UNROLL _Pragma("unroll")',
    "unroll_by": "#define QUOTED(x) #x\n#define TEXT(...) QUOTED(__VA_ARGS__)\n"
    "#define UNROLL(n) _Pragma(TEXT(unroll n))\n__global__ void k() {\n"
    "    UNROLL(4)\n    for (int i = 0; i < 4; ++i) {}\n}",
    "pragma_of": "#define PRAGMA(x) _Pragma(#x)\n#define UNROLL(n) PRAGMA(unroll n)\n"
    "#define ALL(...) PRAGMA(__VA_ARGS__)\n__global__ void k() {\n"
    "    UNROLL(4)\n    for (int i = 0; i < 4; ++i) {}\n    ALL(unroll)\n    for (;;) {}\n}",
    "pragmas": "#pragma once\n#pragma nv_diag_suppress 177\n#pragma GCC diagnostic push\n"
    "#pragma hd_warning_disable\nvoid f(int n) {\n#pragma omp parallel for\n"
    "    for (int i = 0; i < n; ++i) {}\n}",
    "editor": "#ifdef __INTELLISENSE__\n#define __syncthreads()\n#define __global__\n#endif",
    "editor_without_nvcc": "#ifndef __CUDACC__\n#define __CUDACC__\n#define __global__\n#endif",
    "other_systems": "#if defined(_WIN32) || defined(_MSC_VER)\n#include <windows.h>\n"
    "#define EXPORT __declspec(dllexport)\n#else\n"
    '#define EXPORT __attribute__((visibility("default")))\n#endif\n'
    "#ifdef __HIPCC__\n#include <hip/hip_runtime.h>\n#endif\nEXPORT void f();",
    "guarded": "#ifndef TILE\n#define TILE 32\n#endif\n#undef OTHER",
    "globals": "#include <cmath>\nconst float ALPHA = std::sqrt(2.0f / 3.14159f);\n"
    "static cudaStream_t stream = nullptr;\n__device__ int counter = 0;\n"
    "__constant__ float c[4] = {1, 2, 3, 4};\nint table[] = {1, 2, 3};\nconst dim3 BLOCK(16, 16);",
    "constant_function": "constexpr int twice(int n) { return 2 * n; }\n"
    "const int SIZE = twice(8);\n"
    "constexpr int MORE = twice(9);",
    "lambda_constant": "const auto half = [](int n) { return n / 2; };\n"
    "auto add = [] __device__(float a, float b) { return a + b; };",
    "guard_in_launcher": "struct Buffer {\n    float* p;\n"
    "    explicit Buffer(int n) { cudaMalloc(&p, n); }\n"
    "    ~Buffer() { cudaFree(p); }\n};\nBuffer make(int n);\nextern Buffer* shared;\n"
    "void f(int n) { Buffer scratch(n); Buffer other{n}; }",
    "device_object": "struct V { float x; __device__ V() : x(0) {} };\n__device__ V zero;",
    "once": "int prepare() { return 1; }\nvoid f() { static int done = prepare(); }",
    "locked": "#include <charconv>\n#include <mutex>\n#include <system_error>\n"
    "std::mutex mutex;\nstd::once_flag flag;\n"
    "void f() { std::lock_guard<std::mutex> hold(mutex); std::call_once(flag, [] {}); }",
    "made_once": "struct Limits { int n; Limits() : n(1) {} ~Limits() = default; };\n"
    "struct More : Limits { Limits limits; };\nvoid f() { static Limits a; static More b; }",
    "templates": "template <typename T, int N = (1 > 0)>\n"
    "__global__ void k(T* p) { p[0] = T{N}; }\n"
    "template __global__ void k<float, 4>(float*);\nvoid f(float* p) { k<float, 2><<<1, 1>>>(p); }",
    "global_qualified": "template <typename T> struct P {};\nP<::cudaStream_t> p;",
    "separators": "const long BIG = 1'000'000; const int HEX = 0xFF'FF; const float E = 1e+5f;",
    "question_marks": "// really?? (yes) what??!\nint f(int a) { return a ? 1 : 2; }",
    "other_alphabets": "// überprüft, 检查\nfloat größe = 1.0f;",
    "windows_lines": "int f() {\r\n    return 1; // \\\r\n    still a comment\r\n}\r\n",
    "quote_in_error": "#if 0\n#error don't\n#endif",
    "long_macro": "#define A(x) \\\n    do { \\\n        (x) += 1; \\\n    } while (0)",
    "own_prefix": "void cudaCheck(cudaError_t e) {}\nvoid cublas_like() {}\nint cubes = 1;",
    "static_helper": "static void* memcpy_rows(void* a) { return a; }\n"
    "__device__ void memcpy4(float* a, const float* b) { *a = *b; }",
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_file_passes(name: str) -> None:
    assert check(KERNEL + HONEST[name] + "\n") == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_projects_own_files_pass(path: Path) -> None:
    assert check(path.read_text(encoding="utf-8")) == []


def test_a_violation_names_its_place_and_what_to_do() -> None:
    [found] = check("int a;\n  #include <Eigen/Dense>\n")
    assert (found.rule, found.line, found.column) == ("library", 2, 3)
    assert found.message == "#include <Eigen/Dense>: a library's kernels would do the work"
    assert found.instead == "Compute it in a __global__ function of your own."


@pytest.mark.parametrize("header", ["torch/all.h", "ATen/cuda/CUDAContext.h", "c10/util/Half.h"])
def test_an_extension_of_torch_is_told_what_an_entry_takes(header: str) -> None:
    [found] = check(f"#include <{header}>\n")
    assert found.message.startswith(f"#include <{header}>: a library's kernels would do the work")
    assert found.message.endswith(", and an entry takes pointers, not tensors")


def test_a_header_of_the_students_own_is_told_where_its_text_belongs() -> None:
    [own, system] = check('#include "helpers.cuh"\n#include <dlfcn.h>\n')
    assert own.message.endswith("text of another belongs into one of them")
    assert system.message == "#include <dlfcn.h> is not one of the headers that kernels need"


def test_a_comment_of_python_is_told_how_one_of_cpp_begins() -> None:
    for line, words in (("# double buffering", "begins with //"), ("#line 1", "not for kernels")):
        [told] = check(f"{line}\n")
        assert told.rule == "preprocessor" and words in told.message


def test_lines_are_those_of_the_file_behind_joined_lines_and_raw_strings() -> None:
    text = 'int a; \\\nint b;\nconst char* s = R"(x\\\ny\n)";\n\nint c = fork();\n'
    [found] = check(text)
    assert (found.line, found.column) == (7, 9)


def test_a_library_that_host_code_calls_is_told_by_the_object() -> None:
    text = '#include <cublas_v2.h>\n#include "cublasLt.h"\nvoid f() { cublasCreate(nullptr); }\n'
    assert check(text) == []
    text = "#include <cub/cub.cuh>\nusing cub::BlockReduce;\nvoid f() { fork(); }\n"
    assert {each.line for each in check(text)} == {1, 2, 3}


def test_a_rule_can_be_lifted() -> None:
    text = "#include <cub/cub.cuh>\nusing cub::BlockReduce;\n"
    assert check(text)
    assert check(text, Rules(lifted=frozenset({"library"}))) == []


def test_a_file_in_any_encoding_is_read() -> None:
    exercise = spec.load_all()["silu"]
    variant = exercise.variants["cuda"]
    assert violations_of(Task(exercise, variant), KERNEL.encode() + b"// caf\xe9 \xff\n") == ()
    assert violations_of(Task(exercise, variant), "\ufeff".encode() + KERNEL.encode()) == ()
    [failure] = violations_of(
        Task(exercise, variant), KERNEL.encode() + b'void f() { system("\xff"); }'
    )
    assert failure.status is Status.policy_violation
    assert failure.where == "silu.cu:11"
    assert failure.what == "system is a service of the system (rule: system)."
    # Text in 16 bits is another text to who reads bytes.
    assert violations_of(Task(exercise, variant), KERNEL.encode("utf-16"))


def test_every_violation_of_a_file_is_told() -> None:
    exercise = spec.load_all()["silu"]
    data = (KERNEL + "#include <torch/all.h>\nint a = fork();\n").encode()
    [failure] = violations_of(Task(exercise, exercise.variants["cuda"]), data)
    assert "silu.cu:12: fork is a service of the system" in failure.detail


UNTRUSTED = {
    "braces": "{" * 50_000,
    "closing": "}" * 50_000,
    "parentheses": "f" + "(" * 50_000,
    "brackets": "[" * 50_000,
    "angles": "template " + "<" * 50_000,
    "quotes": "'\"" * 25_000,
    "raw": 'R"(' * 15_000,
    "raw_delimiters": 'R"aaaaaaaaaaaaaaaa(' * 3_000,
    "comments": "/*" * 25_000,
    "slashes": "/" * 50_000,
    "splices": "\\\n" * 25_000,
    "spaced_splices": "\\ \n" * 15_000,
    "raw_and_splices": 'R"(\\\n)"\\\n' * 5_000,
    "conditionals": "#if 1\n" * 10_000,
    "nested_if_0": "#if 0\n" * 10_000,
    "macros": "".join(f"#define A{n} A{n + 1} ## A{n}\n" for n in range(3_000)),
    "calls_of_pasting": "#define C(a, b) a##b\n" + "C(" * 20_000,
    "same_head": "int a = f(" + "{}," * 15_000 + ");",
    "functions": "void f(){}" * 5_000,
    "heads": "x " * 25_000 + "{}" * 2_000,
    "attributes": "__attribute__((" * 4_000,
    "asm": '#define A asm("x")\n' + "A" * 1000 + "asm(" * 10_000,
    "statics": "struct S { S() {} };\n" + "S s;" * 10_000,
    "assignments": "int f() { return 1; }\nint a " + "= f " * 12_000 + ";",
    "trigraphs": "??/" * 20_000,
    "surrogate": "\ud800" * 1000,
    "large": "int a;\n" * 60_000,
}


@pytest.mark.parametrize("name", UNTRUSTED)
def test_an_untrusted_text_ends_in_a_list(name: str) -> None:
    assert isinstance(check(UNTRUSTED[name]), list)


WORDS = [
    *(
        "#",
        "#if 0",
        "#if 1",
        "#else",
        "#endif",
        "#define",
        "#include",
        "##",
        "<",
        ">",
        "<<<",
        ">>>",
    ),
    *("{", "}", "(", ")", "[", "]", ";", ",", ":", "::", "=", "->", ".", "~", "&", "*", "\\", "'"),
    *(
        '"',
        'R"(',
        ')"',
        'R"x(',
        "/*",
        "*/",
        "//",
        "\n",
        "\\\n",
        "\\ \n",
        "\r",
        "\0",
        "??/",
        "<:",
        "%:",
    ),
    *("asm", "__asm__", "__attribute__", "_Pragma", "constructor", "__device__", "__global__"),
    *("__host__", "struct", "class", "enum", "namespace", "template", "operator", "new", "static"),
    *("extern", "auto", "return", "if", "do", "system", "read", "S", "f", "A", "1'0", "'a'", '"x"'),
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=60), st.sampled_from(["", " "]))
@example(["#", "define"], " ")
@example(["__attribute__"], "")
@example(["{", ")", "{"], "")
def test_any_words_end_in_a_list(words: list[str], between: str) -> None:
    assert isinstance(check(between.join(words)), list)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_ends_in_a_list(text: str) -> None:
    assert isinstance(check(text), list)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(FILES), st.data())
def test_any_cut_of_an_honest_file_ends_in_a_list(path: Path, data: st.DataObject) -> None:
    text = path.read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert isinstance(check(text[:start] + text[end:]), list)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_tokens_are_at_their_places(words: list[str]) -> None:
    text = " ".join(word for word in words if word not in ("\r", "\\\n", "\\ \n"))
    lines = text.split("\n")
    for token in lex(text).tokens:
        if token.kind in ("name", "number", "char"):
            assert lines[token.line - 1].startswith(token.text, token.column - 1)
