"""The grade as JUnit XML, which CI servers and editors show as a list of tests.

One testsuite per exercise, one testcase per part (`silu-triton-float32-ragged`, as in pytest) and
per performance or memory check (`silu-triton-performance`). The class name of a bonus says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from grader.evidence import Evidence, VariantEvidence
from grader.report.message import DETAIL_LIMIT, part_text, sentence
from grader.report.summary import find_part
from grader.sandbox.untrusted import clean, one_line, shorten
from grader.scoring.score import INTERRUPTED, SKIPPED_AS_WRONG, GradeScore, VariantScore
from grader.status import Status


@dataclass(frozen=True)
class _Case:
    name: str
    status: Status
    message: str = ""
    detail: str = ""
    seconds: float = 0.0


def render(evidence: Evidence, grade: GradeScore) -> str:
    """The grade as an XML document."""
    by_name = evidence.by_name
    root = ET.Element("testsuites", name="warpgrade")
    for exercise in grade.exercises:
        suite = ET.SubElement(root, "testsuite", name=one_line(exercise.name))
        for variant in exercise.variants:
            observed = by_name.get((exercise.name, variant.name))
            for case in _cases(exercise.name, variant, observed):
                bonus = " (bonus)" if variant.is_bonus else ""
                _add(suite, f"{exercise.name}.{variant.name}{bonus}", case)
        _count(suite)
    _count(root)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="utf-8"?>\n', "\n")
    )


def _cases(
    exercise: str, variant: VariantScore, observed: VariantEvidence | None
) -> Iterator[_Case]:
    for check in variant.checks:
        if not check.parts:
            # A kernel that is wrong fails its size classes; that nothing was timed or counted is no
            # second bug.
            skipped = check.message in SKIPPED_AS_WRONG
            status = Status.not_measured if skipped else check.status
            message = sentence(check.message) or sentence(check.status.headline)
            yield _Case(f"{exercise}-{variant.name}-{check.name}", status, message)
        for part in check.parts:
            name = f"{exercise}-{variant.name}-{part.dtype}-{check.name}"
            evidence = find_part(observed, check.name, part.dtype) if observed else None
            if part.status is Status.not_attempted:
                yield _Case(name, part.status, sentence(check.message))
            elif evidence is None:
                yield _Case(name, part.status, sentence(INTERRUPTED))
            else:
                text = part_text(exercise, variant.name, evidence)
                detail = "\n\n".join(clean(failure.detail) for failure in evidence.failures)
                yield _Case(name, part.status, text, detail, evidence.seconds)


def _add(suite: ET.Element, classname: str, case: _Case) -> None:
    attributes = {"classname": one_line(classname), "name": one_line(case.name)}
    element = ET.SubElement(suite, "testcase", {**attributes, "time": f"{case.seconds:.3f}"})
    if case.status is Status.passed:
        return
    if case.status is Status.grader_error:
        kind = "error"
    elif case.status.is_failure and case.status is not Status.not_attempted:
        kind = "failure"
    else:
        ET.SubElement(element, "skipped", message=case.message)
        return
    outcome = ET.SubElement(element, kind, message=case.message, type=case.status.value)
    outcome.text = shorten("\n\n".join(filter(None, (case.message, case.detail))), DETAIL_LIMIT)


def _count(element: ET.Element) -> None:
    element.set("tests", str(len(list(element.iter("testcase")))))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(len(list(element.iter(kind)))))
    seconds = sum(float(case.get("time", "0")) for case in element.iter("testcase"))
    element.set("time", f"{seconds:.3f}")
