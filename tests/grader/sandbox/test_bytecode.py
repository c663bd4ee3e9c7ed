"""Byte code comes from a cache of ours where an installation has none, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from grader.cli import doctor
from grader.sandbox import Sandbox, allowed_paths, bytecode, preloader

ROOT = Path(__file__).resolve().parents[3]
KEEP = """
import sys
sys.path[:0] = [{packages!r}, {root!r}]
from grader.sandbox import bytecode
bytecode._fill = lambda folder: print("fills", folder)
bytecode.keep()
print(sys.pycache_prefix)
import torch
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """An installation of what is called torch here."""
    folder = tmp_path / "packages"
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("x = 1\n")
    return folder


def importing_torch(packages: Path, **environment: str) -> list[str]:
    """What a process says that keeps byte code and imports torch."""
    code = KEEP.format(packages=str(packages), root=str(ROOT))
    cache = {"XDG_CACHE_HOME": str(packages.parent / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=packages,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **cache, **environment},
    )
    return done.stdout.splitlines()


def compiled(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*.pyc") if each.parent.name == "torch"]


def beside(packages: Path) -> list[Path]:
    return list((packages / "torch").rglob("*.pyc"))


def link_what_is_installed(cache: Path) -> None:
    """Link byte code that the installation has: to compile torch takes half a minute."""
    for kind in ("stdlib", "purelib"):
        folder = Path(sysconfig.get_path(kind))
        for kept in folder.rglob("__pycache__/*.pyc"):
            if kept.relative_to(folder).parts[0] != "site-packages":  # which are in purelib
                link = Path(f"{cache}{kept.parent.parent}") / kept.name
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(kept)


def test_where_python_may_not_keep_it_a_cache_does(packages: Path) -> None:
    cache = packages.parent / "cache" / "warpgrade-bytecode"
    for _ in range(2):
        said = importing_torch(packages, PYTHONDONTWRITEBYTECODE="1")
        assert said == [f"fills {cache}", str(cache)]
        assert len(compiled(cache)) == 1 and not beside(packages)
    (cache / bytecode._COMPLETE).touch()  # as who fills it does at the end
    assert importing_torch(packages, PYTHONDONTWRITEBYTECODE="1") == [str(cache)]


def test_where_python_keeps_it_nothing_changes(packages: Path) -> None:
    assert importing_torch(packages) == ["None"] and len(beside(packages)) == 1
    assert importing_torch(packages, PYTHONDONTWRITEBYTECODE="1") == ["None"]  # as it is kept now
    assert not (packages.parent / "cache" / "warpgrade-bytecode").exists()


def test_who_has_chosen_another_cache_keeps_it(packages: Path) -> None:
    own = str(packages.parent / "own")
    chosen = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": own}
    assert importing_torch(packages, **chosen) == [own]


def test_what_sandboxes_import_is_put_there_and_found_by_them(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    link_what_is_installed(tmp_path)
    bytecode._fill(tmp_path)
    deadline = time.monotonic() + 120
    while not (tmp_path / bytecode._COMPLETE).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    [fork_server] = tmp_path.rglob("fork_server.*.pyc")
    shown = allowed_paths.readable("cpu")
    assert any(fork_server.is_relative_to(each) for each in shown)
    written = fork_server.stat().st_mtime_ns
    monkeypatch.setattr(preloader, "_requests", None)  # another test's uses another cache
    with Sandbox("cpu", kind="plans") as sandbox:
        sandbox.start()
        line = Path(f"/proc/{sandbox._server._process.pid}/cmdline").read_bytes().decode()
    assert f"pycache_prefix={tmp_path}" in line
    assert fork_server.stat().st_mtime_ns == written  # which they only read


def test_the_doctor_tells_how_much_that_is(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "byte code" not in doctor.probe_cache().detail
    bytecode.folder().mkdir()
    (bytecode.folder() / "some.pyc").write_bytes(bytes(3_000_000))
    assert f"3 MB of byte code in {bytecode.folder()}" in doctor.probe_cache().detail


def test_of_the_grader_sandboxes_see_none(tmp_path: Path, monkeypatch) -> None:
    """Byte code of the solutions says as much as their source."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    for device in ("cpu", "emulator", "cuda"):
        hidden = bytecode.of(
            [ROOT / "grader" / "cases" / "oracle.py", ROOT / "reference" / "silu.py"]
        )
        for path in hidden:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        shown = allowed_paths.readable(device)
        assert not [p for p in hidden for s in shown if p.is_relative_to(s.resolve())]
