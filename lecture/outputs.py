"""What programs of the handout print: runs the block above each place, and fills the place.

    python -m lecture.outputs --here                    those that need no GPU, into handout.md
    python -m lecture.outputs --gpu --save FILE.json    those that need one, into a file of its own
    python -m lecture.outputs --stored FILE.json        what such files hold, into handout.md

A place follows a block of Python or of commands, and is all that has to be written by hand:

    <!-- shown: NAME, on a GPU -->
    <!-- /shown -->

`here` in the place of `on a GPU` is for what needs none. `, from TEXT` begins at the first line
with that text, and `, first 20 lines` leaves the rest out. Warnings of Python, and lines that torch
logs, are left out, too.
Python is run as `try_it.py` in an empty folder, commands beside the students' files and the
`try_it.py` of the last Python above them. The grader's commands that want a student's solution get
ours. Below the output stand the device, the versions and the date.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HANDOUT = ROOT / "handout.md"
SECONDS = 400
WIDTH = "100"
_BLOCK = r"^```(python|sh)\n(?P<text>.*?)^```$"
_PLACE = (
    r"^<!-- shown: (?P<name>[\w-]+), (?P<where>here|on a GPU)"
    r"(?:, from (?P<from>[^,\n]+))?(?:, first (?P<first>\d+) lines)? -->\n"
    r"(?P<body>.*?)^<!-- /shown -->$"
)
_PARTS = re.compile(rf"(?P<block>{_BLOCK})|(?P<place>{_PLACE})", re.DOTALL | re.MULTILINE)
_OURS = re.compile(r"^grader (bench|check|inspect) (?!gelu)(?!.*--submission)", re.MULTILINE)
_WARNING = re.compile(r"^\S+\.py:\d+: \w*Warning: .*\n(?:  .*\n)?", re.MULTILINE)
_LOGGED = re.compile(r"^[VIWE][0-9]{4} [0-9:.]+ [0-9]+ \S+\.py:[0-9]+\] .*\n", re.MULTILINE)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Place:
    """A place of the handout, with the block whose output belongs there."""

    name: str
    on_gpu: bool
    kind: str  # "python" or "sh"
    block: str
    script: str  # the last block of Python, for commands that run try_it.py


@dataclass(frozen=True)
class Output:
    """What a block printed, and on what: `made` is the line below it."""

    text: str
    made: str
    status: int = 0


def places(handout: str) -> Iterator[Place]:
    """The places in the handout's order. Raises ValueError for one without a block above it."""
    kind = block = script = ""
    for part in _PARTS.finditer(handout):
        if part["block"]:
            kind, block = part[2], part["text"]
            script = block if kind == "python" else script
        elif not block:
            raise ValueError(f"no block stands above the place {part['name']!r}")
        else:
            yield Place(part["name"], part["where"] == "on a GPU", kind, block, script)


def filled(handout: str, outputs: Mapping[str, Output]) -> str:
    """The handout with the outputs in their places; a place without one keeps what it has."""

    def part(match: re.Match[str]) -> str:
        if match["block"] or match["name"] not in outputs:
            return match[0]
        output = outputs[match["name"]]
        lines = _LOGGED.sub("", _WARNING.sub("", output.text)).rstrip().splitlines()
        start = next((n for n, line in enumerate(lines) if (match["from"] or "") in line), 0)
        lines = lines[start:]
        if match["first"] and len(lines) > (first := int(match["first"])):
            lines = [*lines[:first], "…"]
        opening = match["place"].partition("\n")[0]
        text = "\n".join(lines)
        return f"{opening}\n\n```text shown\n{text}\n```\n\n*{output.made}*\n\n<!-- /shown -->"

    return _PARTS.sub(part, handout)


