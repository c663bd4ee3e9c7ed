"""The build server answers every request, delivers what was made, and names no folder of ours."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.emulator import nvcc_runtime, toolchain
from grader.emulator.build import Build
from grader.worker import builder
from grader.worker.builder import Wanted
from grader.worker.gpu_build import Made
from grader.worker.protocol import (
    MAX_REPLY_BYTES,
    REQUEST_BYTES,
    Argument,
    Code,
    Kind,
    Operation,
    Reply,
    Request,
)
from tests.support.emulated import Call
from tests.support.native import Placement, fields, only_needed_calls, vector

needs_gcc = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")

ROOM = 64 << 20
NAMED = "--arguments=x:input,y:output,n:input"
POINTERS = ["pointer:float32", "pointer:float32", "int"]
TWICE = """\
__global__ void twice_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
extern "C" void twice(const float* x, float* y, int n) {
    twice_kernel<<<(n + 255) / 256, 256>>>(x, y, n);
}
"""


class Server:
    """builder.serve in a thread, and what it delivered. A context manager."""

    def __init__(self, source: Path, entries: list[str], room: int = ROOM, **wanted: Any) -> None:
        self.output = os.memfd_create("program")
        os.ftruncate(self.output, room)
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(120)
        described = [{"name": name, "arguments": POINTERS} for name in entries]
        self._thread = threading.Thread(
            target=builder.serve,
            args=(
                theirs,
                self.output,
                str(source),
                {"backend": "emulator", "entries": described, **wanted},
            ),
        )

    def __enter__(self) -> Server:
        self._thread.start()
        assert Reply.unpack(self.socket.recv(MAX_REPLY_BYTES)) == Reply(0, Code.ok)
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self._thread.join(60)
        os.close(self.output)
        assert not self._thread.is_alive()

    def send(self, data: bytes) -> Reply:
        self.socket.send(data)
        return Reply.unpack(self.socket.recv(MAX_REPLY_BYTES + 1))

    def build(self) -> dict[str, Any]:
        reply = self.send(Request(Operation.build, 5).pack())
        assert (reply.sequence, reply.code) == (5, Code.ok), reply.text
        head, text = reply.text.split("\n", 1)
        while len(text.encode()) < int(head, 16):
            got = len(text.encode())
            text += self.send(Request(Operation.more, 5, repeat=got).pack()).text
        return json.loads(text)

    def delivered(self, told: dict[str, Any]) -> tuple[bytes, bytes]:
        """The executables, one behind the other, and the site table."""
        length = told["executable_bytes"] + told["executor_bytes"]
        program = os.pread(self.output, length, 0)
        return program, os.pread(self.output, told["sites_bytes"], length)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "twice.cu"
    path.write_text(TWICE)
    return path


def problem(kind: str = "compile", message: str = "x", detail: str = "") -> dict[str, Any]:
    return {"kind": kind, "message": message, "line": 1, "entry": "", "detail": detail}


@pytest.fixture
def making(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Makes every build come out as given, or raise."""

    def give(outcome: Any) -> None:
        def build(source: Path, wanted: Wanted, folder: Path) -> Made:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(builder, "build", build)

    return give


# --- serving -----------------------------------------------------------------------------------


def test_program_and_table_lie_behind_each_other(
    source: Path, tmp_path: Path, making: Callable[[Any], None]
) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF" * 1000)
    making(Made(program, [], {"4660": (12, "twice_kernel")}, ["twice"]))
    with Server(source, ["twice"]) as server:
        told = server.build()
        assert told["ok"] is True
        assert told["entries"] == ["twice"]
        delivered, sites = server.delivered(told)
    assert delivered == program.read_bytes()
    assert json.loads(sites) == {"4660": [12, "twice_kernel"]}


def test_program_that_does_not_fit_is_an_answer(
    source: Path, tmp_path: Path, making: Callable[[Any], None]
) -> None:
    program = tmp_path / "program"
    program.write_bytes(bytes(5000))  # and 2 of an empty table
    making(Made(program, [], {}))
    with Server(source, ["twice"], room=4096) as server:
        reply = server.send(Request(Operation.build, 1).pack())
    assert reply.code is Code.bad_request
    assert "5002 bytes, 4096 fit" in fields(reply)["message"]


@pytest.mark.parametrize("length", [1, 500, 200_000])
def test_problems_of_any_length_come_shortened(
    source: Path, making: Callable[[Any], None], length: int
) -> None:
    making(Made(None, [problem(message="é" * length, detail="\0" * length)] * 100, {}))
    with Server(source, ["twice"]) as server:
        told = server.build()
    assert told["ok"] is False
    assert len(told["problems"]) == builder.MAX_PROBLEMS
    assert told["problems"][0]["message"].startswith("é")
    assert len(told["problems"][0]["detail"]) <= 1010


def test_bad_requests_are_answered_and_the_next_is_served(
    source: Path, making: Callable[[Any], None]
) -> None:
    making(Made(None, [problem()], {}))
    with Server(source, ["twice"]) as server:
        for data in (b"x", bytes(REQUEST_BYTES), bytes(REQUEST_BYTES + 1)):
            assert server.send(data).code is Code.bad_request
        assert server.send(Request(Operation.plan, 2).pack()).code is Code.bad_request
        assert server.build()["problems"] == [problem()]


