"""A planner of nvcc's own host code, which is run without a GPU, and without CUDA's libraries."""

from __future__ import annotations

import base64
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from grader.plan.model import Fill, KernelName, Launch, Plan, Refused, Upload
from grader.worker.gpu_build import Made
from grader.worker.protocol import Argument, Code, DType, Kind
from tests.support.nvcc_plans import (
    NEEDS_NVCC,
    Planned,
    build,
    entries_of,
    names_are_the_cubins,
    planned,
)

pytestmark = NEEDS_NVCC
SOURCE = Path(__file__).with_name("host.cu")
PARAMETERS = entries_of(SOURCE.read_text())
N = 256


def kinds(parameters: Sequence[str]) -> list[str]:
    return ["int" if each == "int n" else "pointer:float32" for each in parameters]


def arguments(parameters: Sequence[str]) -> list[Argument]:
    tensor = Argument(Kind.tensor, DType.float32, shape=(N,), strides=(1,), buffer=9)
    return [Argument(Kind.int64, scalar=N) if p == "int n" else tensor for p in parameters]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    entries = {name: kinds(parameters) for name, parameters in PARAMETERS.items()}
    result = build("gpu", SOURCE, entries, tmp_path_factory.mktemp("host"))
    assert not result.problems, result.problems
    return result


def ask(made: Made, entry: str) -> Planned:
    return planned(made, entry, arguments(PARAMETERS[entry]))


def plan_of(made: Made, entry: str) -> Plan:
    said = ask(made, entry)
    assert said.code is Code.ok and said.plan is not None, said
    return said.plan


def launches(plan: Plan) -> list[Launch]:
    return [step for step in plan.calls[0] if isinstance(step, Launch)]


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


def test_it_needs_none_of_cudas_libraries(made: Made) -> None:
    assert made.executable is not None
    told = subprocess.run(["ldd", made.executable], capture_output=True, text=True, check=True)
    assert "cuda" not in told.stdout


def test_kernels_and_variables_are_named_as_in_the_cubin(made: Made) -> None:
    plan = plan_of(made, "names")
    assert names_are_the_cubins(made, plan)
    names = [each.kernel for each in plan.specialisations if isinstance(each, KernelName)]
    assert len(names) == 4 and "hidden" in names[0]
    assert "_Z7boundedIfLi16EEvPKT_PS0_" in names and "_Z7boundedIiLi4EEvPKT_PS0_" in names
    (symbol,) = [each for each in plan.buffers if each.kind == "symbol"]
    assert "hidden_factors" in symbol.name and symbol.bytes == 8
    upload = plan.calls[0][0]
    assert isinstance(upload, Upload)
    assert struct.unpack("<2f", base64.b64decode(upload.data)) == (1, 2)


def test_a_structure_has_its_pointers_and_nothing_in_its_gaps(made: Made) -> None:
    for entry in ("names", "gaps"):
        launch = launches(plan_of(made, entry))[0]
        data = base64.b64decode(launch.parameters)
        assert data[0] == 7 and struct.unpack_from("<h", data, 16) == (1,)
        out = len(PARAMETERS[entry]) > 1
        assert launch.pointers == ((8, int(out), 0), (24, int(out), 0))
    assert data[1:8] == bytes(7) and data[18:24] == bytes(6)


def test_two_planners_give_the_same_plan(made: Made) -> None:
    assert plan_of(made, "gaps") == plan_of(made, "gaps")


def test_large_parameters_lie_where_the_cubin_says(made: Made) -> None:
    (launch,) = launches(plan_of(made, "large_parameter"))
    data = base64.b64decode(launch.parameters)
    assert len(data) == 8 + 6016 + 1
    assert struct.unpack_from("<i", data) == (3,) and data[-1] == 5
    assert struct.unpack_from("<i", data, 8 + 8 + 6000) == (4,)
    assert launch.pointers == ((8, 0, 0),)


def test_attributes_of_launches_stand_in_the_plan(made: Made) -> None:
    plan = plan_of(made, "cluster")
    launch, refused = plan.calls[0]
    assert isinstance(launch, Launch) and isinstance(refused, Refused)
    assert launch.cluster == (2, 1, 1) and not launch.cooperative
    assert launch.attributes == {"programmatic_stream_serialization": True}
    assert refused.error == "cudaErrorInvalidClusterSize" and "divide the grid" in refused.why
    assert plan.printed == "refused, as it should be\n"  # by the first call alone


def test_launches_by_calls_are_as_any_other(made: Made) -> None:
    plan = plan_of(made, "by_calls")
    first, second = launches(plan)
    assert (first.cooperative, second.cooperative) == (False, True)
    assert first.parameters == second.parameters and first.pointers == second.pointers
    assert first.line == line_of("cudaLaunchKernel((const void*)plain")