def run(place: Place, made: str) -> Output:
    """Run a place's block, and take what it prints, errors included."""
    with tempfile.TemporaryDirectory(prefix="warpgrade-") as name:
        folder = Path(name)
        if place.script:
            (folder / "try_it.py").write_text(place.script, encoding="utf-8")
        command = [sys.executable, "try_it.py"]
        if place.kind == "sh":
            for each in ("assignment", "reference"):
                shutil.copytree(ROOT / each, folder / each)
            command = ["bash", "-c", with_solutions(place.block)]
        try:
            ended = subprocess.run(
                command,
                cwd=folder,
                env=_environment(folder),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Output(f"not through after {SECONDS} s", made, 124)
    text = _ANSI.sub("", ended.stdout).replace(f"{name}/", "").replace(f"{ROOT}/", "")
    return Output("\n".join(map(str.rstrip, text.splitlines())), made, ended.returncode)


def with_solutions(commands: str) -> str:
    """Commands of the grader over our solutions, but for the worked example and named folders."""
    return _OURS.sub(r"grader \1 --submission reference ", commands)


def _environment(folder: Path) -> dict[str, str]:
    """This process's, in which `grader` and `python` are those of this interpreter."""
    programs = folder / ".bin"
    programs.mkdir()
    path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
    lines = {"grader": f'exec "{sys.executable}" -m grader "$@"\n'}
    if shutil.which("python", path=path) is None:
        lines["python"] = f'exec "{sys.executable}" "$@"\n'
    for program, line in lines.items():
        (programs / program).write_text(f"#!/bin/sh\n{line}", encoding="utf-8")
        (programs / program).chmod(0o755)
    modules = os.pathsep.join(map(str, (ROOT, ROOT / "assignment")))
    return {**os.environ, "PATH": path, "PYTHONPATH": modules, "COLUMNS": WIDTH}


def made_on(on_gpu: bool) -> str:
    """The line below an output."""
    # By nvidia-smi: a context of this process on the GPU would be in the way of what is timed.
    asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    ran = subprocess.run(asked, capture_output=True, text=True, check=True) if on_gpu else None
    device = f"Printed on {ran.stdout.splitlines()[0]}" if ran else "Printed without a GPU"
    packages = ", ".join(
        f"{name} {version(name).partition('+')[0]}" for name in ("torch", "triton")
    )
    return f"{device}, {packages}, {datetime.date.today()}."


def main(words: Sequence[str] | None = None) -> int:
    """Run what is asked for; the exit status is 1 where a program failed."""
    parser = argparse.ArgumentParser(
        prog="python -m lecture.outputs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--here", action="store_true", help="run what needs no GPU")
    parser.add_argument("--gpu", action="store_true", help="run what needs a GPU")
    parser.add_argument("--only", action="append", metavar="NAME", help="may be repeated")
    parser.add_argument("--without", action="append", metavar="NAME", default=[])
    parser.add_argument("--stored", nargs="+", type=Path, default=[], metavar="FILE.json")
    parser.add_argument("--save", type=Path, metavar="FILE.json")
    parser.add_argument("--handout", type=Path, default=HANDOUT)
    given = parser.parse_args(words)
    handout = given.handout.read_text(encoding="utf-8")
    outputs: dict[str, Output] = {}
    for file in given.stored:
        stored = json.loads(file.read_text(encoding="utf-8"))
        outputs |= {name: Output(**each) for name, each in stored.items()}
    for place in places(handout):
        asked = place.name not in given.without and place.name in (given.only or [place.name])
        if asked and (given.gpu if place.on_gpu else given.here):
            outputs[place.name] = run(place, made_on(place.on_gpu))
            print(f"{place.name}: status {outputs[place.name].status}", flush=True)
            if given.save:
                text = json.dumps({name: asdict(each) for name, each in outputs.items()}, indent=1)
                given.save.write_text(text + "\n", encoding="utf-8")
    if not given.save:
        given.handout.write_text(filled(handout, outputs), encoding="utf-8")
    return int(any(each.status for each in outputs.values()))


if __name__ == "__main__":
    sys.exit(main())
