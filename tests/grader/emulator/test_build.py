"""A build gives an executable and a table of lines, or says what is wrong and where."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.emulator import build as build_module
from grader.emulator import compiler_output, conditions, elf, objects, sites, toolchain
from grader.emulator.build import Build, Entry, Problem, build
from grader.emulator.elf import Elf
from grader.emulator.linking import Linker, LinkError
from grader.emulator.sites import MOST_CHARACTERS
from grader.emulator.toolchain import Toolchain
from grader.worker import nvcc

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

ENTRY = Entry("twice", ("pointer:float32", "pointer:float32", "int"))
EXPECTED = "expected void twice(float*, float*, int)"
TWICE = """\
__global__ void kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
extern "C" void twice(const float* x, float* y, int n) {
    kernel<<<(n + 255) / 256, 256>>>(x, y, n);
}
"""

Make = Callable[..., Build]


@pytest.fixture(scope="module")
def tools() -> Toolchain:
    return toolchain.prepare()


@pytest.fixture
def make(tools: Toolchain, tmp_path: Path) -> Make:
    """Builds a text as submission.cu, for one entry unless told otherwise."""

    def run(text: str | bytes, *entries: Entry, name: str = "submission.cu") -> Build:
        source = tmp_path / name
        source.write_bytes(text if isinstance(text, bytes) else text.encode())
        return build(source, entries or (ENTRY,), tmp_path / "built", tools)

    return run


def only(made: Build) -> Problem:
    assert made.executable is None, made
    assert len(made.problems) == 1, made.problems
    return made.problems[0]


# ---- What is right -------------------------------------------------------------------------------


def test_a_build_leaves_the_executable_and_nothing_else(make: Make, tmp_path: Path) -> None:
    made = make(TWICE)
    assert made.problems == () and made.entries == ("twice",)
    assert made.executable is not None and os.access(made.executable, os.X_OK)
    left = {path.name for path in (tmp_path / "built").iterdir()}
    assert left == {made.executable.name, made.executor.name}
    assert make(TWICE.replace("y[i]", "y[i")).executable is None
    assert list((tmp_path / "built").iterdir()) == [], "what an earlier build made isn't this one's"


@pytest.mark.parametrize(
    ("used", "shown"),
    [
        ('char t[4] = "5"; int k; sscanf(t, "%d", &k); y[i] = k;', "sscanf"),
        ("unsigned seed = i; y[i] = rand_r(&seed);", "rand_r"),
        ('char t[4] = "5"; float k; std::from_chars(t, t + 1, k); y[i] = k;', "std::from_chars"),
    ],
)
def test_a_kernel_calls_no_function_of_the_host(make: Make, used: str, shown: str) -> None:
    head = "#include <charconv>\n#include <cstdio>\n#include <cstdlib>\n"
    found = only(make(head + TWICE.replace("y[i] = 2 * x[i];", f"{{ {used} }}")))
    assert found.kind == "compile" and found.message.startswith(
        f"{shown} is a function of the host"
    )
    launcher = f"static void use(float* y, int i) {{ {used} }}\n" + TWICE
    launcher = launcher.replace("    kernel<<<", "    float z[1]; use(z, 0);\n    kernel<<<")
    assert make(head + launcher).problems == (), "a launcher may call it"


def test_every_access_has_a_line_and_a_function(make: Make) -> None:
    sites = set(make(TWICE).sites.values())
    assert {(site.line, site.function) for site in sites} >= {(3, "kernel"), (6, "twice")}
    assert all(1 <= site.line <= 7 for site in sites)


def test_names_that_a_reader_would_not_take_are_cut(make: Make) -> None:
    name = "k" * 5000
    made = make(TWICE.replace("kernel", name) + f"#ifdef __{name}\nint x;\n#endif\n")
    assert max(len(site.function) for site in made.sites.values()) == MOST_CHARACTERS
    assert [len(each.macro) for each in made.conditions] == [conditions.MOST_CHARACTERS]


BY_PASS = """
__host__ __device__ int of(int n) {
#ifdef __CUDA_ARCH__
    return n;
#else
    return host(n);
#endif
}
"""


def test_each_of_nvccs_passes_has_its_errors_and_lines(make: Make) -> None:
    whole = TWICE.replace("2 * x[i]", "of(2 * x[i])")
    host = "int host(int n) {\n    return n;\n}\n"
    made = make(host + BY_PASS + whole)
    assert made.problems == () and made.conditions == ()
    kernel = len((host + BY_PASS).split("\n")) + 2
    assert (kernel, "kernel") in {(site.line, site.function) for site in made.sites.values()}
    bad = only(make(BY_PASS + whole))  # in host code alone
    assert bad.kind == "compile" and bad.line == 6 and "host" in bad.message


def test_a_call_inlined_from_a_header_has_the_line_of_its_use(make: Make) -> None:
    text = TWICE.replace("y[i] = 2 * x[i]", "\n\natomicAdd(\n&y[i], __ldg(&x[i]) * 2)")
    made = make("#include <vector>\ntemplate <class T> struct S {};\n" + text)
    assert {site.line for site in made.sites.values() if site.function == "kernel"} >= {7, 8}


def test_the_compilers_programs_have_large_pages_where_the_c_library_knows_them(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link takes longer otherwise."""
    given: dict[str, str] = {}
    run = subprocess.run

    def noted(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        given.setdefault(Path(command[0]).name, how["env"].get("GLIBC_TUNABLES", ""))
        return run(command, **how)

    monkeypatch.setattr(subprocess, "run", noted)
    made = make(TWICE)
    assert made.executable is not None
    compiler = Path(toolchain.find_compiler()[0]).name
    assert "hugetlb=1" in given[compiler]
    assert toolchain.ENVIRONMENT == nvcc.ENVIRONMENT


@pytest.mark.parametrize(
    ("header", "kind"), [("cassert", "core"), ("algorithm", "core"), ("string", "library")]
)
def test_only_a_large_header_of_the_cpp_library_has_all_of_them_loaded(
    make: Make, monkeypatch: pytest.MonkeyPatch, header: str, kind: str
) -> None:
    loaded: list[str] = []
    path_of = Toolchain.header

    def noted(tools: Toolchain, kind: str) -> Path:
        loaded.append(kind)
        return path_of(tools, kind)

    monkeypatch.setattr(Toolchain, "header", noted)
    assert make(f"#include <{header}>\n{TWICE}").executable is not None
    assert loaded == [kind]


def test_the_lines_of_calls_need_neither_symbols_nor_relocations_of_our_own_part(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These are most of a program's, and each takes Python as long as one of the student's."""
    made = make(TWICE)
    assert made.executor is not None
    every = sum(1 for _ in Elf(made.executor).relocations())
    read: list[elf.Relocation] = []

    def noted(*fields: int) -> elf.Relocation:
        read.append(relocation(*fields))
        return read[-1]

    relocation = elf.Relocation
    monkeypatch.setattr(elf, "Relocation", noted)
    monkeypatch.delattr(elf.Elf, "symbols")
    listed = sites.table(made.executor, "submission.cu")
    assert 0 < len(listed) <= len(read) < every / 2


def test_lines_hold_with_carriage_returns_and_a_byte_order_mark(make: Make) -> None:
    made = make(b"\xef\xbb\xbf" + TWICE.replace("\n", "\r\n").encode())
    assert (3, "kernel") in {(site.line, site.function) for site in made.sites.values()}
    bad = only(make(TWICE.replace("i < n", "i < m").replace("\n", "\r\n")))
    assert bad.line == 3


def test_the_same_source_gives_the_same_executable(make: Make) -> None:
    first = make(TWICE).executable.read_bytes()
    assert make(TWICE).executable.read_bytes() == first


def test_a_file_name_that_a_compiler_could_misread_is_only_a_name(make: Make) -> None:
    assert make(TWICE, name="-o x; $(id) %s.cu").executable is not None


def test_all_entries_of_a_file_come_into_one_executable(make: Make) -> None:
    more = 'extern "C" void other(int n, bool b, float f) {}\n'
    wanted = (ENTRY, Entry("other", ("int", "bool", "float")))
    assert make(TWICE + more, *wanted).entries == ("twice", "other")


def test_a_missing_entry_is_that_entrys_problem_alone(make: Make) -> None:
    made = make(TWICE, ENTRY, Entry("other", ("int",)))
    assert made.executable is not None and made.entries == ("twice",)
    assert [(p.kind, p.entry, p.line) for p in made.problems] == [("entry_missing", "other", None)]


@pytest.mark.parametrize(
    "parameters",
    ["float* x, float* y, int n", "const float* __restrict__ x, float* y, const int n"],
)
def test_pointers_may_be_const_or_not_and_restrict(make: Make, parameters: str) -> None:
    text = TWICE.replace("twice(const float* x, float* y, int n)", f"twice({parameters})")
    assert make(text).problems == ()


def test_every_dtype_of_a_spec_has_its_type(make: Make) -> None:
    text = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
extern "C" void all(const half* a, __nv_bfloat16* b, double* c, const int64_t* d, int* e, short* f,
                    int8_t* g, unsigned char* h, bool* i) {}
"""
    dtypes = ("float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")
    assert make(text, Entry("all", tuple(f"pointer:{each}" for each in dtypes))).problems == ()


def test_an_entry_that_no_spec_can_ask_for_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        Entry("f", ("pointer:float31",))
    with pytest.raises(ValueError, match="not the name"):
        Entry("f(); int g", ())


# ---- What is wrong in the text -------------------------------------------------------------------


def test_a_compile_error_has_the_students_line_and_shows_it(make: Make) -> None:
    found = only(make(TWICE.replace("i < n", "i < m")))
    assert (found.kind, found.line) == ("compile", 3)
    assert found.message == "'m' was not declared in this scope"
    assert found.detail == "   3 |     if (i < m) y[i] = 2 * x[i];"


BROKEN = {
    "an argument missing": TWICE.replace("(x, y, n);", "(x, y);"),
    "an argument of another type": TWICE.replace("(x, y, n);", "(x, y, y);"),
    "a pointer as grid": TWICE.replace("<<<(n + 255) / 256, 256>>>", "<<<x, 256>>>"),
    "no configuration": TWICE.replace("<<<(n + 255) / 256, 256>>>", "<<<>>>"),
    "a shuffle of a pointer": TWICE.replace("2 * x[i]", "__shfl_sync(1, y, 2)"),
    "an atomic of a pointer": TWICE.replace("2 * x[i]", "atomicAdd(y, &x)"),
    "a header that isn't there": '#include "missing.h"\n' + TWICE,
    "a class template": "#include <vector>\nstd::vector<int> v = std::vector<float>{&v};\n" + TWICE,
    "an unfinished declaration": TWICE + "\n__shared__ float",
    "a brace missing": TWICE.replace("}\nextern", "extern"),
    "an open #if": TWICE + "#if 1",
    "an open comment": TWICE + "/*",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_errors_name_nothing_of_ours(
    make: Make, tmp_path: Path, tools: Toolchain, text: str
) -> None:
    made = make(text)
    assert made.executable is None
    for problem in made.problems:
        assert problem.kind == "compile"
        said = f"{problem.message} {problem.detail}"
        for ours in (str(tmp_path), str(tools.folder), "warpgrade", "student.", "tsan"):
            assert ours not in said
        assert problem.line is not None and 1 <= problem.line <= text.count("\n") + 1


def test_a_launch_that_doesnt_fit_its_kernel_is_said_so(make: Make) -> None:
    found = only(make(BROKEN["an argument missing"]))
    assert (found.kind, found.line) == ("compile", 6)
    assert "don't fit the kernel's parameters (const float*, float*, int)" in found.message


def test_a_semicolon_is_missing_at_the_end_of_its_line_not_at_the_next(make: Make) -> None:
    found = only(make("void f(int a) {\n    int b = a  // half\n\n    int c = b;\n}\n"))
    assert found.line == 2 and "b = a" in found.detail
    assert "at the end of this line, before" in found.message and "line 4" in found.message
    inside = only(make("void f(int a) {\n    int b = a int c = b;\n}\n"))
    assert inside.line == 2 and "end of this line" not in inside.message


def test_only_the_first_errors_are_handed_on(make: Make) -> None:
    made = make("".join(f"int f{i}() {{ return missing{i}; }}\n" for i in range(50)))
    lines = [problem.line for problem in made.problems]
    assert lines == [*range(1, compiler_output.MOST_ERRORS + 1)]


def test_an_error_inside_a_library_template_is_told_at_the_students_line(make: Make) -> None:
    text = "#include <algorithm>\n#include <vector>\nstruct S {};\nvoid f(std::vector<S>& v) {\n"
    made = make(text + "    std::sort(v.begin(), v.end());\n}\n" + TWICE)
    assert made.executable is None
    assert {problem.line for problem in made.problems} == {5}


def test_limits_of_integers_need_no_include_as_with_nvcc(make: Make) -> None:
    assert make(TWICE + "\nconst int most = INT_MAX + UINT_MAX * CHAR_BIT;\n").problems == ()


def test_a_forgotten_include_is_an_error_as_with_nvcc(make: Make) -> None:
    found = make("std::vector<int> v;\n" + TWICE).problems
    assert found[0].kind == "compile" and "vector" in found[0].message


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"int a;\nint b\0;", "zero byte"), (b"//" + b"x" * (2 << 20), "at most")],
    ids=["binary", "long"],
)
def test_a_file_that_is_no_source_is_told_in_one_line(
    make: Make, text: bytes, message: str
) -> None:
    assert message in only(make(text)).message


