"""Two runs of one class are compared by points, and by the right files that were not timed."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections import Counter

from benchmarks.class_on_gpu import Run, differences, points, speeds

PASSED = {"status": "passed", "reason": ""}
NOISY = {"status": "not_measured", "reason": "GPU too noisy."}


def test_a_right_file_whose_speed_was_not_measured_is_told_with_its_reason(tmp_path):
    results = [
        {"performance": PASSED},
        {"performance": {**PASSED, "further": [NOISY]}},
        {"performance": NOISY},
        {"performance": None},  # wrong, or nothing to time
    ]
    store = sqlite3.connect(tmp_path / "class.sqlite")
    store.execute("CREATE TABLE results (evidence TEXT, superseded TEXT)")
    for each, superseded in [*((each, None) for each in results), (results[2], "today")]:
        text = json.dumps({"exercise": "silu", "variant": "triton", **each})
        store.execute("INSERT INTO results VALUES (?, ?)", (text, superseded))
    store.commit()
    store.close()
    measured, unmeasured = speeds(tmp_path / "class.sqlite")
    assert measured == 1 and unmeasured == {"silu/triton: GPU too noisy.": 2}


def test_students_whose_points_differ_are_told(tmp_path):
    path = tmp_path / "gradebook.csv"
    with path.open("w", newline="") as file:
        written = csv.DictWriter(file, ["id", "score", "gradable", "bonus", "notes"])
        written.writeheader()
        written.writerow({"id": "ada", "score": 9, "gradable": 13, "bonus": 0, "notes": "late"})
        written.writerow({"id": "bo", "score": 13, "gradable": 13, "bonus": 1, "notes": ""})
    one = Run("base-1", 60.0, 1, Counter(), points(path))
    other = Run("new-1", 50.0, 1, Counter(), {**one.points, "ada": ("9", "10", "0")})
    assert differences(one, one) == []
    assert differences(one, other) == [
        "ada: base-1 score 9 gradable 13 bonus 0, new-1 score 9 gradable 10 bonus 0"
    ]
