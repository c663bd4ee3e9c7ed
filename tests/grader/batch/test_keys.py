"""A result's key changes with everything that evidence follows from, and with nothing else."""

from __future__ import annotations

import types
import typing
from dataclasses import replace

import pytest

from grader.batch.store.keys import (
    NO_FILE,
    USES,
    Conditions,
    Keys,
    Use,
    measured_part,
    oracle_source,
)
from grader.cases import oracle
from grader.grading.search import Effort
from grader.spec import Exercise, load_all
from grader.spec.values import Block
from tests.support.small_exercise import write_spec

SPEC = """\
title: SiLU
summary: of a vector
arguments:
  - {name: x, shape: [n], dtype: $dtype}
  - {name: out, shape: [n], dtype: $dtype, role: output}
  - {name: eps, scalar: float, values: [1.0, 2.0]}
sizes: {ragged: {n: [1, 20]}, aligned: {n: {multiple_of: 4, up_to: 8}}}
data: [normal]
tolerance: {magnitude: expected, factor: 2}
limits: {seconds: 10}
variants:
  triton:
    file: silu.py
    entry: silu
    dtypes: [float32]
    points: {ragged: 3, performance: 2, memory: 1}
    performance:
      case: {n: 33554432, dtype: float32}
      bytes: 2 * n * itemsize
      device: NVIDIA H100
      thresholds:
        - {speed_vs: copy, at_least: 0.9, points: 2}
        - {speed_vs: copy, at_least: 0.5, points: 1}
    memory:
      case: {n: 64, dtype: float32}
      useful_bytes_per_sector: {load: {at_least: 30}}
      scratch_bytes: {at_most: 0}
  cuda: {file: silu.cu, entry: silu, dtypes: [float32], points: {ragged: 1}}
  twin: {file: silu.cu, entry: twin, dtypes: [float32], points: {aligned: 1}}
"""
HERE = Conditions(7, "cpu")


@pytest.fixture(scope="module")
def exercises(tmp_path_factory) -> dict[str, Exercise]:
    """The spec above, alone."""
    return write_spec(tmp_path_factory.mktemp("specs"), SPEC)


@pytest.fixture
def keys_with(tmp_path):
    """The keys of the spec's three variants after a change of its text."""

    def keys(old: str = "", new: str = "") -> dict[str, str]:
        assert old in SPEC
        return keys_of(write_spec(tmp_path, SPEC.replace(old, new, 1) if old else SPEC))

    return keys


def keys_of(exercises, conditions: Conditions = HERE, file: str = "f" * 64, **lifted):
    keys = Keys(exercises, conditions)
    return {name: keys.of("silu", name, file, **lifted) for name in exercises["silu"].variants}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("title: SiLU", "title: Sigmoid linear unit"),
        ("of a vector", "of any tensor"),
        ("{ragged: 3, performance: 2, memory: 1}", "{ragged: 5, performance: 2, memory: 2}"),
        ("at_least: 0.9, points: 2", "at_least: 0.8, points: 2"),
        ("at_least: 0.5, points: 1", "at_least: 0.4, points: 0.5"),
        ("        - {speed_vs: copy, at_least: 0.5, points: 1}\n", ""),
        ("device: NVIDIA H100", "device: NVIDIA A100"),
        ("{at_least: 30}", "{at_least: 28}"),
        ("{at_most: 0}", "{at_most: 64}"),
        ("points: {ragged: 1}", "bonus: true, points: {ragged: 1}"),
    ],
)
def test_points_thresholds_and_words_keep_every_key(keys_with, old, new):
    assert changed(keys_with(), keys_with(old, new)) == set()