def test_a_file_that_takes_too_long_to_compile_is_given_up(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_module, "COMPILE_SECONDS", 0.01)
    assert "longer than" in only(make(TWICE)).message


# ---- Entries -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "kind", "message"),
    [
        ("void twice(float* x, float* y, int n) {}", "no_extern_c", "not as extern"),
        ("namespace a { void twice(float*, float*, int) {} }", "no_extern_c", "not as extern"),
        ("template <class T> void twice(T*, T*, int) {} template void twice(int*, int*, int);",
         "no_extern_c", "not as extern"),
        ('extern "C" { static void twice(float*, float*, int) {} }', "no_extern_c", "is static"),
        ('extern "C" void twice(float* x, float* y, int n);', "no_extern_c", "has no body"),
        ("void twice() {}", "no_extern_c", "`twice` is there, but not as extern"),
        ("int twice;", "entry_missing", "there is no function twice"),
        ("void other() {}", "entry_missing", "there is no function twice"),
        ('extern "C" int twice(float*, float*, int) { return 0; }', "signature", "returns a value"),
        ('extern "C" void twice(float* x, float* y) {}', "signature", "takes 2 arguments"),
        ('extern "C" void twice(float*, double*, int) {}', "signature", "argument 2 of twice"),
        ('extern "C" void twice(float*, float*, long) {}', "signature", "argument 3 of twice"),
        ('extern "C" void twice(float*, float**, int) {}', "signature", "argument 2 of twice"),
        ('extern "C" void twice(float*, double*, int) {} void twice(float*, float*, int) {}',
         "signature", 'of several functions twice, the extern "C" one has other arguments'),
        ('extern "C" int twice(float*, float*) { return 0; } void twice(float*, float*, int) {}',
         "signature", 'of several functions twice, the extern "C" one has other arguments'),
        ("void twice(float*, float*, int) {} void twice(double*, float*, int) {}",
         "no_extern_c", "not as extern"),
        ('extern "C" void twice(float* x, ...) {}', "signature", "returns a value"),
        ('namespace a { extern "C" void twice(float*, float*, int) {} }', "signature", "namespace"),
        ('extern "C" __global__ void twice(float*, float*, int) {}', "signature", "is a kernel"),
        ("__global__ void twice(float*, float*, int) {}", "signature", "is a kernel"),
        ("template <int N> __global__ void twice(float*) {}", "signature", "is a kernel"),
        ("static __global__ void twice(float*, int) {}", "signature", "is a kernel"),
        ("template <int N> __global__ void twice(float*) {} void twice(float*, int) {}",
         "no_extern_c", "not as extern"),
    ],
)  # fmt: skip
def test_an_entry_that_cant_be_called_is_said_so(
    make: Make, declared: str, kind: str, message: str
) -> None:
    found = only(make("\n" + declared))
    assert (found.kind, found.entry) == (kind, "twice")
    assert message in found.message
    assert found.line == (None if kind == "entry_missing" else 2)
    if kind == "signature" and "kernel" not in message:
        assert EXPECTED in found.message


