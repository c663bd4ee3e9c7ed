"""People's decisions about scores. Nothing is removed: another row undoes an adjustment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from grader.batch.course.records import MOST_POINTS, Adjustment, AdjustmentKind
from grader.batch.store.database import Database, now
from grader.mistakes import Mistake


@dataclass(frozen=True)
class StoredAdjustment:
    """An adjustment with its number; undone ones are kept."""

    number: int
    adjustment: Adjustment
    undone_by: int | None = None


class AdjustmentTable:
    """The table adjustments."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[StoredAdjustment]:
        """Every adjustment ever made, undone ones too."""
        rows = self._database.rows(
            "SELECT a.number, a.student, a.kind, a.reason, a.only_name, a.points, a.made_by, "
            "a.made_at, b.number FROM adjustments a LEFT JOIN adjustments b ON b.undoes = a.number "
            "WHERE a.undoes IS NULL ORDER BY a.number"
        )
        stored = []
        for number, student, kind, reason, only, points, by, at, undone in rows:
            with self._database.reading(f"adjustment {number}"):
                known, time = AdjustmentKind(kind), datetime.fromisoformat(at)
                if not abs(points) <= MOST_POINTS:
                    raise ValueError(f"{points:g} points")
                made = Adjustment(student, known, reason, only, points, by, time)
            stored.append(StoredAdjustment(number, made, undone))
        return stored

    def undo(self, number: int, reason: str, by: str = "") -> None:
        """Undo an adjustment; both stay. Raises Mistake where there is none to undo."""
        stored = {each.number: each for each in self.all()}.get(number)
        if stored is None:
            raise Mistake(f"{self._database.path}: there is no adjustment {number}")
        if stored.undone_by is not None:
            raise Mistake(f"{self._database.path}: adjustment {number} is undone already")
        note = Adjustment(stored.adjustment.student, AdjustmentKind.note, reason, by=by)
        self.add(note, number)

    def add(self, adjustment: Adjustment, undoes: int | None = None) -> int:
        """Add an adjustment, which may undo another one; returns its number."""
        return self._database.insert(
            "adjustments",
            student=adjustment.student,
            kind=adjustment.kind.value,
            reason=adjustment.reason,
            only_name=adjustment.only,
            points=adjustment.points,
            made_by=adjustment.by,
            made_at=adjustment.at.isoformat() if adjustment.at else now(),
            undoes=undoes,
        )
