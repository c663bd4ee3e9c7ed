"""Reads the attacks: submissions that try to cheat or to do harm, and the layers that stop each.

They are in tests/submissions/attacks. Most are one trick in an otherwise common file: bases/ has
those files, with slots such as `# <imports>`, and THEME.yaml has for each attack the text of the
slots:

    base: attempt.py          # what many of the attacks share, each may say otherwise
    variant: silu/triton      # the variant it is handed in for
    status: passed            # with every layer on, without a GPU
    layers: sandbox=passed    # those that must hold it
    attacks:

    - name: connects_by_tcp
      tries: It connects to a server on this machine.
      fill:
        imports: import socket
        attempt: |
          socket.create_connection(("127.0.0.1", KNOWN["port"]), timeout=1)

A slot that isn't filled goes, with the blank lines behind it. `edits` change the base in other
places, each an `old` that occurs once and a `new`, as for submissions that are wrong
(grader/staff/calibration/corpus.py). `python benchmarks/attacks.py --show NAME` prints the file
that comes of it.

An attack with a whole file of its own is NAME.py or NAME.cu. Its first line has the same fields:

    # It says what it tries. | silu/triton | not_written | boundary=not_written

An attack with several files is a folder NAME. The names of its other files end in `.txt`, so that
nothing imports or collects them.

`layers` gives each layer the status that the attack must get under that layer alone; without a
status, any status that earns nothing is right. The names of attacks in CUDA C++ end in `_cu`. An
attack knows as much as an insider: the harness replaces its line `KNOWN = {}` by the places of the
canaries (tests/support/canaries.py), and in CUDA C++ its line `// KNOWN` by `#define KNOWN_PORT
1234` and so on.

Host code plans and has no data. So many attacks come to nothing but an honest kernel: the status is
`passed`, and the points are for what the kernel computed.

An attack passes the test of one layer alone if:

    plan        the rules on plans refuse it: PyTorch computed, or in CUDA C++ the host did
    sandbox     at each level that works here, every canary is intact and no secret leaks
    boundary    without a sandbox it fails or gains nothing; another submission that is being
                graded is unharmed, and no process is left
    comparison  without a sandbox, its values don't pass

and for CUDA C++:

    policy      reading the source finds a violation, and nothing runs
    emulator    without a sandbox, the check of the object's symbols or the observer of its loads
                and stores stops it; both are off in the tests of the layers above but comparison
    counters    without a sandbox, it earns no memory points: the counters miss the bounds or are
                impossible

The clock has cheats of its own (side streams, superbatches, graph capture, pinned L2, adaptive
timers): clock_cheats.py. Archives (zip bombs, links, `..`) are those of test_archives.py, and
some of these attacks are a class's hand-ins in tests/grader/batch/test_attacks.py.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pydantic
import yaml

from grader.mistakes import Mistake
from grader.sandbox.confinement import Level
from grader.spec import Exercise, Variant, load_all
from grader.spec.exercise import HOME
from grader.staff.calibration import corpus
from grader.status import Status

ROOT = Path(__file__).resolve().parents[2]
FOLDER = HOME / "tests" / "submissions" / "attacks"
BASES = FOLDER / "bases"
SLOT = re.compile(r"^ *(?:#|//) <\w+>\n\n*", re.MULTILINE)
EXERCISES = load_all()
SANDBOXES = (Level.bubblewrap, Level.landlock)


# What only CUDA C++ goes through.
OF_CUDA = frozenset({"policy", "emulator", "counters"})


class AttackError(ValueError):
    """An attack is described wrongly; the message names file, place and what was expected."""


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
    tries: str  # in one sentence
    exercise: Exercise
    variant: Variant
    status: Status  # with every layer on
    layers: dict[Layer, Status | None]  # the status where it is the only one on; None: any
    source: str
    others: dict[str, str] = field(default_factory=dict)  # further files of the folder

    def write(self, folder: Path, known: Mapping[str, Any]) -> None:
        """Make `folder` the submission."""
        folder.mkdir()
        for name, text in {self.variant.file: self.source, **self.others}.items():
            filled = text.replace("KNOWN = {}", f"KNOWN = {known!r}", 1)
            filled = filled.replace("// KNOWN\n", _macros(known), 1)
            # Bytes as they are: some attacks live on their encoding.
            (folder / name).write_bytes(filled.encode("utf-8", "surrogateescape"))


# --- the files ------------------------------------------------------------------------------------


class _Entry(pydantic.BaseModel):
    """An attack in a theme's YAML, with what it shares with the others there."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    name: corpus.Name
    tries: str
    base: str
    variant: str
    status: str
    layers: str
    fill: dict[str, str] = {}
    edits: tuple[corpus.Edit, ...] = ()

    def text(self, place: str) -> str:
        """The file that it stands for. Raises AttackError."""
        path = BASES / self.base
        if not path.is_file():
            raise AttackError(f"{place}: expected one of {BASES.name}/, got {self.base}")
        comment = "//" if path.suffix == ".cu" else "#"
        text = _text(path)
        slots = (corpus.Edit(old=f"{comment} <{slot}>", new=new) for slot, new in self.fill.items())
        try:
            for edit in (*self.edits, *slots):
                text = corpus.applied(edit, text, place)
        except Mistake as error:
            raise AttackError(str(error)) from None
        first = " | ".join((self.tries, self.variant, self.status, self.layers))
        return f"{comment} {first}\n{SLOT.sub('', text)}"