@pytest.mark.parametrize(
    "other",
    [
        "void twice(float*, float*, int) {}",
        "static inline void twice(double*, float*, int) {}",
        "int twice(int);",
        "template <class T> void twice(T*, T*, int) {} template void twice(float*, float*, int);",
        "void twice(float*, float*, int) {} void twice(double*, double*, int) {} int twice() {}",
        "template <int N> __global__ void twice(float*, int) {}",
        "template <int N> __global__ void twice(float*) {} void go() { twice<1><<<1, 1>>>(0); }",
        "namespace a { __global__ void twice(const float*, float*, int) {} }",
        "__global__ void twice(float*, const float*, int) {}",
    ],
)
def test_functions_of_the_entrys_name_beside_it_do_no_harm(make: Make, other: str) -> None:
    wanted = Entry("twice", ("pointer:float32", "pointer:float32", "int"))
    entry = 'extern "C" void twice(const float* in, float* out, int n) {}\n'
    for text in (f"{other}\n{entry}", f"{entry}{other}\n"):
        made = make(text, wanted)
        assert (made.problems, made.entries) == ((), ("twice",))


def test_entries_of_long_integers_have_overloads_too(make: Make) -> None:
    entry = Entry("gather", ("pointer:int64", "pointer:float16", "bool"))
    right = 'extern "C" void gather(const long* at, __half* out, bool) {}'
    for text in (f"void gather(long long*, __half*, bool) {{}} {right}", f"{right} int gather();"):
        assert make(f"#include <cuda_fp16.h>\n{text}\n", entry).problems == ()