def test_an_argument_may_launch_a_kernel_itself(made: Made) -> None:
    first, second = launches(plan_of(made, "nested"))
    assert (first.grid, first.block) == ((2, 1, 1), (32, 1, 1))
    assert (second.grid, second.block) == ((1, 1, 1), (8, 1, 1))
    assert (first.line, second.line) == (line_of("plain<<<2, 32>>>"), line_of("pair<<<1, 8>>>"))


def test_questions_are_answered_of_the_cubin_and_the_gpu(made: Made) -> None:
    plan = plan_of(made, "asks")
    told = plan.printed.splitlines()
    assert told[0] == "128 64 90 49152"
    assert int(told[1].split()[1]) > 0
    assert told[2] == "NVIDIA H100 80GB HBM3 9.0 132 232448"
    assert told[3] == "2 blocks, 132"  # a static object has asked the device, too
    assert told[4] == "128 threads"
    assert told[5] == "1 1"
    (fill,) = plan.calls[0]
    assert isinstance(fill, Fill)
    assert (plan.buffers[fill.to.buffer].name, fill.to.shape) == ("table", (32,))


def test_more_shared_memory_has_to_be_asked_for(made: Made) -> None:
    refused, launch = plan_of(made, "shared_memory").calls[0]
    assert isinstance(refused, Refused) and isinstance(launch, Launch)
    assert "needs cudaFuncSetAttribute" in refused.why
    assert launch.shared == 100 * 1024


def test_launch_bounds_are_kept_to(made: Made) -> None:
    (refused,) = plan_of(made, "too_many_threads").calls[0]
    assert isinstance(refused, Refused)
    assert refused.kernel == "bounded<float, 16>"
    assert "__launch_bounds__ promises at most 128" in refused.why


def test_host_code_that_reads_the_device_is_told_where(made: Made) -> None:
    said = ask(made, "reads_the_device")
    assert said.code is Code.findings and said.report is not None
    (finding,) = said.report.findings
    assert finding.kind == "device_pointer_on_host" and "offset 12 of" in finding.text
    assert made.sites[str(finding.pc)][0] == line_of("= in[3];")


def test_an_exception_is_told(made: Made) -> None:
    said = ask(made, "throws_something")
    assert said.code is Code.raised and '"message": "no"' in said.text


def test_a_managed_variable_is_not_for_host_code(made: Made) -> None:
    said = ask(made, "reads_managed_variable")
    assert said.code is Code.not_modelled and "__managed__" in said.text


def test_calls_for_the_other_default_stream_are_the_same(made: Made) -> None:
    (fill,) = plan_of(made, "per_thread").calls[0]
    assert isinstance(fill, Fill)
    assert fill.to.shape == (16,)


def _problems(folder: Path, text: str) -> list[tuple[str, int | None, str]]:
    source = folder / "file.cu"
    source.write_text(text)
    result = build("gpu", source, {"entry": ["pointer:float32"]}, folder / "made")
    assert result.executable is None and result.executor is None
    return [(each["kind"], each["line"], each["message"]) for each in result.problems]


def test_a_call_that_is_not_known_is_named(tmp_path: Path) -> None:
    text = 'extern "C" void entry(float* out) {\n  cudaGraph_t g;\n  cudaGraphCreate(&g, 0);\n}\n'
    told = [("unsupported", 3, "the grader doesn't support cudaGraphCreate (file.cu:3)")]
    assert _problems(tmp_path, text) == told


def test_a_call_of_the_system_is_refused(tmp_path: Path) -> None:
    text = 'extern "C" int fork();\nextern "C" void entry(float* out) { fork(); }\n'
    assert [each[0] for each in _problems(tmp_path, text)] == ["symbol"]


def test_our_own_functions_are_not_the_submissions(tmp_path: Path) -> None:
    name = "warpgrade_copy_symbol"
    text = f'extern "C" int {name}(int);\nextern "C" void entry(float* out) {{ {name}(1); }}\n'
    assert [each[0] for each in _problems(tmp_path, text)] == ["symbol"]


def test_what_nvcc_refuses_is_told_with_its_line(tmp_path: Path) -> None:
    text = '__global__ int wrong() { return 1; }\nextern "C" void entry(float* out) {}\n'
    assert [each[:2] for each in _problems(tmp_path, text)] == [("compile", 1)]


def test_another_signature_is_refused(tmp_path: Path) -> None:
    text = 'extern "C" void entry(int* out) {}\n'
    assert [each[0] for each in _problems(tmp_path, text)] == ["signature"]
