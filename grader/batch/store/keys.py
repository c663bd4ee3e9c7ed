"""The key under which evidence is stored: results with one key are the same result.

A key is the hash of everything that evidence of one variant follows from: the bytes of the file,
what the spec says about what is run and measured, the oracle's source, the grader's version, the
seed and the device. Two students with the same file share a result; other points or thresholds
keep every key, so that they need no new run.

Every field of a spec is in USES: a new one has to be put there before anything works.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from grader import __version__, executors
from grader.cases import oracle
from grader.executors.cuda import cuda_build, joining
from grader.grading.search import Effort
from grader.spec import (
    Bound,
    Exercise,
    Limits,
    Memory,
    Milliseconds,
    Performance,
    Scalar,
    SizeRule,
    Tensor,
    Threshold,
    Tolerance,
    Variant,
)
from grader.spec.blocks import Growth, LoadStore, MemoryPressure, Policy, Wave
from grader.spec.compiling import Compile
from grader.spec.contents import Contents
from grader.spec.formula import Formula, Relation
from grader.spec.predictions import PREDICTIONS, Predictions, Question
from grader.spec.values import Block

NO_FILE = ""  # stands for the hash of a file that wasn't handed in


class Use(Enum):
    """Whether, and how, evidence depends on a field of a spec."""

    measured = "evidence depends on it"
    in_force = "evidence depends on it by way of the value in force, which is in the key"
    scored = "points follow from it and evidence: another value needs no new run"
    shown = "people read it"


M, F, S, T = Use.measured, Use.in_force, Use.scored, Use.shown


def _baselines(thresholds: Iterable[Threshold]) -> list[str]:
    return sorted({each.speed_vs for each in thresholds if each.speed_vs})


def _baselines_by_gpu(by_gpu: Mapping[str, Iterable[Threshold]]) -> list[list[Any]]:
    return [[gpu, _baselines(thresholds)] for gpu, thresholds in by_gpu.items()]


def _classes(points: Mapping[str, float]) -> list[str]:
    return [name for name in points if name not in ("performance", "memory", PREDICTIONS)]


USES: dict[type[Block], dict[str, Use | Callable[[Any], Any]]] = {
    Exercise: {
        "name": M, "title": T, "summary": T, "oracle": M, "arguments": M, "sizes": M, "where": M,
        "derived": M, "data": M, "tolerance": M, "limits": M, "policy": M, "moves_data": M,
        "launches_at": M,
        "variants": F, "predictions": F,
    },
    Predictions: {"points": S, "questions": M},
    Question: {
        "ask": T, "draw": M, "unit": T, "choices": M, "variant": M, "dtype": M, "answer": M,
        "accept": M,
    },
    Variant: {
        "name": M, "file": M, "entry": M, "dtypes": M, "points": _classes, "bonus": S,
        "arguments": M, "layout": M, "tolerance": F, "limits": F, "policy": F,
        "performance": M, "memory": M, "entries": M, "compile": M,
    },
    Compile: {"files": M, "headers": M, "flags": M},
    Tensor: {
        "name": M, "shape": M, "dtype": M, "role": M, "space": M, "layout": M, "values": M,
    },
    Contents: {"kind": M, "low": M, "high": M, "in_order": M},
    Scalar: {"name": M, "scalar": M, "values": M, "follows": M},
    SizeRule: {"low": M, "high": M, "multiple_of": M, "choices": M, "or_zero": M},
    Tolerance: {"factor": M, "floor_ulps": M, "magnitude": M, "outputs": M},
    Limits: {"seconds": M, "memory_mb": M},
    Policy: {"torch": M, "lifted": M},
    # Whether stores and loads are bounded decides what counts as earned (memory_metrics.unearned).
    Memory: {
        "case": M, "useful_bytes_per_sector": M, "shared_bank_conflicts": S, "copies": S,
        "bytes_copied": S, "scratch_stores": S, "reads": S, "largest_share": M,
        "requests": M, "blocks": M, "simt_efficiency": M, "scratch_bytes": S, "wave_bytes": M,
        "growth": M, "memory_pressure": M, "most_traffic": M,
    },
    LoadStore: {"load": M, "store": M},
    Bound: {"at_least": S, "at_most": S},
    Wave: {"programs": M, "distinct": S, "to_row_major": S},
    Growth: {"sizes": M, "tile": S, "scratch": S},
    MemoryPressure: {"case": M, "leaves": M},
    Performance: {
        "case": M, "cases": M, "bytes": M, "flops": M, "thresholds": _baselines,
        "by_gpu": _baselines_by_gpu,
        "device": S, "beside": M,
    },
    Threshold: {
        "speed_vs": M, "from_": S, "at_least": S, "milliseconds": S, "points": S, "missed_by": T,
    },
    Milliseconds: {"gpu": S, "at_most": S},
}  # fmt: skip


@dataclass(frozen=True)
class Conditions:
    """The conditions common to a class's results. `device` is "cpu" or the GPU's name."""

    seed: int
    device: str
    effort: Effort = field(default_factory=Effort)
    version: str = __version__
    oracles: Path | None = None  # in the place of the course's own


class Keys:
    """The keys of a class's results. Raises OracleError where an oracle can't be read."""

    def __init__(self, exercises: Mapping[str, Exercise], conditions: Conditions) -> None:
        self._digests = {
            (exercise.name, variant.name): _digest(exercises, exercise, variant, conditions)
            for exercise in exercises.values()
            for variant in exercise.graded.values()
        }

    def of(self, exercise: str, variant: str, file_sha256: str, *, lifted: bool = False) -> str:
        """The key of one variant of a file; NO_FILE stands for one that wasn't handed in.

        `lifted`: it may break the rules of the assignment.
        """
        digest = self._digests[exercise, variant].copy()
        digest.update(f"{file_sha256} {lifted}".encode())
        return digest.hexdigest()


def _digest(
    exercises: Mapping[str, Exercise], exercise: Exercise, variant: Variant, conditions: Conditions
) -> hashlib._Hash:
    """The hash of everything that a variant's keys have in common, without the file."""
    stated = {
        "spec": measured_part(exercise, variant),
        "beside": _compiled_with(exercises, variant),
        "oracle": oracle_source(exercise.oracle, conditions.oracles or oracle.file_of(exercise)),
        "seed": conditions.seed,
        "device": conditions.device,
        "effort": asdict(conditions.effort),
        "version": conditions.version,
        "executors": executors.VERSION,
    }
    if variant.name == PREDICTIONS:
        stated["questions"] = _reduced(exercise.predictions)
    return hashlib.sha256(json.dumps(stated).encode())


