"""`grader new`: a course's folder, and a small exercise in it that works.

The exercise squares each element. Its files are the ones that an instructor edits: spec, oracle,
solution, stub, wrong and honest submissions, and a section of the handout. Their texts lie in
starter/.
"""

from __future__ import annotations

import keyword
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from grader.mistakes import Mistake
from grader.spec import Course, Exercise, load
from grader.spec.course_file import FILE, in_order
from grader.spec.exercise import name_conflicts
from grader.staff import handout
from grader.staff.stubs import make_stub

_STARTER = Path(__file__).parent / "starter"
_SUFFIXES = {"triton": ".py", "cuda": ".cu"}


def course(folder: Path) -> list[Path]:
    """Begin a course in a new or an empty folder; returns the files written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Mistake(f"{folder}: expected a new or an empty folder; nothing was written")
    names = {FILE: "course.yaml.txt", "reference/oracles.py": "oracles.txt"}
    names |= {"handout.md": "handout.txt"}
    words = {"TITLE": _title(folder.resolve().name)}
    texts = {folder / path: _text(starter, words) for path, starter in names.items()}
    (folder / "exercises").mkdir(parents=True)
    return _written(texts)


def exercise(at: Course, name: str, languages: Sequence[str]) -> list[Path]:
    """Add a small exercise to a course; returns the files written.

    Raises Mistake where the name can't be one, or where a file of it is there already, and
    where the handout has no place for its points. Nothing is written then.
    """
    _check_name(name)
    words = {"EXERCISE": name, "TITLE": _title(name)}
    spec = _text("spec.txt", words)
    texts: dict[Path, str] = {}
    for each in languages:
        spec += "\n" * (not spec.endswith("variants:\n")) + _text(f"spec_{each}.txt", words)
        solution = at.reference / f"{name}{_SUFFIXES[each]}"
        texts[solution] = _text(f"solution_{each}.txt", words)
        texts[at.assignment / solution.name] = make_stub(texts[solution], str(solution))
        entries = f"{name}.yaml" if each == "triton" else f"{name}_{each}.yaml"
        texts[at.wrong / entries] = _text(f"wrong_{each}.txt", words)
        texts[at.honest / entries] = _text(f"honest_{each}.txt", words)
    _check_imports(name, at.oracles, texts)
    texts[at.specs / f"{name}.yaml"] = spec
    exercises = _with_new(at, name, spec)
    if there := [str(path) for path in texts if path.exists()]:
        raise Mistake(f"{', '.join(there)}: expected no such file yet; nothing was written")
    begun = _text("oracles.txt", {})
    texts[at.oracles] = _appended(at.oracles, _text("oracle.txt", words), f"def {name}(", begun)
    section = _text("section.txt", words).replace("FILES", _files(name, languages))
    before = _appended(at.handout, section, f"## {name}\n")
    texts[at.handout] = handout.render(before, exercises, at.handout.name)
    return _written(texts)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name == "oracles":
        raise Mistake(
            f"expected a Python name of lower-case letters, digits and _, got {name!r}; "
            "nothing was written"
        )


def _check_imports(name: str, oracles: Path, texts: Mapping[Path, str]) -> None:
    """Raises Mistake where the oracle or the entry would hide a module that its file imports."""
    sources = [text for path, text in texts.items() if path.suffix == ".py"]
    if oracles.is_file():
        sources.append(oracles.read_text(encoding="utf-8"))
    imported = re.compile(rf"^(import|from) ({name}\b|.* as {name}$)", re.MULTILINE)
    if any(imported.search(source) for source in sources):
        raise Mistake(
            f"expected another name: {name!r} is a module that an exercise's files import; "
            "nothing was written"
        )


def _with_new(at: Course, name: str, spec: str) -> dict[str, Exercise]:
    """The course's exercises and the new one. Raises Mistake where its name means another."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.yaml"
        path.write_text(spec, encoding="utf-8")
        there = at.exercises if any(at.specs.glob("*.yaml")) else {}
        known = dict(sorted({**there, name: load(path)}.items()))
    if conflicts := [text for _, text in name_conflicts(known)]:
        raise Mistake("\n".join(conflicts))
    return in_order(known, at.settings.order)


def _appended(path: Path, text: str, mark: str, begun: str = "") -> str:
    """The file, or `begun` without one, with a text at its end. Raises Mistake at a second mark."""
    before = path.read_text(encoding="utf-8") if path.exists() else begun
    if mark in before:
        raise Mistake(f"{path}: expected no {mark.strip()!r} yet; nothing was written")
    return before.rstrip("\n") + "\n" + text if before else text.lstrip("\n")


def _files(name: str, languages: Sequence[str]) -> str:
    signatures = {
        "triton": f"def {name}(x, out) -> None",
        "cuda": f"void {name}(const float* x, float* out, int n)",
    }
    return "\n".join(
        f"- `assignment/{name}{_SUFFIXES[each]}`: `{signatures[each]}`" for each in languages
    )


def _title(name: str) -> str:
    return name.replace("_", " ").replace("-", " ").capitalize()


def _text(starter: str, words: dict[str, str]) -> str:
    text = (_STARTER / starter).read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _written(texts: dict[Path, str]) -> list[Path]:
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return list(texts)
