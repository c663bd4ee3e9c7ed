"""The contracts about imports bite: each is broken in a copy of the grader, and seen to be.

And what counts circles finds one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import house

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
LINT = Path(sys.executable).with_name("lint-imports")
pytestmark = pytest.mark.skipif(not LINT.exists(), reason="import-linter is not installed")


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return settings["tool"]["importlinter"]["contracts"]


def linted(folder: Path) -> dict[str, bool]:
    """Whether each contract is kept in a copy of the project."""
    done = subprocess.run(
        [LINT, "--no-cache"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    lines = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
    said = {words[0]: words[1] for words in lines if words[-1] in ("KEPT", "BROKEN")}
    assert said, done.stdout + done.stderr
    return {name: word == "KEPT" for name, word in said.items()}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "*.cpp", "*.h", "*.yaml")
    shutil.copytree(ROOT / "grader", tmp_path / "grader", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def file_of(folder: Path, module: str) -> Path:
    """Of a module, or of a package its `__init__`."""
    path = folder.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def broken_by(contract: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Modules, and what each would import against the contract."""
    if contract["type"] == "layers":
        [container] = contract["containers"]
        layers = [[each.strip() for each in row.split("|")] for row in contract["layers"]]
        yield f"{container}.{layers[-1][-1]}", f"{container}.{layers[0][0]}"
    else:
        for source in contract["source_modules"]:
            package = source.removesuffix(".**")
            yield package, contract["forbidden_modules"][0]


def break_it(folder: Path, module: str, imported: str) -> None:
    path = file_of(folder, module)
    if path.name == "__init__.py" and module.count(".") == 1 and module != imported:
        # A wildcard is about what lies in a package, not about the package's own file.
        path = next(each for each in sorted(path.parent.glob("*.py")) if each.name[0] != "_")
    package, _, name = imported.rpartition(".")
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\nfrom {package} import {name} as _against_the_contract\n")


def test_every_contract_holds_and_is_seen_where_it_is_broken(copy: Path) -> None:
    assert all(linted(copy).values())
    for contract in contracts():
        for module, imported in broken_by(contract):
            break_it(copy, module, imported)
    kept = linted(copy)
    assert kept.keys() == {contract["name"] for contract in contracts()}
    assert not [name for name, is_kept in kept.items() if is_kept]


@pytest.mark.parametrize("name", ["nvml", "machine"])
def test_the_untrusted_side_imports_nothing_of_the_gpu_s_package(copy: Path, name: str) -> None:
    break_it(copy, "grader.worker.protocol", f"grader.gpu.{name}")
    assert not linted(copy)["Layers of packages"]


def test_a_module_without_a_place_is_seen(copy: Path) -> None:
    (copy / "grader" / "new.py").write_text("")
    (copy / "grader" / "spec" / "new.py").write_text("")
    kept = linted(copy)
    assert not kept["Layers of packages"] and not kept["Inside spec"]


def test_a_circle_is_found() -> None:
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}
    assert [sorted(each) for each in house.circles(arrows)] == [["b", "c"]]


def test_the_house_has_no_circle_and_few_rooms(capsys: pytest.CaptureFixture[str]) -> None:
    assert house.main() == 0, capsys.readouterr().out
