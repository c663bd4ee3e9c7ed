"""The results of a class: evidence of one variant of a file each, under its key.

A result takes the place of the one with the same key, which stays in the file as superseded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grader import evidence as evidence_files
from grader.batch.store.database import Database, insert, now
from grader.evidence import VariantEvidence
from grader.mistakes import Mistake


@dataclass(frozen=True)
class StoredResult:
    """Evidence of one variant, with the environment that it was observed in."""

    evidence: VariantEvidence
    environment: dict[str, Any]
    stored: str


@dataclass(frozen=True)
class Known:
    """The part of a stored result by which a run decides whether it is still valid."""

    grader_failed: bool
    to_measure: bool
    had_sandbox: bool


@dataclass(frozen=True)
class NewResult:
    """A result to be stored; `to_measure` where only what takes the whole GPU is left to do."""

    key: str
    evidence: str  # JSON, as Result.evidence
    device: str
    to_measure: bool = False
    grader_failed: bool = False
    seconds: float = 0.0
    gpu_seconds: float = 0.0


class ResultTable:
    """The tables results and environments."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def devices(self) -> list[str]:
        """The devices that results are from: "cpu", GPUs' names."""
        rows = self._database.rows(
            "SELECT DISTINCT device FROM results WHERE superseded IS NULL ORDER BY 1"
        )
        return [device for (device,) in rows]

    def exercises(self) -> list[str]:
        """The exercises that there are results of."""
        rows = self._database.rows("SELECT DISTINCT exercise FROM results ORDER BY 1")
        return [exercise for (exercise,) in rows]

    def variants(self) -> list[str]:
        """The variants that have results, as "silu/triton", by any device and any version."""
        query = "SELECT DISTINCT exercise || '/' || variant FROM results ORDER BY 1"
        return [name for (name,) in self._database.rows(query)]

    def known(self) -> dict[str, Known]:
        """Every current result by its key, as far as a run needs to know it."""
        rows = self._database.rows(
            "SELECT key, grader_failed, to_measure, "
            "json_extract(json, '$.sandbox') IS NOT 'limits' "
            "FROM results JOIN environments ON environments.number = environment "
            "WHERE superseded IS NULL"
        )
        return {key: Known(bool(a), bool(b), bool(c)) for key, a, b, c in rows}

    def graded(self, device: str) -> set[tuple[str, str, str, bool]]:
        """The variants with results from a device, by any version of grader and specs.

        Each as (exercise, variant, SHA-256 of the file, whether the rules were lifted).
        """
        rows = self._database.rows(
            "SELECT DISTINCT exercise, variant, file_sha256, rules_lifted FROM results "
            "WHERE device = ? AND superseded IS NULL",
            (device,),
        )
        return {(exercise, variant, file, bool(lifted)) for exercise, variant, file, lifted in rows}

    def seconds_per_timing(self, device: str) -> float | None:
        """The average seconds that timing one variant on a device took; None before the first."""
        row: tuple[float | None] = self._database.row(
            "SELECT avg(gpu_seconds) FROM results WHERE device = ? AND gpu_seconds > 0", (device,)
        )
        return row[0]

    def evidence_of(self, key: str) -> str:
        """The evidence of a key's current result, as JSON; "" where there is none."""
        row = self._database.row(
            "SELECT evidence FROM results WHERE key = ? AND superseded IS NULL", (key,)
        )
        return row[0] if row else ""

    def of(self, key: str) -> StoredResult | None:
        """The current result of a key. Raises Mistake where it can't be read."""
        row = self._database.row(
            "SELECT evidence, json, stored FROM results "
            "JOIN environments ON environments.number = environment "
            "WHERE key = ? AND superseded IS NULL",
            (key,),
        )
        if row is None:
            return None
        try:
            observed = evidence_files.variant_from_json(
                row[0], f"{self._database.path}: result {key[:12]}"
            )
        except Mistake as error:
            raise Mistake(f"{error}; grade it again with `grader regrade`") from None
        with self._database.reading(f"the environment of result {key[:12]}"):
            environment = dict(json.loads(row[1]))
        return StoredResult(observed, environment, row[2])

    def keep(
        self, results: Sequence[NewResult], seed: int, environment: Mapping[str, Any], run: int
    ) -> None:
        """Take in results, all or none; each takes the place of the one with its key."""
        stored = now()
        with self._database.transaction() as connection:
            text = json.dumps(environment, sort_keys=True)
            connection.execute("INSERT OR IGNORE INTO environments (json) VALUES (?)", (text,))
            [number] = connection.execute(
                "SELECT number FROM environments WHERE json = ?", (text,)
            ).fetchone()
            for new in results:
                observed = evidence_files.variant_from_json(new.evidence)
                connection.execute(
                    "UPDATE results SET superseded = ? WHERE key = ? AND superseded IS NULL",
                    (stored, new.key),
                )
                insert(
                    connection,
                    "results",
                    **asdict(new),
                    exercise=observed.exercise,
                    variant=observed.variant,
                    file_sha256=observed.sha256,
                    rules_lifted=observed.rules_lifted,
                    status=observed.correctness.value,
                    seed=seed,
                    environment=number,
                    run=run,
                    stored=stored,
                )
