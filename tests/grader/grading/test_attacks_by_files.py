"""What isn't a file, anywhere in a submission: every command names it and opens none of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import work
from tests.support.commandline import any_sandbox_will_do, call

SECRET = "the-solution-of-somebody-else"
REFERENCE = Path(__file__).resolve().parents[3] / "reference"


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Ends what waits for a FIFO, which would be without end."""
    with work.ending():
        yield


def plant(kind: str, path: Path, secret: Path) -> None:
    """Make `path` something else than a file."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
        (path / "__init__.py").write_text("raise SystemExit('imported')\n")
    elif kind == "socket":
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path is short
        try:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(path.name)
        finally:
            os.chdir(here)
    else:
        path.symlink_to(secret if kind == "link" else kind)


KINDS = ("fifo", "folder", "socket", "link", "/dev/zero", "/proc/self/environ")
SAID = {"fifo": "no regular file", "folder": "no regular file", "socket": "can't be read"}
COMMANDS = {
    "grade": ("grade", "{folder}", "--only", "silu/triton"),
    "check": ("check", "silu/triton", "--submission", "{folder}"),
    "plan": ("plan", "silu/triton", "--submission", "{folder}"),
    "bench": ("bench", "silu/triton", "--submission", "{folder}"),
    "batch": ("batch", "{parent}", "--out", "{out}", "--only", "silu/triton"),
}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """The folders that a command's words name."""
    found = {"parent": tmp_path / "class", "out": tmp_path / "results"}
    found["folder"] = found["parent"] / "ada"
    found["folder"].mkdir(parents=True)
    return found


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "solution.py"
    path.write_text(f"# {SECRET}\n" + (REFERENCE / "silu.py").read_text())
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_in_the_place_of_the_graded_file(command, kind, places, secret, capsys, monkeypatch):
    any_sandbox_will_do(monkeypatch)
    plant(kind, places["folder"] / "silu.py", secret)
    done = call(capsys, *(word.format(**places) for word in command))
    text = done.out + done.err
    assert done.code != 3, text
    assert "passed" not in text
    assert SECRET not in text + written(places["out"])
    if command[0] in ("check", "plan"):
        assert SAID.get(kind, "symbolic link") in " ".join(text.split())


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_beside_the_graded_file(command, places, secret, capsys, monkeypatch):
    """An honest file is graded as ever; nothing that lies beside it is opened, or imported."""
    any_sandbox_will_do(monkeypatch)
    folder = places["folder"]
    (folder / "silu.py").write_bytes((REFERENCE / "silu.py").read_bytes())
    for number, kind in enumerate(KINDS):
        for name in (f"triton{number}.py", f"data{number}.bin", f".hidden{number}"):
            plant(kind, folder / name, secret)
    plant("fifo", folder / "rmsnorm.py", secret)
    plant("fifo", folder / "silu.cu", secret)
    (folder / "all").symlink_to("/")
    done = call(capsys, *(word.format(**places) for word in command))
    text = done.out + done.err
    assert done.code != 3, text
    assert SECRET not in text + written(places["out"])
    if command[0] != "bench":  # which needs a GPU
        assert done.code == 0, text


def written(folder: Path) -> str:
    """All that lies below a folder of results, as text."""
    files = [each for each in folder.rglob("*") if each.is_file()] if folder.exists() else []
    return "".join(each.read_bytes().decode("latin-1") for each in files)