@pytest.mark.parametrize(
    ("old", "new", "of"),
    [
        ("[1, 20]", "[1, 21]", {"triton", "cuda"}),
        ("up_to: 8", "up_to: 16", {"twin"}),
        ("factor: 2", "factor: 3", {"triton", "cuda", "twin"}),
        ("seconds: 10", "seconds: 11", {"triton", "cuda", "twin"}),
        ("[normal]", "[normal, tiny]", {"triton", "cuda", "twin"}),
        ("values: [1.0, 2.0]", "values: [1.0]", {"triton", "cuda", "twin"}),
        ("{name: x, shape: [n]", "{name: x, shape: [n + 1]", {"triton", "cuda", "twin"}),
        ("dtypes: [float32]\n", "dtypes: [float32, float16]\n", {"triton"}),
        ("entry: silu\n", "entry: other\n", {"triton"}),
        ("speed_vs: copy, at_least: 0.9", "speed_vs: torch, at_least: 0.9", {"triton"}),
        (
            "case: {n: 33554432, dtype: float32}\n      bytes",
            "case: {n: 67108864, dtype: float32}\n      bytes",
            {"triton"},
        ),
        ("2 * n * itemsize", "3 * n * itemsize", {"triton"}),
        ("{load: {at_least: 30}}", "{store: {at_least: 30}}", {"triton"}),
        # Evidence from before such a bound has no such metric.
        ("{at_least: 30}}\n", "{at_least: 30}}\n      largest_share: {at_most: 1}\n", {"triton"}),
        ("{at_least: 30}}\n", "{at_least: 30}}\n      requests: {at_most: n}\n", {"triton"}),
        ("{at_least: 30}}\n", "{at_least: 30}}\n      blocks: {at_least: 1}\n", {"triton"}),
        (
            "{at_least: 30}}\n",
            "{at_least: 30}}\n      simt_efficiency: {at_least: 0}\n",
            {"triton"},
        ),
        ("ragged: 3, performance", "ragged: 3, aligned: 1, performance", {"triton"}),
        # A CUDA file is compiled once, with the entries of all its variants.
        ("entry: twin", "entry: tween", {"cuda", "twin"}),
        ("    entry: silu\n", "    entry: silu\n    policy: {torch: [matmul]}\n", {"triton"}),
        ("    entry: silu\n", "    entry: silu\n    tolerance: {factor: 4}\n", {"triton"}),
        ("    entry: silu\n", "    entry: silu\n    limits: {memory_mb: 99}\n", {"triton"}),
    ],
)
def test_what_is_run_and_measured_changes_the_keys_of_those_it_concerns(keys_with, old, new, of):
    assert changed(keys_with(), keys_with(old, new)) == of


@pytest.mark.parametrize(
    "other",
    [
        replace(HERE, seed=8),
        replace(HERE, device="NVIDIA H100 80GB HBM3"),
        replace(HERE, version="0.0.1"),
        replace(HERE, effort=Effort(drawn=3)),
    ],
    ids=["seed", "device", "version", "effort"],
)
def test_other_conditions_are_another_result(exercises, other):
    assert changed(keys_of(exercises), keys_of(exercises, other)) == {"triton", "cuda", "twin"}


def test_another_file_and_lifted_rules_are_another_result(exercises):
    seen = [
        keys_of(exercises)["triton"],
        keys_of(exercises, file="e" * 64)["triton"],
        keys_of(exercises, file=NO_FILE)["triton"],
        keys_of(exercises, lifted=True)["triton"],
    ]
    assert len(set(seen)) == 4
    assert keys_of(exercises)["triton"] == seen[0]


# --- the oracle -----------------------------------------------------------------------------------

