"""Every attack is held by each layer it names, alone; with all of them on none gains a point."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from grader.evidence import Evidence, PartEvidence, VariantEvidence
from grader.grading.check import check_part
from grader.grading.session import Options, Session
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.scoring import score
from grader.spec.exercise import HOME
from grader.spec.task import Task
from grader.status import Status
from tests.support import attacking, attacks
from tests.support.attacks import EXERCISES, Attack, AttackError, Layer
from tests.support.canaries import Machine
from tests.support.sampling import sampled_by

CORPUS = attacks.load("triton")


def alone(corpus: Sequence[Attack]) -> list[Any]:
    """Parameters of a test: each layer that an attack is tried under alone."""
    tried = attacks.alone(corpus)
    return [pytest.param(a, *of, id=f"{a.name}-{label}") for a, label, *of in tried]


ALONE = alone(CORPUS)


def by_layer(values: Sequence[Any]) -> tuple[str, str]:
    """The layer that is tried alone, with its level: of each the suite takes a sample."""
    _, layer, level = values
    return layer.value, level.value if level else ""


def sample(corpus: Iterable[Attack]) -> list[Any]:
    """A fifth of the attacks, of each status and set of layers. `make attacks` tries all."""

    def group_of(values: Sequence[Any]) -> tuple[str, ...]:
        [attack] = values
        return attack.status.value, *sorted(layer.value for layer in attack.layers)

    return sampled_by((pytest.param(each, id=each.name) for each in corpus), group_of, one_in=5)


HARMFUL = [
    each for each in CORPUS if Layer.sandbox in each.layers and Layer.boundary not in each.layers
]
HONEST_KERNELS = [each for each in CORPUS if each.status is Status.passed]
STYLES = sorted((HOME / "tests" / "submissions" / "honest" / "styles").glob("*.py"))


def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The machine is after all attacks as it was before the first."""
    tmp_path_factory.getbasetemp()  # made now, so that it lies outside what must be empty
    with Machine() as here:
        yield
        attacking.end_neighbours()
    assert here.differences == []


@pytest.fixture(scope="module", autouse=True)
def machine(tmp_path_factory: pytest.TempPathFactory, shared_sandbox: Sandbox) -> Iterator[None]:
    """As `unchanged`, the shared sandbox included."""
    yield from unchanged(tmp_path_factory)


def held(result: attacking.Result) -> Status:
    """The status of an attack that was held; one that can't be tried here is skipped."""
    if result.skipped:
        pytest.skip(result.skipped)
    assert result.troubles == ()
    assert result.status is not None
    return result.status


# --- the corpus -----------------------------------------------------------------------------------


def test_there_are_enough_attacks_and_every_layer_holds_some():
    assert len(CORPUS) >= 60
    for layer in {*Layer} - attacks.OF_CUDA:
        assert sum(layer in attack.layers for attack in CORPUS) >= 10, layer


def test_every_layer_is_tried_alone_on_many_attacks():
    tried = [layer for _, _, layer, _ in attacks.alone(CORPUS)]
    levels = [level for _, _, layer, level in attacks.alone(CORPUS) if layer is Layer.sandbox]
    assert all(tried.count(layer) >= 5 for layer in {*Layer} - attacks.OF_CUDA)
    assert all(levels.count(level) >= 5 for level in attacks.SANDBOXES)


@pytest.mark.parametrize("attack", attacks.load(), ids=lambda attack: attack.name)
def test_an_attack_is_told_in_one_sentence_and_named_after_it(attack: Attack):
    assert attack.tries.endswith(".")
    assert attack.name.isidentifier()
    assert attack.name == attack.name.lower()


@pytest.mark.parametrize("attack", CORPUS, ids=lambda attack: attack.name)
def test_the_status_with_every_layer_on_is_that_of_a_layer_that_holds_it(attack: Attack):
    """The rules on plans come before all that runs."""
    stated = {status for layer, status in attack.layers.items() if status is not None}
    if Layer.plan in attack.layers:
        stated = {Status.policy_violation}
    assert attack.status in stated or not stated


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# It cheats. | silu/triton | passed", "got 3 fields"),
        (
            "# It cheats. | silly/triton | passed | plan",
            "an exercise and its variant, got silly",
        ),
        (
            "# It cheats. | silu/cuda_v1 | passed | plan",
            "an exercise and its variant, got silu/cuda_v1",
        ),
        ("# It cheats. | silu/triton | pased | plan", "a status, got 'pased'"),
        ("# It cheats. | silu/triton | passed | obsrver", "some of policy, .* got 'obsrver'"),
        ("# It cheats. | silu/triton | passed | plan, plan", "each once, got 'plan'"),
        ("# It cheats. | silu/triton | passed | boundary=no", "a status, got 'no'"),
        ("# It cheats. | silu/triton | passed | policy", "a Triton file has no layer policy"),
        ("# It cheats. | silu/triton | passed | ", "a layer that holds it, found none"),
    ],
)
def test_a_mistake_in_a_first_line_is_named(tmp_path: Path, line: str, expected: str):
    path = tmp_path / "some.py"
    path.write_text(f"{line}\ndef silu(x, out): ...\n")
    with pytest.raises(AttackError, match=rf"some\.py:1: expected .*{expected}|{expected}"):
        attacks.read(path)


