"""Evidence is read as it was written, also where an earlier version of the grader wrote it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from grader import evidence
from grader.evidence import Baseline, Evidence, PerformanceEvidence, VariantEvidence
from grader.mistakes import Mistake
from grader.status import Status

# A file of an earlier version, which had another word for baselines.
OLD = """\
{
 "submission": "ada",
 "seed": 7,
 "variants": [
  {
   "exercise": "rmsnorm",
   "variant": "triton",
   "file": "rmsnorm.py",
   "sha256": "",
   "not_attempted": "",
   "parts": [],
   "performance": {
    "status": "passed",
    "reason": "",
    "device": "NVIDIA H100 80GB HBM3",
    "case": "rows=8192 cols=8192 dtype=bfloat16 seed=7",
    "microseconds": 93.1,
    "microseconds_low": 93.0,
    "microseconds_high": 93.4,
    "bytes": 268435456,
    "flops": null,
    "samples": 12,
    "voids": {},
    "budget_ended": false,
    "disturbed": "",
    "earlier": [],
    "accepted": false,
    "machine": {},
    "kernels": [],
    "unlisted": "",
    "yardsticks": [
     {"name": "copy", "microseconds": 92.5, "ratio": 0.9936, "low": 0.9896, "high": 0.9976},
     {"name": "torch", "microseconds": 93.2, "ratio": 1.0011, "low": null, "high": null}
    ],
    "further": [
     {
      "status": "passed",
      "case": "rows=4096 cols=16384 dtype=bfloat16 seed=7",
      "yardsticks": [
       {"name": "copy", "microseconds": 92.7, "ratio": 0.99, "low": null, "high": null}
      ],
      "further": []
     }
    ]
   },
   "rules_lifted": false,
   "memory": null
  }
 ],
 "environment": {},
 "seconds": 1.5,
 "complete": true,
 "schema": 1
}
"""

FURTHER = PerformanceEvidence(
    Status.passed,
    case="rows=4096 cols=16384 dtype=bfloat16 seed=7",
    baselines=(Baseline("copy", 92.7, 0.99),),
)
TIMED = PerformanceEvidence(
    Status.passed,
    device="NVIDIA H100 80GB HBM3",
    case="rows=8192 cols=8192 dtype=bfloat16 seed=7",
    microseconds=93.1,
    microseconds_low=93.0,
    microseconds_high=93.4,
    bytes=268435456,
    samples=12,
    baselines=(Baseline("copy", 92.5, 0.9936, 0.9896, 0.9976), Baseline("torch", 93.2, 1.0011)),
    further=(FURTHER,),
)
VARIANT = VariantEvidence("rmsnorm", "triton", "rmsnorm.py", performance=TIMED)
EVIDENCE = Evidence(submission="ada", seed=7, variants=(VARIANT,), environment={}, seconds=1.5)


def test_old_evidence_is_read_as_if_it_were_written_now(tmp_path):
    path = tmp_path / "evidence.json"
    path.write_text(OLD)
    assert evidence.read(path) == EVIDENCE


def test_evidence_is_written_with_the_new_word_and_read_again():
    text = evidence.to_json(EVIDENCE)
    assert '"baselines"' in text and "yardsticks" not in text
    assert evidence.from_json(text) == EVIDENCE


def test_a_variants_evidence_is_read_by_either_word():
    text = evidence.variant_to_json(VARIANT)
    assert evidence.variant_from_json(text) == VARIANT
    assert evidence.variant_from_json(text.replace("baselines", "yardsticks")) == VARIANT


def test_a_mistake_below_the_old_word_is_told_with_its_place():
    with pytest.raises(Mistake, match=r"performance\.yardsticks\.0\.ratio: .*, got 'fast'"):
        evidence.from_json(OLD.replace("0.9936", '"fast"'))


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ('"bytes": 268435456', f'"bytes": {10**400}', "performance.bytes"),
        ('"flops": null', '"flops": 1e999', "performance.flops"),
        ('"microseconds": 93.1', '"microseconds": NaN', "performance.microseconds"),
    ],
)
def test_a_number_that_no_report_could_show_is_refused(before, after, place):
    assert before in OLD
    with pytest.raises(Mistake, match=rf"variants\.0\.{place}: "):
        evidence.from_json(OLD.replace(before, after, 1))


def test_a_file_without_an_end_is_refused():
    with pytest.raises(
        Mistake, match=r"/dev/zero: can.t be read: expected a file, got a pipe or a"
    ):
        evidence.read(Path("/dev/zero"))


def test_a_file_of_very_many_values_is_refused_before_they_are_made(tmp_path):
    path = tmp_path / "evidence.json"
    path.write_bytes(b'{"variants": [' + b"[]," * evidence.MOST_VALUES + b"[]]}")
    with pytest.raises(Mistake, match="at most 4,000,000 lists and fields"):
        evidence.read(path)


def test_a_metric_is_a_number_that_can_be_shown_in_percent():
    with pytest.raises(ValueError, match="less than or equal to"):
        TypeAdapter(evidence.Metric).validate_json('{"name": "largest_share", "value": 1e308}')


def test_evidence_of_another_schema_is_refused():
    with pytest.raises(Mistake, match="schema: expected 1, got 2"):
        evidence.from_json(evidence.to_json(replace(EVIDENCE, schema=2)))