ORACLES = '''\
"""Words about the file."""
from __future__ import annotations
import math
import torch

SCALE = 2.0
OTHER = 3.0

def helper(x):
    return x * SCALE

def silu(x, eps):
    return helper(x)

def silu_torch(x, eps):
    return x

def gelu(x):
    return x * OTHER
'''


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("return helper(x)", "return helper(x) + eps", True),
        ("return x * SCALE", "return x + SCALE", True),
        ("SCALE = 2.0", "SCALE = 2.5", True),
        ("def silu_torch(x, eps):\n    return x", "def silu_torch(x, eps):\n    return -x", True),
        ("def gelu", "def silu_magnitude(x, eps):\n    return x.abs()\n\ndef gelu", True),
        ("def gelu", "torch.use_deterministic_algorithms(True)\n\ndef gelu", True),
        ("return x * OTHER", "return x + OTHER", False),
        ("OTHER = 3.0", "OTHER = 4.0", False),
        ("import math\n", "", False),
        ("    return helper(x)", "    # a comment\n    return helper( x )", False),
        ("Words about", "Other words about", False),
    ],
)
def test_an_oracle_changes_the_keys_of_its_own_exercise_alone(
    exercises, tmp_path, old, new, changes
):
    assert old in ORACLES
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text(ORACLES)
    after.write_text(ORACLES.replace(old, new))
    found = changed(
        keys_of(exercises, replace(HERE, oracles=before)),
        keys_of(exercises, replace(HERE, oracles=after)),
    )
    assert found == ({"triton", "cuda", "twin"} if changes else set())


def test_the_source_of_every_oracle_defines_it():
    for exercise in load_all().values():
        assert f"def {exercise.oracle}(" in oracle_source(exercise.oracle)
    assert "def gelu(" not in oracle_source("silu")


def test_oracles_that_cannot_be_read_are_said(tmp_path):
    broken = tmp_path / "oracles.py"
    broken.write_text("def silu(:")
    for path in (broken, tmp_path / "none.py"):
        with pytest.raises(oracle.OracleError, match="can't be read"):
            oracle_source("silu", path)


# --- every field ----------------------------------------------------------------------------------


def models_in(annotation: object) -> set[type[Block]]:
    """The models that a field's type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return {annotation}
    inside = typing.get_args(annotation) if not isinstance(annotation, str) else ()
    return set().union(*(models_in(each) for each in inside))


def reachable(model: type[Block], seen: set[type[Block]]) -> set[type[Block]]:
    if model not in seen:
        seen.add(model)
        for field in model.model_fields.values():
            for inner in models_in(field.annotation) | set().union(
                *(models_in(each) for each in field.metadata)
            ):
                reachable(inner, seen)
    return seen


def test_every_field_of_a_spec_is_classified():
    models = reachable(Exercise, set())
    assert len(models) >= 15
    assert set(USES) == models
    for model in models:
        assert set(USES[model]) == set(model.model_fields), model.__name__


def test_a_field_that_nobody_classified_is_an_error(exercises, monkeypatch):
    uses = dict(USES[Exercise])
    del uses["data"]
    monkeypatch.setitem(USES, Exercise, uses)
    with pytest.raises(KeyError, match="data"):
        measured_part(exercises["silu"], exercises["silu"].variants["triton"])


def test_what_is_scored_or_told_is_not_in_the_measured_part(exercises):
    text = str(measured_part(exercises["silu"], exercises["silu"].variants["triton"]))
    for word in ("of a vector", "0.9", "NVIDIA", "bonus", "flops"):
        assert (word in text) is (word == "flops")
    assert all(
        isinstance(use, (Use, types.FunctionType)) for of in USES.values() for use in of.values()
    )


def test_the_oracles_of_the_keys_are_the_ones_that_judge():
    assert HERE.oracles is None
    assert {oracle.file_of(each) for each in load_all().values()} == {oracle.ORACLES}


def test_newer_keys_of_a_spec_change_its_keys(keys_with):
    every = {"triton", "cuda", "twin"}
    for old, new in (
        ("data: [normal]", "data: [normal]\nwhere: [n > 0]"),
        ("data: [normal]", "data: [normal]\nderived: {m: n + 1}"),
        ("dtype: $dtype}", "dtype: $dtype, values: uniform}"),
        ("factor: 2}", "factor: 2, outputs: {out: {factor: 3}}}"),
        ("values: [1.0, 2.0]", "follows: 1 / n"),
    ):
        assert changed(keys_with(), keys_with(old, new)) == every, new
    zero = ("{n: [1, 20]}", "{n: {or_zero: [1, 20]}}")
    assert changed(keys_with(), keys_with(*zero)) == {"triton", "cuda"}