def test_one_wrong_signature_spoils_no_other_entry(make: Make) -> None:
    wrong = 'int third;\nextern "C" void other(long n) {}\n'
    made = make(TWICE + wrong, ENTRY, Entry("other", ("int",)), Entry("third", ("int",)))
    assert made.entries == ("twice",)
    assert {problem.entry for problem in made.problems} == {"other", "third"}


def test_a_main_of_the_students_own_is_said_so(make: Make) -> None:
    found = only(make(TWICE + "int main() { return 0; }\n"))
    assert (found.kind, found.line) == ("main", 8)


GENERIC = """\
namespace inner {
enum class Kind { half };
struct Step {};
template <class S, Kind K, class... T>
static __global__ void run(const T*... x, float* y, int n) { y[0] = n; }
}
template <auto Kernel, class... A>
static void launch(dim3 blocks, dim3 threads, A... a) { Kernel<<<blocks, threads>>>(a...); }
extern "C" void twice(const float* x, float* y, int n) {
    using namespace inner;
    auto go = [&](auto v) { launch<&run<Step, Kind::half, float>>(1, v, x, y, n); };
    go(256);
}
"""


def test_a_kernel_that_only_a_generic_lambda_names_is_built(make: Make) -> None:
    made = make(GENERIC)
    assert made.problems == () and made.executor is not None
    assert any(site.line == 5 and "run" in site.function for site in made.sites.values())