def test_trouble_of_our_own_is_told_and_leaves_no_folder(
    source: Path,
    tmp_path: Path,
    making: Callable[[Any], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    making(OSError("no compiler"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Server(source, ["twice"]) as server:
        reply = server.send(Request(Operation.build, 1).pack())
    assert reply.code is Code.bad_request
    assert fields(reply) == {"type": "OSError", "message": "no compiler"}
    assert not list(tmp_path.glob("build-*"))


def test_sandbox_needs_nothing_of_the_grader(tmp_path: Path) -> None:
    """As start.py loads it: by path, isolated, outside the project."""
    folder = Path(builder.__file__).parent
    text = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location(
    "warpgrade_worker", {str(folder / "__init__.py")!r},
    submodule_search_locations=[{str(folder)!r}])
package = importlib.util.module_from_spec(spec)
sys.modules["warpgrade_worker"] = package
spec.loader.exec_module(package)
from warpgrade_worker import builder
builder.load_emulator()
from warpgrade_emulator import build, toolchain
print([name for name in sys.modules if name.split(".")[0] in ("grader", "torch", "pydantic")])
"""
    line = [sys.executable, "-I", "-B", "-c", text]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


# --- really compiled ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """The emulator's part, which takes long to make, in a cache of these tests' own."""
    folder = tmp_path_factory.mktemp("cache")
    made = toolchain.prepare()
    copy = shutil.copytree(made.folder, folder / made.folder.name)
    return made.compiler, made.version, str(copy)


@needs_gcc
def test_emulated_program_computes_in_the_arena(
    source: Path, tmp_path: Path, ready: tuple[str, str, str]
) -> None:
    with Server(source, ["twice", "thrice"], toolchain=ready) as server:
        told = server.build()
        assert told["ok"], told
        assert told["entries"] == ["twice"]
        assert [each["kind"] for each in told["problems"]] == ["entry_missing"]
        program, sites = server.delivered(told)
    assert 3 in {line for line, _ in json.loads(sites).values()}
    planner, executor = tmp_path / "planner", tmp_path / "executor"
    planner.write_bytes(program[: told["executable_bytes"]])
    executor.write_bytes(program[told["executable_bytes"] :])
    for path in (planner, executor):
        path.chmod(0o700)
    values = torch.arange(1000.0)
    with Placement([vector("x", values), vector("y", 1000)]) as placement:
        for size, code in ((1000, Code.ok), (1001, Code.findings)):
            arguments = [*placement.arguments, Argument(Kind.int64, scalar=size)]
            options = [only_needed_calls("kill"), NAMED]
            built = Build(planner, (), executor=executor)
            outcome = Call(built, "twice", arguments, placement.arena.buffers, options).run()
            assert outcome.code is code, outcome
        assert torch.equal(placement.values("y"), 2 * values)
        assert outcome.report.findings[0].kind.startswith("out_of_bounds")


@pytest.fixture(scope="module")
def for_gpu(ready: tuple[str, str, str]) -> dict[str, Any]:
    """What is wanted of a build for a GPU, our part of the planner made."""
    compiler, version, made = ready
    nvcc = shutil.which("nvcc")
    assert nvcc is not None
    folder = nvcc_runtime.prepare(toolchain.Toolchain(compiler, version, Path(made)), nvcc).folder
    return {"backend": "gpu", "toolchain": ready, "gpu_planner": str(folder)}


WRONG = "\n\nint x = missing;\n" + TWICE


@needs_gcc
def test_errors_of_gcc_have_the_students_file_and_line(
    source: Path, tmp_path: Path, ready: tuple[str, str, str]
) -> None:
    source.write_text(WRONG)
    with Server(source, ["twice"], toolchain=ready) as server:
        told = server.build()
    assert not told["ok"]
    assert (told["problems"][0]["kind"], told["problems"][0]["line"]) == ("compile", 3)
    assert str(tmp_path) not in json.dumps(told)


@needs_gcc
@needs_nvcc
def test_nvcc_is_asked_for_its_errors_alone(source: Path) -> None:
    with Server(source, ["twice"], backend="nvcc") as server:
        told = server.build()
        assert (told["ok"], told["executable_bytes"], told["problems"]) == (True, 0, [])
        source.write_text(TWICE + "__global__ int number() { return 1; }\n")
        told = server.build()
    assert not told["ok"]
    assert 8 in {each["line"] for each in told["problems"]}


@needs_gcc
@needs_nvcc
@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        (WRONG, "compile", 3),
        (TWICE.replace('extern "C" ', ""), "no_extern_c", 5),
        (TWICE.replace("int n) {\n    twice", "long n) {\n    twice"), "signature", 5),
        (TWICE + "int main() { return 0; }\n", "main", 8),
    ],
    ids=["compile", "extern", "signature", "main"],
)
def test_gpu_build_tells_what_is_wrong(
    source: Path, for_gpu: dict[str, Any], text: str, kind: str, line: int
) -> None:
    source.write_text(text)
    with Server(source, ["twice"], **for_gpu) as server:
        told = server.build()
    assert not told["ok"]
    assert [(each["kind"], each["line"]) for each in told["problems"]] == [(kind, line)]
    assert str(source.parent) not in json.dumps(told)


@needs_gcc
@needs_nvcc
def test_gpu_planner_holds_the_entries_that_are_there_and_a_cubin_lies_behind_it(
    source: Path, for_gpu: dict[str, Any]
) -> None:
    with Server(source, ["twice", "thrice"], **for_gpu) as server:
        told = server.build()
        assert (told["ok"], told["entries"]) == (True, ["twice"])
        program, _ = server.delivered(told)
    planner, cubin = program[: told["executable_bytes"]], program[told["executable_bytes"] :]
    assert planner[:4] == cubin[:4] == b"\x7fELF"
    assert b"twice_kernel" in cubin