def load(language: Literal["triton", "cuda"] | None = None) -> list[Attack]:
    """Every attack of a language, or of both, by language and name. Raises AttackError."""
    paths = [path for path in FOLDER.iterdir() if path != BASES]
    attacks = [attack for path in paths for attack in read(path)]
    for name, count in Counter(attack.name for attack in attacks).items():
        if count > 1:
            raise AttackError(f"expected one attack named {name}, got {count}")
    attacks.sort(key=lambda attack: (attack.variant.language, attack.name))
    return [each for each in attacks if language in (None, each.variant.language)]


def read(path: Path) -> list[Attack]:
    """The attack of a file or of a folder of several, or those of a YAML. Raises AttackError."""
    if path.suffix == ".yaml":
        return _read_theme(path)
    others: dict[str, str] = {}
    file = path
    if path.is_dir():
        [file] = path.glob("*.py")
        others = {each.name[:-4]: _text(each) for each in sorted(path.glob("*.txt"))}
    return [replace(_attack(path.stem, _text(file), f"{path.name}:1"), others=others)]


def _read_theme(path: Path) -> list[Attack]:
    document = yaml.safe_load(_text(path))
    shared = {key: value for key, value in document.items() if key != "attacks"}
    attacks = []
    for number, given in enumerate(document["attacks"], start=1):
        place = f"{path.name}: {given.get('name', f'attack {number}')}"
        try:
            entry = _Entry.model_validate({**shared, **given})
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise AttackError(f"{place}: {key}: {first['msg']}") from None
        attacks.append(_attack(entry.name, entry.text(place), place))
    return attacks


def _attack(stem: str, source: str, place: str) -> Attack:
    """The attack that a file's text is, by its first line."""
    fields = [part.strip() for part in source.partition("\n")[0].lstrip("#/").split(" | ")]
    if len(fields) != 4:
        expected = "expected what it tries | exercise/variant | status | layers"
        raise AttackError(f"{place}: {expected}, got {len(fields)} fields")
    tries, target, status, layers = fields
    exercise_name, _, variant_name = target.partition("/")
    if exercise_name not in EXERCISES or variant_name not in EXERCISES[exercise_name].variants:
        raise AttackError(f"{place}: expected an exercise and its variant, got {target}")
    exercise = EXERCISES[exercise_name]
    variant = exercise.variants[variant_name]
    held_by = _layers(layers, place)
    foreign = {*held_by} & OF_CUDA if variant.language == "triton" else set()
    if foreign:
        raise AttackError(f"{place}: a Triton file has no layer {', '.join(sorted(foreign))}")
    name = f"{stem}_cu" if variant.language == "cuda" else stem
    return Attack(name, tries, exercise, variant, _status(status, place), held_by, source)


def _macros(known: Mapping[str, Any]) -> str:
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


def alone(attacks: Sequence[Attack]) -> Sequence[tuple[Attack, str, Layer, Level | None]]:
    """Attacks with a layer that must stop them alone: attack, label, layer, level.

    Layers that only read the source are all included. Of the layers that run it there is one for
    each attack, in turn, since each run takes a sandbox of its own. `make attacks` tries them all.
    """
    tried = []
    for attack in attacks:
        own = [each for each in columns() if each[1] in attack.layers]
        tried += [(attack, *each) for each in own if each[1] is Layer.policy]
        running = [each for each in own if each[1] is not Layer.policy]
        if running:
            turn = zlib.crc32(attack.name.encode()) % len(running)
            tried.append((attack, *running[turn]))
    return tried