def test_a_kernel_without_a_body_breaks_no_rule(make: Make) -> None:
    problem = only(make(GENERIC.replace("{ y[0] = n; }", ";")))
    assert problem.kind == "unsupported" and "inner::run<inner::Step" in problem.message


# ---- Symbols -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("include", "code", "name"),
    [
        ("cstdlib", 'system("x")', "system"),
        ("unistd.h", 'execl("x", "x", nullptr)', "execl"),
        ("unistd.h", "vfork()", "vfork"),
        ("fcntl.h", 'open("x", 0)', "open"),
        ("unistd.h", 'write(3, "x", 1)', "write"),
        ("sys/mman.h", "mprotect(nullptr, 1, 7)", "mprotect"),
        ("unistd.h", "syscall(39)", "syscall"),
        ("dlfcn.h", 'dlopen("x", 1)', "dlopen"),
        ("csignal", "signal(11, SIG_IGN)", "signal"),
        ("csetjmp", "jmp_buf b; longjmp(b, 1)", "longjmp"),
        ("cstdlib", "_Exit(0)", "_Exit"),
        ("cstdlib", 'getenv("HOME")', "getenv"),
        ("sys/socket.h", "send(3, nullptr, 0, 0)", "send"),
        ("cstdio", 'fopen("x", "r")', "fopen"),
        ("pthread.h", "pthread_exit(nullptr)", "pthread_exit"),
        ("cstdio", 'std::remove("x")', "remove"),
        ("fstream", 'std::fstream f("x")', "std::fstream"),
        ("thread", "std::thread t([] {}); t.join()", "std::thread"),
        ("fstream", 'std::ifstream f("x")', "std::ifstream"),
        ("filesystem", 'std::filesystem::exists("x")', "std::filesystem"),
    ],
)
def test_what_a_kernel_has_no_use_for_is_refused_before_it_runs(
    make: Make, include: str, code: str, name: str
) -> None:
    text = TWICE.replace("    kernel<<<", f"    {code};\n    kernel<<<")
    made = make(f"#include <{include}>\n{text}")
    assert made.executable is None
    first = next(problem for problem in made.problems if name in problem.message)
    assert (first.kind, first.message) == ("symbol", f"{name} can't be used in a submission")
    assert first.line == 7


