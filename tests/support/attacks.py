"""The attacks: submissions that try to cheat or to do harm, each held by the layers it names.

They live in tests/submissions/attacks/NAME.py and NAME.cu, each a complete file of a submission.
The first line says what it does | the variant it is handed in for | the status it gets with every
layer on, without a GPU | the layers that must hold it, each with the status it must get where that
is the only layer:

    # It says what it does. | silu/triton | not_written | boundary=not_written

More than one file is a folder NAME, where the names of the others end in `.txt`, so that nothing
here ever imports or collects them. An attack knows what an insider could: the harness fills in its
line `KNOWN = {}`, in CUDA C++ its line `// KNOWN` (it becomes `#define KNOWN_PORT 1234` and so on),
with the places of the canaries (tests/support/canaries.py).

Host code plans and has no data. Many an attack is nothing but its honest kernel then: its status is
`passed`, and what it earns its kernel has computed.

Layers, and what it means that one alone holds an attack:

    plan        the rules on plans: PyTorch computed; of CUDA C++, the host did
    sandbox     at each level that works here every canary is whole and no secret is told
    boundary    with no sandbox it fails, or has gained nothing; another submission that is being
                graded is unharmed, and no process is left
    comparison  with no sandbox the values don't pass

and for CUDA C++

    policy      reading the source finds a violation; nothing runs
    emulator    with no sandbox a check of the object's symbols, or the watch over its loads and
                stores, stops it; the layers above but comparison are tested with neither of the two
    counters    with no sandbox the memory points aren't earned: what the counters show isn't what
                is asked, or can't be true

The clock has cheats of its own (side streams, superbatches, graph capture, pinned L2, adaptive
timers): clock_cheats.py. Archives (zip bombs, links, `..`) are those of test_archives.py, and
some of these attacks are a class's hand-ins in test_batch_attacks.py.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Literal

from grader.sandbox.confinement import Level
from grader.spec import Exercise, Variant, load_all
from grader.status import Status

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "submissions" / "attacks"
EXERCISES = load_all()
SANDBOXES = (Level.bubblewrap, Level.landlock)


# What only CUDA C++ goes through.
OF_CUDA = frozenset({"policy", "emulator", "counters"})


class AttackError(ValueError):
    """The first line of an attack is wrong: the message names file, place and what was expected."""


class Layer(str, Enum):
    """What holds an attack."""

    policy = "policy"
    plan = "plan"
    sandbox = "sandbox"
    boundary = "boundary"
    comparison = "comparison"
    emulator = "emulator"
    counters = "counters"


@dataclass(frozen=True)
class Attack:
    """One submission, and what must become of it."""

    name: str  # of its file or folder; those in CUDA C++ end in _cu
    what: str
    exercise: Exercise
    variant: Variant
    status: Status  # with every layer on
    layers: dict[Layer, Status | None]  # the status where it is the only one on; None: any
    source: str
    others: dict[str, str] = field(default_factory=dict)  # further files of the folder

    def write(self, folder: Path, known: dict) -> None:
        """Make `folder` the submission."""
        folder.mkdir()
        for name, text in {self.variant.file: self.source, **self.others}.items():
            filled = text.replace("KNOWN = {}", f"KNOWN = {known!r}", 1)
            filled = filled.replace("// KNOWN\n", _macros(known), 1)
            # Bytes as they are: some attacks live on their encoding.
            (folder / name).write_bytes(filled.encode("utf-8", "surrogateescape"))


# --- the files ------------------------------------------------------------------------------------


def load(language: Literal["triton", "cuda"] | None = None) -> list[Attack]:
    """Every attack of a language, or of both, by name. Raises AttackError."""
    files = [path for path in FOLDER.iterdir() if path.suffix in (".py", ".cu") or path.is_dir()]
    found = [read(path) for path in sorted(files, key=lambda path: (path.suffix, path.stem))]
    return [each for each in found if language in (None, each.variant.language)]


def read(path: Path) -> Attack:
    """One attack: a file, or a folder of several. Raises AttackError."""
    others: dict[str, str] = {}
    file = path
    if path.is_dir():
        [file] = path.glob("*.py")
        others = {each.name[:-4]: _text(each) for each in sorted(path.glob("*.txt"))}
    source = _text(file)
    place = f"{path.name}:1"
    fields = [part.strip() for part in source.partition("\n")[0].lstrip("#/").split(" | ")]
    if len(fields) != 4:
        expected = "expected what | exercise/variant | status | layers"
        raise AttackError(f"{place}: {expected}, got {len(fields)} fields")
    what, target, status, layers = fields
    exercise, _, variant = target.partition("/")
    if exercise not in EXERCISES or variant not in EXERCISES[exercise].variants:
        raise AttackError(f"{place}: expected an exercise and its variant, got {target}")
    found = EXERCISES[exercise].variants[variant]
    held_by = _layers(layers, place)
    foreign = {*held_by} & OF_CUDA if found.language == "triton" else set()
    if foreign:
        raise AttackError(f"{place}: a Triton file has no layer {', '.join(sorted(foreign))}")
    name = f"{path.stem}_cu" if file.suffix == ".cu" else path.stem
    wanted = _status(status, place)
    return Attack(name, what, EXERCISES[exercise], found, wanted, held_by, source, others)


def _macros(known: dict) -> str:
    values = {**known, "secret": f"{known['folder']}/secret.txt"}
    return "".join(f"#define KNOWN_{key.upper()} {json.dumps(values[key])}\n" for key in values)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _layers(text: str, place: str) -> dict[Layer, Status | None]:
    found: dict[Layer, Status | None] = {}
    for part in filter(None, text.split(", ")):
        match = re.fullmatch(r"(\w+)(?:=(\w+))?", part)
        if match is None or match[1] not in list(Layer) or Layer(match[1]) in found:
            names = ", ".join(Layer)
            raise AttackError(f"{place}: expected some of {names}, each once, got {part!r}")
        found[Layer(match[1])] = _status(match[2], place) if match[2] else None
    if not found:
        raise AttackError(f"{place}: expected a layer that holds it, found none")
    return found


def _status(text: str, place: str) -> Status:
    try:
        return Status(text)
    except ValueError:
        raise AttackError(f"{place}: expected a status, got {text!r}") from None


def columns() -> Sequence[tuple[str, Layer, Level | None]]:
    """Layers as they are tried, the sandbox at each of its levels: label, layer, level."""
    found: list[tuple[str, Layer, Level | None]] = []
    for layer in Layer:
        if layer is Layer.sandbox:
            found += [(level.value, layer, level) for level in SANDBOXES]
        else:
            found.append((layer.value, layer, None))
    return found


def alone(corpus: Sequence[Attack]) -> Sequence[tuple[Attack, str, Layer, Level | None]]:
    """Attacks with a layer that is to hold them alone: attack, label, layer, level.

    All that only reads a source; of the layers that run it one for each attack, in turn, since
    every one of them takes a sandbox of its own: `make attacks` tries them all.
    """
    found = []
    for attack in corpus:
        own = [each for each in columns() if each[1] in attack.layers]
        found += [(attack, *each) for each in own if each[1] is Layer.policy]
        running = [each for each in own if each[1] is not Layer.policy]
        if running:
            turn = zlib.crc32(attack.name.encode()) % len(running)
            found.append((attack, *running[turn]))
    return found