THEME = """
base: attempt.py
variant: silu/triton
status: passed
layers: sandbox=passed
attacks:
- name: knocks
  tries: It knocks.
"""
KNOCKS = "  fill: {attempt: knock()}\n"


def test_an_attack_of_a_theme_is_its_base_with_the_slots_filled(tmp_path: Path):
    theme = tmp_path / "some.yaml"
    theme.write_text(THEME + KNOCKS)
    [attack] = attacks.read(theme)
    lines = attack.source.splitlines()
    assert lines[0] == "# It knocks. | silu/triton | passed | sandbox=passed"
    assert lines[1] == "import triton"  # the slot for imports is gone, and the blank line behind it
    assert "    knock()" in lines
    assert not any(attacks.SLOT.match(line + "\n") for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (THEME.replace("attempt.py", "attemt.py") + KNOCKS, "one of bases/, got attemt.py"),
        (THEME.replace("silu/triton", "silly/triton") + KNOCKS, "its variant, got silly"),
        (THEME.replace("layers: sandbox=passed\n", "") + KNOCKS, "layers: Field required"),
        (THEME + "  fills: {attempt: knock()}\n", "fills: Extra inputs"),
        (THEME + "  fill: {atempt: knock()}\n", "'# <atempt>' once .* got 0"),
        (THEME + "  edits: [{old: tl.load, new: x}, {old: tl.load, new: y}]\n", "got 0"),
    ],
)
def test_a_mistake_in_a_theme_is_named(tmp_path: Path, text: str, expected: str):
    theme = tmp_path / "some.yaml"
    theme.write_text(text)
    with pytest.raises(AttackError, match=rf"some\.yaml: knocks: .*{expected}"):
        attacks.read(theme)


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
    """Host code has no data by plan: some attacks are nothing but an honest kernel there."""
    status = held(attacking.run_all(attack))
    assert earned(attack, status) == 0 or attack in HONEST_KERNELS


@pytest.mark.parametrize("attack", sample(HONEST_KERNELS))
def test_what_an_attack_earns_its_kernels_have_computed(attack: Attack):
    """With kernels that store nothing nothing is left of it."""
    source, count = re.subn(r"(?m)^( +)tl\.store\(.*\)$", r"\1pass", attack.source)
    assert count
    assert attacking.run_all(replace(attack, source=source, status=Status.not_written)).held


def earned(attack: Attack, status: Status) -> Fraction:
    """Points of a variant whose every part has this status."""
    keys = [(d, s) for d in attack.variant.dtypes for s in attack.variant.size_classes]
    parts = tuple(PartEvidence(*key, status) for key in keys)
    variant = VariantEvidence(
        attack.exercise.name, attack.variant.name, attack.variant.file, parts=parts
    )
    graded = score.score(Evidence("x", attacking.SEED, (variant,)), EXERCISES)
    return Fraction(graded.score)


def test_an_honest_submission_would_have_earned_points():
    honest = replace(CORPUS[0], exercise=EXERCISES["silu"])
    assert earned(honest, Status.passed) > 0


# --- honest controls ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.stem)
def test_an_honest_style_passes_with_every_layer_on(
    path: Path, tmp_path: Path, shared_sandbox: Sandbox
):
    exercise = EXERCISES[path.stem.split("_")[0]]
    (tmp_path / f"{exercise.name}.py").write_bytes(path.read_bytes())
    with Session(
        tmp_path,
        EXERCISES,
        Options(seed=attacking.SEED, device="cpu", effort=attacking.BRIEF),
        sandbox=shared_sandbox,
    ) as session:
        part = check_part(session, Task(exercise, exercise.variants["triton"]), "float16", "ragged")
    assert part.status is Status.passed, part


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize(("attack", "layer", "level"), ALONE)
def test_on_a_gpu_a_layer_alone_holds_an_attack(attack: Attack, layer: Layer, level: Level | None):
    held(attacking.run(attack, layer, level, "cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("attack", CORPUS, ids=lambda attack: attack.name)
def test_on_a_gpu_no_attack_gains_a_point_with_every_layer_on(attack: Attack):
    held(attacking.run_all(attack, "cuda"))