@pytest.mark.parametrize(
    "declared",
    [
        'extern "C" void __tsan_read4(void*) {}',
        'extern "C" void* malloc(unsigned long n) { return nullptr; }',
        'extern "C" long send(int, const void*, unsigned long, int) { return 0; }',
        'extern "C" void warpgrade_atomic_observed(void*, int);'
        "namespace warpgrade { void end_entry(); } void f() { warpgrade::end_entry(); }",
    ],
)
def test_the_emulators_own_functions_can_be_neither_called_nor_replaced(
    make: Make, declared: str
) -> None:
    assert only(make(TWICE + declared)).kind == "symbol"


def test_dead_code_may_name_what_only_sounds_like_ours(make: Make) -> None:
    dead = "extern void my_warpgrade_helper(); void never() { my_warpgrade_helper(); }"
    assert make(TWICE + dead).problems == ()


def test_maths_strings_and_the_cpp_library_are_allowed() -> None:
    allowed = ("expf", "sinl", "memcpy", "printf", "malloc", "exit", "_Znwm", "__popcountdi2")
    library = (
        *("_ZSt4cout", "_ZNSt6vectorIiSaIiEE9push_backERKi", "_ZSt20__throw_length_errorPKc"),
        *("_ZNSolsEi", "_ZNKSt9exception4whatEv", "_ZNSaIcED1Ev", "__divti3"),
    )
    assert [name for name in (*allowed, *library) if not objects.is_allowed(name, ())] == []
    refused = (
        *("_ZNSt13basic_filebufIcSt11char_traitsIcEE4openEPKcSt13_Ios_Openmode", "ptrace"),
        *("_ZNSt6thread4joinEv", "_ZN9warpgrade9end_entryEv", "vfork", "socket", "_exit"),
        *("_ZNSt18condition_variable10notify_oneEv", "pthread_create", "pthread_cancel"),
    )
    assert [name for name in refused if objects.is_allowed(name, ())] == []


@pytest.mark.parametrize("program", toolchain.PROGRAMS)
def test_nothing_of_the_cpp_library_is_global_in_our_own_objects(
    tools: Toolchain, program: str
) -> None:
    shared = [
        symbol.name
        for symbol in Elf(tools.prebuilt(program)).symbols
        if symbol.is_defined and not symbol.is_local and symbol.name.startswith("_Z")
    ]
    assert shared == [], "a submission with a copy of its own couldn't be linked"


@pytest.mark.parametrize("argument", ["n", "7u", "7l", "7ul", "7ll", "sizeof n", "1.5f", "1.5"])
def test_numbers_become_strings_in_launchers(make: Make, argument: str) -> None:
    check = f"    if (n < 1) throw std::to_string({argument});\n    kernel<<<"
    made = make("#include <string>\n" + TWICE.replace("    kernel<<<", check))
    assert made.problems == () and made.executor is not None


def test_what_is_declared_and_nowhere_defined_breaks_no_rule(make: Make) -> None:
    text = TWICE.replace("    kernel<<<", "    std::nowhere();\n    kernel<<<")
    problem = only(make("namespace std { void nowhere(); }\n" + text))
    assert problem.kind == "compile"
    assert problem.message == "linking failed: undefined reference to `std::nowhere()'"


