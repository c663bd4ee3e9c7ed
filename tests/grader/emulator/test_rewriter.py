"""The rewriter changes CUDA's own syntax, nothing else, and never shifts a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.emulator import rewriter, tokens, unsupported
from grader.staff.calibration import corpus

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted([*ROOT.glob("reference/*.cu"), *ROOT.glob("tests/grader/emulator/**/*.cu")])


def rewritten(text: str) -> str:
    """The text as g++ gets it; fails where something could not be rewritten."""
    result = rewriter.rewrite(tokens.read(text))
    assert result.troubles == ()
    assert result.text.count("\n") == text.count("\n")
    return result.text


def launch(name: str, configuration: str, kernel: str, arguments: str) -> str:
    return f'::warpgrade::launcher("{name}",{configuration})({kernel})({arguments})'


# ---- Launches ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "kernel", "name"),
    [
        ("k<<<1, 2>>>(a)", "k", "k"),
        ("k <<< 1, 2 >>> (a)", "k", "k"),
        ("a::b::k<<<1, 2>>>(a)", "a::b::k", "a::b::k"),
        ("::k<<<1, 2>>>(a)", "::k", "::k"),
        ("k<float, 32><<<1, 2>>>(a)", "k<float, 32>", "k<float,32>"),
        ("k<V<V<int>>><<<1, 2>>>(a)", "k<V<V<int>>>", "k<V<V<int>>>"),
        ("k<(3 >> 1)><<<1, 2>>>(a)", "k<(3 >> 1)>", "k<(3>>1)>"),
        ("n::S<int>::k<4><<<1, 2>>>(a)", "n::S<int>::k<4>", "n::S<int>::k<4>"),
        ("x.k<<<1, 2>>>(a)", "x.k", "x.k"),
        ("p->q.k<<<1, 2>>>(a)", "p->q.k", "p->q.k"),
        ("x.template k<2><<<1, 2>>>(a)", "x.template k<2>", "x.templatek<2>"),
        ("(*p)<<<1, 2>>>(a)", "(*p)", "(*p)"),
        ("table[i + 1]<<<1, 2>>>(a)", "table[i + 1]", "table[i+1]"),
        ("pick(n)<<<1, 2>>>(a)", "pick(n)", "pick(n)"),
    ],
)
def test_every_way_to_name_a_kernel_is_understood(source: str, kernel: str, name: str) -> None:
    made = rewritten(f"void f() {{ {source}; }}").replace(") (a)", ")(a)").replace('", ', '",')
    assert launch(name, "1, 2", kernel, "a") in made.replace("2 )", "2)")


def test_what_stands_before_a_launch_is_no_part_of_its_name() -> None:
    text = "void f() { if (x) k<<<1, 2>>>(a), k<<<3, 4>>>(b); else k<<<5, 6>>>(c); return; }"
    made = rewritten(text)
    assert f"if (x) {launch('k', '1, 2', 'k', 'a')}, {launch('k', '3, 4', 'k', 'b')};" in made
    assert f"else {launch('k', '5, 6', 'k', 'c')};" in made


def test_a_launch_may_be_a_value_of_a_conditional_expression() -> None:
    made = rewritten("void f() { n<8?k<1><<<1, 2>>>(a):k<8><<<1, 2>>>(a); }")
    once, twice = (launch(f"k<{n}>", "1, 2", f"k<{n}>", "a") for n in (1, 8))
    assert f"n<8?{once}: {twice};" in made


def test_a_configuration_may_hold_calls_braces_and_shifts() -> None:
    text = "void f() { k<<<g(1, 2), dim3{x >> 1, (y >>> 2)}, n * sizeof(T), s>>>(a); }"
    expected = launch("k", "g(1, 2), dim3{x >> 1, (y >>> 2)}, n * sizeof(T), s", "k", "a")
    assert expected in rewritten(text)


def test_lines_of_a_launch_stay_where_they_are() -> None:
    text = (
        "void f() {\n  k\n    <T> // one >>>\n  <<<1, // <<<\n     2>>>\n  (a,\n b);\n}\nint last;"
    )
    made = rewritten(text)
    assert made.splitlines()[8] == "int last;"
    assert made.splitlines()[5].strip() == "(a,"
    assert "// <<<" in made.splitlines()[3]


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_a_file_with_either_line_break_keeps_its_lines(line_break: str) -> None:
    text = line_break.join(["#define L(k) \\", "  k<<<1, 2>>>(a)", "void f() {", " L(k);", "}"])
    assert rewritten(text).count(line_break) == text.count(line_break)


def test_a_launch_in_a_macro_is_rewritten_and_named_by_its_user() -> None:
    made = rewritten("#define RUN(kernel, n) kernel<<<n, 32>>>(x)\n#define ONE k<<<1, 1>>>(x)\n")
    assert "launcher(#kernel,n, 32)(kernel)(x)" in made
    assert 'launcher("k",1, 1)(k)(x)' in made


def test_a_macro_may_have_our_names_as_its_parameters() -> None:
    made = rewritten("#define MAKE(launcher) void launcher(int n) { k<<<n, 32>>>(n); }\n")
    assert '::warpgrade::l##auncher("k",n, 32)(k)(n)' in made
    text = '#define LANE(lane, put) asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane))\n'
    made = rewritten(text)
    assert "::ptx::p##ut" in made and "::ptx::l##ane()" in made
    assert "##" not in rewritten(
        text.replace("LANE(lane, put)", "LANE(id)").replace("(lane)", "(id)")
    )


def test_a_macro_may_have_a_launch_s_configuration_without_its_kernel() -> None:
    made = rewritten("#define ON(grid, block) <<< grid, block >>>\nvoid f() { k ON(1, 32)(x); }\n")
    assert "#define ON(grid, block) ->*::warpgrade::configuration( grid, block )\n" in made


def test_comments_texts_and_code_that_is_off_stay_as_they_are() -> None:
    text = (
        '// k<<<1>>>(a)\n/* k<<<1, 2>>>(a) */ const char* s = "k<<<1>>>(a) \\" extern";\n'
        "auto r = R\"x(k<<<1>>>(a) \" )x\"; char c = '\"'; int big = 1'000'000;\n"
        "#if 0\n don't k<<<1>>>(a)\n#if 1\n#endif\n#endif\n#error don't k<<<1>>>(a)\n"
    )
    assert rewritten(text) == text


def test_what_is_no_launch_stays_as_it_is() -> None:
    text = "std::ostream& operator<<<T>(std::ostream& s, V<V<V<T>>> v) { return s << (1 >> 2); }"
    assert rewritten(text) == text


@pytest.mark.parametrize("text", ["void f() { k<<<1, 2>>>; }", "void f() { 3 <<<1>>> (4); }"])
def test_a_launch_that_isnt_one_is_told_with_its_place(text: str) -> None:
    (trouble,) = rewriter.rewrite(tokens.read(text)).troubles
    assert text[trouble.offset :].startswith("<<<")


@pytest.mark.parametrize(
    ("declarations", "source", "deduced"),
    [
        ("template <class T> __global__ void k(T* p);", "k<<<1, 2>>>(p)", True),
        ("template <class T> __global__ void k(T* p);", "k<int><<<1, 2>>>(p)", False),
        ("template <int N, class T> __global__ void k(T* p);", "k<3><<<1, 2>>>(p)", True),
        ("template <class... T> __global__ void k(T... p);", "k<int><<<1, 2>>>(p)", True),
        ("__global__ void k(int* p, int n = 3);", "k<<<1, 2>>>(p)", True),
        ("__global__ void k(int*); __global__ void k(float*);", "k<<<1, 2>>>(p)", True),
        ("__global__ void k(const int*, int);", "k<<<1, 2>>>(0, 1)", False),
        ("__global__ void k(int*, int); __global__ void k(int* p, int n) {}", "k<<<1, 2>>>(p, 1)",
         False),
        ("__global__ void __launch_bounds__(64) k(int n);", "k<<<1, 2>>>(1)", False),
    ],
)  # fmt: skip
def test_a_kernel_whose_type_follows_from_the_arguments_is_launched_by_a_call(
    declarations: str, source: str, deduced: bool
) -> None:
    made = rewritten(f"{declarations}\nvoid f() {{ {source}; }}")
    assert (".deduced(" in made) == deduced


def test_the_launches_found_are_those_that_a_grammar_of_cuda_finds() -> None:
    grammar = pytest.importorskip("tree_sitter_cuda")
    tree_sitter = pytest.importorskip("tree_sitter")
    parser = tree_sitter.Parser(tree_sitter.Language(grammar.language()))
    count = 0
    for text in [path.read_text() for path in SOURCES] + [
        submission.text()
        for kind in ("wrong", "honest")
        for submission in corpus.load(kind, "cuda")
    ]:
        tree = parser.parse(text.encode())
        nodes, starts = [tree.root_node], set()
        while nodes:
            node = nodes.pop()
            nodes += node.children
            if node.type == "kernel_call_syntax":
                starts.add(len(text.encode()[: node.start_byte].decode()))
        code = {token.start for token in tokens.read(text).code.tokens}
        found = set(rewriter.rewrite(tokens.read(text)).launches) & code
        assert starts <= found  # the grammar misses some that stand beside what it can't parse
        count += len(starts)
    assert count > 300


# ---- Variables -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declaration", "made"),
    [
        ("extern __shared__ float s[];", "float (&s)[] = *reinterpret_cast<float (*)[]>("),
        ("extern __shared__ __align__(16) T s[];", "T (&s)[] = *reinterpret_cast<T (*)[]>("),
        ("alignas(16) extern __shared__ T s[];", "T (&s)[] = *reinterpret_cast<T (*)[]>("),
        ("__shared__ extern T s[];", "T (&s)[] = *reinterpret_cast<T (*)[]>("),
        ("__shared__ alignas(16) extern T s[];", "T (&s)[] = *reinterpret_cast<T (*)[]>("),
        ("extern volatile __shared__ int s[];", "volatile int (&s)[] = "),
        ("extern __shared__ float s[][32];", "float (&s)[][32] = *reinterpret_cast<float (*)[][32"),
        ("extern __shared__ int a[], b[];", "int (&b)[] = *reinterpret_cast<int (*)[]>("),
        ("extern __shared__ std::pair<int, float> s[];", "std :: pair < int , float > (&s)[] = "),
        ("extern __shared__\n  unsigned char s[];", "unsigned char (&s)[] = "),
    ],
)
def test_dynamic_shared_memory_becomes_a_reference(declaration: str, made: str) -> None:
    result = rewritten(f"template <class T> __global__ void k() {{ {declaration} }}")
    assert made in result
    assert "extern" not in result


def test_dynamic_shared_memory_at_file_scope_is_declared_elsewhere() -> None:
    for text in ("extern __shared__ int s[];", "namespace a { extern __shared__ int s[]; }"):
        assert 'extern int (&s)[] __asm__("warpgrade_dynamic_shared_reference");' in rewritten(text)


def test_an_extern_c_function_with_shared_memory_is_no_declaration_of_it() -> None:
    text = 'extern "C" void f() { g(); }\n__global__ void k() { __shared__ int s[3]; }'
    assert rewritten(text) == text


@pytest.mark.parametrize(
    ("declaration", "section"),
    [
        ("__device__ int n;", "warpgrade_device"),
        ("static __device__ float values[3] = {1, 2, 3};", "warpgrade_device"),
        ("__constant__ float weights[4];", "warpgrade_constant"),
        ("__device__ Vector<int, 3> v{};", "warpgrade_device"),
        ("__device__ const float* kept;", "warpgrade_device"),
        ("const __device__ float* const* kept;", "warpgrade_device"),
        ("__device__ const float* const kept = 0;", None),
        ("__constant__ struct Parameters kept;", "warpgrade_constant"),
        ("__constant__ struct { float a; int b; } kept = {1, 2};", "warpgrade_constant"),
        ("struct Parameters { float a; };__device__ Parameters kept;", "warpgrade_device"),
        ("__device__ float kept(0.5f), more(-1);", "warpgrade_device"),
        ("__device__ float (*kept)(float) = chosen;", "warpgrade_device"),
        ("__device__ float (*kept[2])(float);", "warpgrade_device"),
        ("__device__ float (*const kept)(float) = chosen;", None),
        ("__device__ float (*function(int x))(float);", None),
        ("__device__ struct Pair function(int x) { return {}; }", None),
        ("struct S { __device__ S(int n); int get() {} __device__ S(); };", None),
        ("__device__ int function(int x);", None),
        ("__device__ __forceinline__ float function() { return 1; }", None),
        ("__constant__ const int table[] = {1};", None),
        ("struct S { __device__ S() {} __device__ int get() const; };", None),
        ("void f() { auto g = [=] __device__(int i) { return i; }; }", None),
        ("__device__ std::array<Vector<int, 3>, (2 > 1)> v = {};", "warpgrade_device"),
        (
            "template <class T, int n> __device__ typename std::enable_if<\n"
            "    Has<T>::value == true && n % 2 == 0, Pack<T, n>>::type apply(Pack<T, n> x) {}",
            None,
        ),
    ],
)
def test_device_variables_lie_in_sections_of_their_own(
    declaration: str, section: str | None
) -> None:
    made = rewritten(declaration)
    assert made == declaration if section is None else f'section("{section}")' in made


@pytest.mark.parametrize(
    ("declaration", "feature"),
    [
        ("template <class T> __device__ T variable;", "variable templates in __device__ memory"),
        ("struct P { int a; } __constant__ kept;", "__constant__ behind the body of a variable's"),
    ],
)
def test_device_variables_without_a_section_are_lacking(declaration: str, feature: str) -> None:
    made = rewriter.rewrite(tokens.read(declaration))
    assert made.text == declaration
    assert [each.message.startswith(feature) for each in made.troubles] == [True]


def test_the_alignment_of_shared_memory_comes_first() -> None:
    made = rewritten("__global__ void k() { __shared__ alignas(8) alignas(N(4)) float s[4]; }")
    assert "{ alignas ( 8 ) alignas ( N ( 4 ) ) __shared__ float s[4]; }" in made


def test_shared_memory_that_is_called_static_is_so_once() -> None:
    made = rewritten("void f() { static __shared__ int a; __shared__ static int b; static int c; }")
    assert made.count("static") == 1 and "static int c" in made


def test_no_function_is_kept_from_being_inlined() -> None:
    text = "__device__ __noinline__ int f();\n__attribute__((__noinline__)) int g();\n"
    made = rewritten(text + "[[gnu::noinline]] int noinline();")
    assert made.startswith("__device__  int f();\n__attribute__((unused)) int g();\n")
    assert "[[gnu::unused]] int noinline();" in made
    made = rewritten("__attribute__((used, aligned(16), noinline)) int f(int noinline);\n")
    assert made.startswith("__attribute__((used, aligned(16), unused)) int f(int noinline);\n")


# ---- Anything --------------------------------------------------------------------------------


PIECES = st.sampled_from(
    [
        *("k", "<<<", ">>>", "<", ">", "(", ")", "[", "]", "{", "}", ",", ";", "::", ".", "->"),
        *("extern ", "__shared__ ", "__device__ ", "__global__ ", "template", "float ", "=", "1"),
        *("#define A(x) ", "\\\n", "\n", "//", "/*", "*/", 'R"(', "alignas(16)", "__noinline__"),
        *('"', "'", "#"),
    ]
)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_no_text_breaks_the_rewriter_or_shifts_its_lines(text: str) -> None:
    source = tokens.read(text)
    assert rewriter.rewrite(source).text.count("\n") == text.count("\n")
    unsupported.find(source)


# ---- Unsupported -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "feature"),
    [
        ('asm volatile("vadd.s32 %0, 1;" : "=r"(x));', "this inline assembly (PTX): vadd.s32"),
        ("#include <crt/mma.h>", "CUDA's internal headers"),
        ("cuda::std::mdspan<int, 3> a;", "libcu++ (namespace cuda)"),
        ("auto grids = cg::this_multi_grid();", "synchronisation of several grids"),
        ("__managed__ int x;", "managed memory (__managed__)"),
        ("__nv_fp4_e2m1 x;", "4-bit floating-point types"),
        ("using A = cub::BlockScan<int, 32>;", "CUB's other parts (namespace cub)"),
        ("cudaTextureObject_t texture;", "textures"),
        ("__global__ void __cluster_dims__(2, 1, 1) k();", "thread block clusters"),
        ("__global__ void k() { child<<<1, 1>>>(); }", "launches from device code (dynamic par"),
        ("#define A asm(\"x\")", "this inline assembly (PTX)"),
    ],
)  # fmt: skip
def test_what_the_emulator_lacks_is_found_at_its_place(code: str, feature: str) -> None:
    text = f"int before;\n{code}\nint after;\n"
    source = tokens.read(text)
    (found,) = unsupported.find(source)
    assert found.feature.startswith(feature)
    assert source.line(found.offset) == 2


HEADERS = [
    ("#include <thrust/sort.h>", "auto f = thrust::sort;", "Thrust"),
    ("#include <cub/device/device_scan.cuh>", "auto f = cub::DeviceScan::InclusiveSum;", "CUB"),
    ('#include "cublasXt.h"', "cublasXtHandle_t handle;", "cuBLASXt"),
    (
        "#include <cuda/latch>",
        "cuda::latch<cuda::thread_scope_block> b;",
        "libcu++ (<cuda/...>)",
    ),
    ("#include <cuda_fp6.h>", "__nv_fp6_e3m2 x;", "6-bit floating-point types"),
]


@pytest.mark.parametrize(("include", "use", "feature"), HEADERS)
def test_a_header_that_the_emulator_lacks_counts_where_it_is_used(
    include: str, use: str, feature: str
) -> None:
    text = f"int before;\n{include}\n{use}\n"
    source = tokens.read(text)
    first = unsupported.find(source)[0]
    assert (first.feature, source.line(first.offset)) == (feature, 3)


@pytest.mark.parametrize("include", [include for include, _, _ in HEADERS])
def test_a_header_that_the_file_makes_no_use_of_is_left_out(include: str) -> None:
    source = tokens.read(f"int before;\n{include}\nint after;\n")
    assert unsupported.find(source) == []
    assert rewriter.rewrite(source).text == "int before;\n\nint after;\n"


@pytest.mark.parametrize(
    "text",
    [
        "namespace engine { namespace cuda { struct Map {}; } }\nengine::cuda::Map a;",
        "namespace engine::cuda { void map(); }\nvoid f() { using namespace engine; cuda::map(); }",
    ],
)
def test_a_namespace_of_the_files_own_may_be_named_like_one_of_cudas(text: str) -> None:
    assert unsupported.find(tokens.read(text)) == []
    [lacking] = unsupported.find(tokens.read(f"{text}\ncuda::latch<cuda::thread_scope_block> b;"))
    assert lacking.feature == "libcu++ (namespace cuda)"


def test_what_is_named_in_comments_texts_and_code_that_is_off_is_supported() -> None:
    text = '// asm("x")\nconst char* s = "cudaGraph_t";\n#if 0\nasm("x");\n#endif\n'
    text += "__host__ int texture;\n"
    assert unsupported.find(tokens.read(text)) == []


def test_memory_in_three_dimensions_is_no_array() -> None:
    for name in ("cudaMemcpy3D", "cudaMemcpy3DParms", "cudaMalloc3D", "make_cudaExtent"):
        assert unsupported.lacking(name) == f"memory in three dimensions ({name})"
    assert unsupported.lacking("cudaMalloc3DArray") == "CUDA arrays (cudaMalloc3DArray)"


def test_only_names_of_cudas_are_lacking() -> None:
    assert unsupported.lacking("__vadd4") and unsupported.lacking("cudaGraphAddKernelNode")
    for slip in ("cudaMaloc", "cudaMemcopy", "__syncthread", "threadidx", "cudaMemCpy", "blockDIm"):
        assert unsupported.lacking(slip) is None