def measured_part(exercise: Exercise, variant: Variant) -> dict[str, Any]:
    """The part of a spec that a variant's evidence depends on, as plain data in a fixed order."""
    in_force = exercise.model_copy(
        update={
            "sizes": {name: exercise.sizes[name] for name in variant.size_classes},
            "tolerance": exercise.tolerance_of(variant),
            "limits": variant.limits or exercise.limits,
            "policy": exercise.policy.with_more(variant.policy),
        }
    )
    names = list(exercise.sizes_names)
    return {"exercise": _reduced(in_force), "variant": _reduced(variant), "sizes": names}


def _reduced(value: Any) -> Any:
    if isinstance(value, Block):
        uses = ((name, USES[type(value)][name]) for name in type(value).model_fields)
        return {
            name: (_reduced if isinstance(use, Use) else use)(getattr(value, name))
            for name, use in uses
            if use is M or not isinstance(use, Use)
        }
    if isinstance(value, Mapping):
        return [[key, _reduced(item)] for key, item in value.items()]  # the order counts
    if isinstance(value, (list, tuple)):
        return [_reduced(item) for item in value]
    return str(value) if isinstance(value, (Formula, Relation)) else value


def _compiled_with(exercises: Mapping[str, Exercise], variant: Variant) -> list[Any]:
    """The entries of a CUDA file, those of all its variants, and the course's headers in it."""
    if variant.language != "cuda":
        return []
    beside = [
        (exercise, each)
        for exercise in exercises.values()
        for each in exercise.variants.values()
        if each.file == variant.file
    ]
    headers = {e.reference / name for e, each in beside for name in each.compile.headers}
    return [
        *([entry, *kinds] for entry, kinds in cuda_build.called(beside)),
        *([path.name, joining.text_of(path)] for path in sorted(headers)),
    ]


# --- the oracle -----------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def oracle_source(name: str, path: Path = oracle.ORACLES) -> str:
    """The source of the oracle `name` without comments: its functions and all that they use.

    So another exercise's oracle can change without a new run of this one. Raises OracleError where
    the file can't be read.
    """
    try:
        statements = ast.parse(path.read_text(encoding="utf-8")).body
    except (OSError, ValueError, SyntaxError) as error:
        raise oracle.OracleError(f"{path}: can't be read: {error}") from None
    bound = [_bound_by(statement) for statement in statements]
    kept = {i for i, names in enumerate(bound) if not names and not _is_text(statements[i])}
    wanted = {name, *(f"{name}_{each}" for each in ("torch", "magnitude", "inputs", "check"))}
    wanted |= {used for i in kept for used in _names_in(statements[i])}
    while True:
        more = {i for i, names in enumerate(bound) if names & wanted} - kept
        if not more:
            return "\n".join(ast.unparse(statements[i]) for i in sorted(kept))
        kept |= more
        wanted |= {used for i in more for used in _names_in(statements[i])}


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _bound_by(statement: ast.stmt) -> set[str]:
    """Names that a statement of the file's top level gives a meaning; none: it is always kept."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        if getattr(statement, "module", "") == "__future__":
            return set()
        return {(each.asname or each.name).partition(".")[0] for each in statement.names}
    targets: list[ast.expr] = []
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return set(names) if len(names) == len(targets) else set()


def _names_in(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