def test_other_trouble_of_the_linker_breaks_no_rule(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise LinkError("ld: student.o:(.rodata+0x0): multiple definition of `digits'; table.o")

    monkeypatch.setattr(Linker, "link", fails)
    problem = only(make(TWICE))
    assert problem.kind == "unsupported"
    assert problem.message == "the emulator can't link the file: multiple definition of `digits'"


def test_too_much_static_shared_memory_is_what_it_is_with_nvcc(make: Make) -> None:
    shared = "    __shared__ float a[8192], b[4097]; a[0] = b[0];\n    int i"
    found = only(make(TWICE.replace("    int i", shared)))
    assert (found.kind, found.line) == ("hardware", 1)
    assert "49,156 bytes of static __shared__ memory; a kernel can have 49,152" in found.message


def test_more_constant_memory_than_a_gpu_has_is_refused(make: Make) -> None:
    table = "__constant__ float some[4], table[1 << 14];\n"
    found = only(make(table + TWICE))
    assert (found.kind, found.line) == ("hardware", 1)
    assert "65,552 bytes of __constant__ memory, of which a GPU has 65,536" in found.message
    assert not make(table.replace("14", "13") + TWICE).problems


# ---- The toolchain -------------------------------------------------------------------------------


def test_no_compiler_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(toolchain.ToolchainMissing, match=r"g\+\+ not found.*apt install g\+\+"):
        toolchain.find_compiler()


def test_a_compiler_that_wont_do_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "fake-g++"
    fake.write_text("#!/bin/sh\necho 'clang version 17.0.0'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    with pytest.raises(toolchain.ToolchainMissing, match="fake-g"):
        toolchain.find_compiler()


def test_other_machines_are_told_that_the_emulator_isnt_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    with pytest.raises(toolchain.ToolchainMissing, match="runs on x86-64 Linux"):
        toolchain.find_compiler()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A toolchain of one small source of ours; its cache's folder."""
    source = tmp_path / "ours.cpp"
    source.write_text('extern "C" int warpgrade_number() { return 7; }\n')
    monkeypatch.setattr(toolchain, "_sources", lambda: [source])
    monkeypatch.setattr(toolchain, "HEADERS", {"core": ("cstddef",)})
    return tmp_path / "cache"


def test_the_cache_is_built_once_and_again_when_a_source_changes(tiny: Path) -> None:
    first = toolchain.prepare(tiny)
    made = first.prebuilt("planner").stat().st_mtime_ns
    assert toolchain.prepare(tiny).prebuilt("planner").stat().st_mtime_ns == made
    (tiny.parent / "ours.cpp").write_text('extern "C" int warpgrade_number() { return 8; }\n')
    assert toolchain.prepare(tiny).folder != first.folder


def entries(cache: Path) -> list[str]:
    """What is kept there."""
    return [path.name for path in cache.iterdir() if not path.name.endswith(".lock")]


def test_of_several_that_prepare_the_same_cache_at_once_one_builds(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Path] = []
    builds: list[Path] = []
    build = toolchain._build_entry

    def counted(scratch: Path, compiler: str) -> None:
        builds.append(scratch)
        build(scratch, compiler)

    monkeypatch.setattr(toolchain, "_build_entry", counted)
    threads = [
        threading.Thread(target=lambda: found.append(toolchain.prepare(tiny).folder))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and len(set(found)) == 1 and len(builds) == 1
    assert entries(tiny) == [found[0].name]


def test_old_entries_of_the_cache_go(tiny: Path) -> None:
    for i in range(10):
        (tiny / f"emulator-old{i}").mkdir(parents=True)
    toolchain.prepare(tiny)
    assert len(entries(tiny)) == toolchain.KEPT_ENTRIES


def test_trouble_with_our_own_sources_is_ours(tiny: Path) -> None:
    (tiny.parent / "ours.cpp").write_text("int f( {\n")
    with pytest.raises(toolchain.ToolchainError, match="expected"):
        toolchain.prepare(tiny)
    assert entries(tiny) == []


def test_a_build_reads_nothing_outside_the_readable_paths(tools: Toolchain) -> None:
    paths = toolchain.readable_paths(tools)
    assert tools.folder in paths and Path(tools.compiler).parent in paths
    needed = subprocess.run(
        [tools.compiler, "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert any(Path(needed).is_relative_to(path) for path in paths)


# The common ground of a library of kernels with products by cuBLASLt beside its own.
CUBLAS_LT = """\
#include <cublas_v2.h>
#include <cublasLt.h>
typedef __nv_bfloat16 floatX;
#define LOWP CUDA_R_16BF
const size_t workspace_size = 32 * 1024 * 1024;
void* workspace = NULL;
cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
cublasLtHandle_t handle;
cublasHandle_t older;
void check(cublasStatus_t status) { if (status != CUBLAS_STATUS_SUCCESS) exit(1); }
void product(void* d, const void* a, const void* b) {
    cublasLtMatmulDesc_t description;
    check(cublasLtMatmulDescCreate(&description, compute, CUDA_R_32F));
    cublasOperation_t turned = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                         sizeof turned));
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    check(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                         sizeof epilogue));
    cublasLtMatrixLayout_t layout;
    check(cublasLtMatrixLayoutCreate(&layout, LOWP, 64, 64, 64));
    int batches = 2;
    check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches,
                                           sizeof batches));
    cublasLtMatmulPreference_t preference;
    check(cublasLtMatmulPreferenceCreate(&preference));
    check(cublasLtMatmulPreferenceSetAttribute(preference,
                                               CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &workspace_size, sizeof workspace_size));
    cublasLtMatmulHeuristicResult_t heuristic;
    int found = 0;
    cublasLtMatmulAlgoGetHeuristic(handle, description, layout, layout, layout, layout, preference,
                                   1, &heuristic, &found);
    const float alpha = 1, beta = 0;
    check(cublasLtMatmul(handle, description, &alpha, a, layout, b, layout, &beta, d, layout, d,
                         layout, &heuristic.algo, workspace, workspace_size, 0));
    check(cublasLtMatrixLayoutDestroy(layout));
    check(cublasLtMatmulPreferenceDestroy(preference));
    check(cublasLtMatmulDescDestroy(description));
}
"""
CUBLAS = "#include <cublas_v2.h>\ncublasHandle_t handle;\n"


@pytest.mark.parametrize(
    "unused",
    [
        "#include <unistd.h>\nvoid save(int file) { write(file, &handle, 8); fork(); }\n",
        "void setup() { cublasCreate(&handle); }\n",
        "static void setup() { cublasCreate(&handle); }\nvoid (*all[])() = {setup};\n",
        "struct S { static void setup() { cublasCreate(&handle); } };\n"
        "template <class T> void more() { T::setup(); }\ntemplate void more<S>();\n",
    ],
)
def test_what_no_entry_reaches_may_call_what_is_not_there(make: Make, unused: str) -> None:
    made = make(CUBLAS + unused + TWICE)
    assert made.problems == ()
    assert made.executable is not None and made.executor is not None


@pytest.mark.parametrize(
    ("reaching", "call"),
    [
        ("void setup() { cublasCreate(&handle); }\n", "setup()"),
        ("static void setup() { cublasCreate(&handle); }\nvoid (*f)() = setup;\n", "f()"),
        ("struct S { S() { cublasCreate(&handle); } } s;\n", "(void)0"),
        ("struct S { virtual void f() { cublasCreate(&handle); } };\n", "S().f()"),
        (
            "struct S { virtual void f() { cublasCreate(&handle); } };\n"
            "__attribute__((noinline)) void g(S* s) { s->f(); }\n",
            "S s; g(&s)",
        ),
        ("", "try { throw 1; } catch (int) { cublasCreate(&handle); }"),
    ],
)
def test_what_is_reached_is_refused_by_name(make: Make, reaching: str, call: str) -> None:
    text = CUBLAS + reaching + TWICE.replace("    kernel<<<", f"    {call};\n    kernel<<<")
    problem = only(make(text))
    assert problem.kind == "symbol"
    assert problem.message == "cublasCreate can't be used in a submission"
    assert problem.line is not None
    assert "cublasCreate" in text.splitlines()[problem.line - 1]


def test_cublas_brings_the_types_that_nvidias_brings(make: Make) -> None:
    types = "__half h; __nv_bfloat16 b; cudaDataType_t t = CUDA_R_16BF; int64_t n; cudaStream_t s;"
    for header in ("cublas_v2.h", "cublasLt.h"):
        made = make(f"#include <{header}>\nstruct All {{ {types} }};\n{TWICE}")
        assert made.problems == ()
    problem = only(make(f"#include <cublas_v2.h>\ncuFloatComplex z;\n{TWICE}"))
    assert (problem.kind, problem.line) == ("unsupported", 2)
    assert "cuComplex" in problem.message


def test_products_of_cublaslt_that_nobody_asks_for_do_no_harm(make: Make) -> None:
    assert make(CUBLAS_LT + TWICE).problems == ()
    called = TWICE.replace("    kernel<<<", "    product(y, x, x);\n    kernel<<<")
    made = make(CUBLAS_LT + called)
    assert made.executable is None
    assert {problem.kind for problem in made.problems} == {"symbol"}
    assert any("cublasLtMatmul can't be used" in problem.message for problem in made.problems)


def test_a_name_of_cublas_that_is_not_known_is_lacking(make: Make) -> None:
    problem = only(make(f"{CUBLAS}cublasLogger logger;\n{TWICE}"))
    assert (problem.kind, problem.line) == ("unsupported", 3)
    assert "cuBLAS" in problem.message
