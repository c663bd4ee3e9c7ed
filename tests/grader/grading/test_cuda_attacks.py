"""Attacks in CUDA C++: no file that cheats or does harm gains a point, each layer by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.evidence import PartEvidence
from grader.executors.cuda import cuda_build
from grader.grading.check import check_part
from grader.grading.session import Options, Session
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.spec.task import Task
from grader.status import Status
from tests.grader.grading.test_attacks import alone, by_layer, earned, held, sample, unchanged
from tests.support import attacking, attacks
from tests.support.attacks import Attack, AttackError, Layer
from tests.support.sampling import sampled_by

pytestmark = pytest.mark.skipif(
    bool(cuda_build.why_not("emulator")), reason=cuda_build.why_not("emulator")
)

CORPUS = attacks.load("cuda")
ALONE = alone(CORPUS)

HARMFUL = [each for each in CORPUS if Layer.sandbox in each.layers]
# One layer can hold these: what they do is in their source, their values or their counters alone,
# or it is the compiler that they attack; or it is what is left when all others are got around.
ONE_LAYER = {*Layer} - {Layer.emulator}

machine = pytest.fixture(scope="module", autouse=True)(unchanged)


# --- the corpus -----------------------------------------------------------------------------------


def test_there_are_enough_attacks_and_every_layer_holds_some():
    assert len(CORPUS) >= 25
    for layer in Layer:
        assert any(layer in attack.layers for attack in CORPUS), layer


@pytest.mark.parametrize("attack", CORPUS, ids=lambda attack: attack.name)
def test_two_layers_hold_an_attack_wherever_two_can(attack: Attack):
    assert len(attack.layers) >= 2 or {*attack.layers} <= ONE_LAYER


@pytest.mark.parametrize("attack", CORPUS, ids=lambda attack: attack.name)
def test_what_the_source_tells_or_the_host_did_is_a_violation(attack: Attack):
    told = Layer.policy in attack.layers or Layer.plan in attack.layers
    told |= (
        attack.layers.get(Layer.emulator) is Status.policy_violation
    )  # the compiled object tells
    assert told == (attack.status is Status.policy_violation)


def test_a_triton_file_has_no_layer_of_the_emulators(tmp_path: Path):
    path = tmp_path / "some.py"
    path.write_text("# It cheats. | silu/triton | passed | emulator\n")
    with pytest.raises(AttackError, match=r"some\.py:1: a Triton file has no layer emulator"):
        attacks.read(path)


# --- each layer alone -----------------------------------------------------------------------------


@pytest.mark.parametrize(("attack", "layer", "level"), sampled_by(ALONE, by_layer))
def test_a_layer_alone_holds_an_attack(attack: Attack, layer: Layer, level: Level | None):
    held(attacking.run(attack, layer, level))


@pytest.mark.parametrize("attack", HARMFUL, ids=lambda attack: attack.name)
def test_without_a_sandbox_an_attack_on_it_does_harm(attack: Attack):
    assert attacking.harm(attack), "it is lame: nothing is shown by holding it"


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", sample(CORPUS))
def test_with_every_layer_on_an_attack_gets_its_status_and_no_point(attack: Attack):
    status = held(attacking.run_all(attack))
    assert status is attack.status
    if attack.status is not Status.target_missed:  # then it is right, and loses what memory gives
        assert earned(attack, status) == 0


# --- the symbols of an object ---------------------------------------------------------------------

HEAD = "#include <cuda_runtime.h>\n"
ENTRY = '\nextern "C" void silu(const float* x, float* out, int n) { cudaMemset(out, 0, 4 * n); }\n'
REFUSED = {
    "a constructor": (
        "__attribute__((constructor)) static void f() { volatile int x = 1; }",
        r"f runs by itself \(\.init_array\)",
    ),
    "one by a compiler's name": (
        "__attribute__((constructor)) static void f() { volatile int x = 1; }\n"
        "struct A { A() { volatile int x = 1; } } a;",
        r"f runs by itself|a function runs by itself",
    ),
    "a destructor": (
        "__attribute__((destructor)) static void f() { volatile int x = 1; }",
        r"f runs by itself \(\.fini_array\)",
    ),
    "an early object": (
        "struct A { A() { volatile int x = 1; } };\nA a __attribute__((init_priority(200)));",
        r"runs by itself \(\.init_array\.00200\)",
    ),
    "the very first": (
        "static void f() { volatile int x = 1; }\n"
        '__attribute__((section(".preinit_array"), used)) static void (*const p)() = f;',
        r"f runs by itself \(\.preinit_array\)",
    ),
    "an old array": (
        "static void f() { volatile int x = 1; }\n"
        '__attribute__((section(".ctors"), used)) static void (*const p)() = f;',
        r"f runs by itself \(\.ctors\)",
    ),
    "an ifunc": (
        'extern "C" { static void f() {} static void (*g())() { return f; }\n'
        'void h() __attribute__((ifunc("g"))); }\nvoid use() { h(); }',
        r"h is chosen while the program is loaded",
    ),
    "a weak allocator": (
        'extern "C" __attribute__((weak)) void* malloc(unsigned long) { return nullptr; }',
        r"malloc is the name of a library function",
    ),
    "a weak operator": (
        "#include <new>\n"
        "__attribute__((weak)) void operator delete(void*) noexcept {}\n"
        "__attribute__((weak)) void* operator new(unsigned long) { return nullptr; }",
        r"is the name of a library function",
    ),
    "a hook": ('extern "C" void __tsan_write4(void*) {}', r"__tsan_write4 is the name"),
    "an unwinder": ('extern "C" int _Unwind_Resume_or_Rethrow(void*) { return 0; }', "Unwind"),
    "what the C++ library calls": (
        'extern "C" long write(int, const void*, unsigned long) { return 0; }',
        r"write is the name of a library function",
    ),
    "what the runtime calls": (
        'extern "C" int memcmp(const void*, const void*, unsigned long) { return 0; }',
        r"memcmp is the name of a library function",
    ),
    "the table of entries": (
        'extern "C" unsigned warpgrade_entry_count;\n'
        "unsigned f() { return warpgrade_entry_count; }",
        r"warpgrade_entry_count can't be used",
    ),
}
ALLOWED = {
    "a container at file scope": "#include <vector>\nstatic std::vector<float> table(16, 1.0f);",
    "several objects at file scope": (
        "#include <map>\n#include <string>\n"
        'static std::map<std::string, int> a{{"x", 1}};\n'
        'std::string b = "a long enough text of it";'
    ),
    "a static object of a function": (
        "#include <vector>\nstd::vector<int>& f(int n) { static std::vector<int> v(n); return v; }"
    ),
    "streams": '#include <iostream>\nvoid tell(int n) { std::cout << n << "\\n"; }',
    "names like those of C": (
        "namespace own { float exp10(float x) { return x; } int write(int n) { return n; } }\n"
        'extern "C" float scale(float x) { return own::exp10(x); }'
    ),
    "templates of the library": (
        "#include <algorithm>\n#include <vector>\n"
        "void f(std::vector<double>& v) { std::sort(v.begin(), v.end()); v.push_back(1); }"
    ),
    "variables of the device": "__device__ float gain[4];\n__constant__ int time_steps;",
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """One for all builds: none of them is run."""
    with Sandbox("emulator", Level.limits, kind="native") as made:
        yield made


def built(sandbox: Sandbox, text: str) -> cuda_build.Program:
    """The program of a file with this text and an entry that does little."""
    kinds = ["pointer:float32", "pointer:float32", "int"]
    return cuda_build.build(sandbox, "silu.cu", (HEAD + text + ENTRY).encode(), [("silu", kinds)])


@pytest.mark.parametrize(("text", "told"), REFUSED.values(), ids=REFUSED)
def test_an_object_that_others_would_call_or_that_runs_by_itself_is_refused(
    sandbox: Sandbox, text: str, told: str
):
    program = built(sandbox, text)
    assert program.path is None
    assert {each.kind for each in program.problems} == {"symbol"}
    assert any(re.search(told, each.message) for each in program.problems), program.problems


@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED)
def test_what_honest_files_define_is_allowed(sandbox: Sandbox, text: str):
    program = built(sandbox, text)
    assert program.path is not None, program.problems


# --- work on the host -----------------------------------------------------------------------------

SILU = """
__global__ void silu_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));
}
extern "C" void silu(const float* x, float* out, int n) {
    silu_kernel<<<(n + 255) / 256, 256>>>(x, out, n);
    %s
}
"""
NORM = """
#include <cmath>
#include <vector>
__global__ void squares(const float* x, float* sums, int n) {
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i] * x[i];
    sums[threadIdx.x] = sum;
}
__global__ void scale(const float* x, const float* w, float* out, int n, float by) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * by * w[i];
}
extern "C" void rms_norm_vector(float* x, float* w, float* out, int n, float epsilon) {
    float *device, host[256];
    cudaMalloc(&device, sizeof host);
    squares<<<1, 256>>>(x, device, n);
    cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
    double sum = 0;
    for (float each : host) sum += each;
    scale<<<(n + 255) / 256, 256>>>(x, w, out, n, 1 / std::sqrt(sum / n + epsilon));
    cudaFree(device);
}
"""
PRINTS = """float before[4], after[4];
    const int few = n < 4 ? n : 4;
    cudaMemcpy(before, x, few * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(after, out, few * 4, cudaMemcpyDeviceToHost);"""
LOOKS = """float* all = new float[2 * n];
    cudaMemcpy(all, x, n * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(all + n, out, n * 4, cudaMemcpyDeviceToHost);
    delete[] all;"""
HONEST = {
    "prints a few values": ("silu/cuda", SILU % PRINTS),
    "looks at all of them": ("silu/cuda", SILU % LOOKS),
}


@pytest.mark.parametrize(("target", "text"), HONEST.values(), ids=HONEST)
def test_copies_beside_the_kernels_work_are_no_violation(target: str, text: str, tmp_path: Path):
    for part in graded(target, text, tmp_path):
        assert part.status is Status.passed, part


def test_a_kernel_that_waits_for_sums_of_the_host_is_wrong_and_told_why(tmp_path: Path):
    for part in graded("rmsnorm/cuda_vector", NORM, tmp_path):
        assert part.status is Status.wrong_values
        assert "rmsnorm.cu:18: this copy to the host gives zeros" in part.failures[0].hint


CHECKS = """float first = 7;
    cudaMemcpy(&first, out, 4, cudaMemcpyDeviceToHost);
    if (first == 0) %s;"""
ENDINGS = {
    "exits": ("exit(1)", "exit status 1"),
    "asserts": ("assert(first)", "an assertion in host code fails"),
    "throws": ('throw std::runtime_error("a mismatch")', "the entry raised C++: a mismatch"),
}


@pytest.mark.parametrize(("ending", "words"), ENDINGS.values(), ids=ENDINGS)
def test_host_code_that_ends_for_results_it_cannot_have_is_told_why(
    ending: str, words: str, tmp_path: Path
):
    text = f"#include <cassert>\n#include <stdexcept>\n{SILU % (CHECKS % ending)}"
    for part in graded("silu/cuda", text, tmp_path):
        assert part.status is Status.crashed
        assert words in part.failures[0].what
        assert "this copy to the host gives zeros" in part.failures[0].hint
        assert part.failures[0].cause == ""  # no change of the check's text is advised


POINTER = """
__device__ float act(float x) { return x / (1 + expf(-x)); }
__device__ float (*chosen)(float) = act;
__global__ void apply(const float* x, float* out, int n, float (*f)(float)) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = f(x[i]);
}
extern "C" void silu(const float* x, float* out, int n) {
    float (*f)(float);
    cudaMemcpyFromSymbol(&f, chosen, sizeof f);
    apply<<<(n + 255) / 256, 256>>>(x, out, n, f);
}
"""


def test_a_crash_by_a_function_that_host_code_fetched_is_told_why(tmp_path: Path):
    for part in graded("silu/cuda", POINTER, tmp_path):
        assert part.status is Status.crashed
        assert "this copy to the host gives zeros" in part.failures[0].hint
        assert "A function that a kernel calls through a pointer" in part.failures[0].hint


def graded(target: str, text: str, tmp_path: Path) -> list[PartEvidence]:
    """What two size classes of a file with this text get."""
    exercise, _, name = target.partition("/")
    asked = attacks.EXERCISES[exercise]
    (tmp_path / asked.variants[name].file).write_text(HEAD + text)
    with Session(
        tmp_path,
        attacks.EXERCISES,
        Options(
            seed=attacking.SEED,
            device="cpu",
            effort=attacking.BRIEF_CUDA,
            check_with_nvcc=False,
            backends=("emulator",),
        ),
    ) as session:
        return [
            check_part(session, Task(asked, asked.variants[name]), "float32", size_class)
            for size_class in list(asked.variants[name].size_classes)[:2]
        ]
