"""Coverage-guided fuzzing of what reads untrusted bytes: `make fuzz` (needs the extra `fuzz`).

    python -m tests.fuzz TARGET [libFuzzer options, e.g. -max_total_time=60]

TARGET is protocol, spec, policy, evidence, plan or ttir. Each has one answer to bytes that make no
sense: its own error. Anything else is a crash, and libFuzzer keeps the bytes that led to it in the
current folder, or where -artifact_prefix says.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

from grader.mistakes import Mistake

with atheris.instrument_imports(include=["grader"]):
    from grader import evidence, plan, policy
    from grader.spec import SpecError, load
    from grader.worker.protocol import ProtocolError, Reply, Request
    from grader.worker.ttir.errors import LimitExceeded, MalformedIR, NotModelled
    from grader.worker.ttir.text import read as read_ttir

from tests.grader.plan.plans import ARGUMENTS
from tests.grader.plan.test_reader import FULL
from tests.support import attacks

ROOT = Path(__file__).resolve().parents[2]
SPEC = Path(tempfile.mkdtemp(prefix="warpgrade-fuzz-")) / "fuzzed.yaml"


def protocol(data: bytes) -> None:
    """What a worker answers, and what a host is asked."""
    for kind in (Reply, Request):
        try:
            message = kind.unpack(data)
        except ProtocolError:
            continue
        if kind is Request:
            assert Request.unpack(message.pack()).pack() == message.pack()
        else:
            assert Reply.unpack(message.pack()).sequence == message.sequence


def spec(data: bytes) -> None:
    """An exercise's YAML."""
    SPEC.write_bytes(data)
    try:
        load(SPEC)
    except SpecError as error:
        assert error.mistakes
        assert not any("\n" in mistake for mistake in error.mistakes)


def rules(data: bytes) -> None:
    """A submission's source in CUDA C++."""
    for violation in policy.cuda.check(data.decode("utf-8-sig", "replace")):
        assert violation.rule in {*policy.RULES, *policy.cuda.CUDA_RULES}
        assert violation.line >= 1
        assert violation.column >= 1


def stored_evidence(data: bytes) -> None:
    """A file that `rescore` is given."""
    try:
        evidence.from_json(data.decode("utf-8", "replace"))
    except Mistake as error:
        assert "\n" not in str(error)


def plans(data: bytes) -> None:
    """What a planner answers."""
    try:
        made = plan.read(data, ARGUMENTS)
    except plan.PlanError as error:
        assert str(error)
        return
    assert plan.read(plan.to_json(made), ARGUMENTS) == made
    assert plan.difference(made, made) == ""


def ttir(data: bytes) -> None:
    """What the compiler's frontend answers."""
    with contextlib.suppress(MalformedIR, NotModelled, LimitExceeded):
        read_ttir(data.decode("utf-8", "replace"))


TARGETS: dict[str, tuple[Callable[[bytes], None], list[str]]] = {
    "protocol": (protocol, []),
    "spec": (spec, ["exercises/*.yaml"]),
    "policy": (rules, ["reference/*.cu"]),
    "evidence": (stored_evidence, []),
    "plan": (plans, []),
    "ttir": (ttir, ["tests/grader/worker/ttir/golden/3.9.0/*"]),
}


def main() -> None:
    """Fuzz the target named first; the seeds are the project's own files."""
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"expected a target: {', '.join(TARGETS)}")
    target, seeds = TARGETS[sys.argv[1]]
    corpus = tempfile.mkdtemp(prefix="warpgrade-fuzz-")
    example = evidence.Evidence("x", 1, (evidence.VariantEvidence("silu", "triton", "silu.py"),))
    (Path(corpus) / "evidence.json").write_text(evidence.to_json(example))
    (Path(corpus) / "plan.json").write_text(FULL)
    if target is rules:
        for attack in attacks.load("cuda"):
            (Path(corpus) / f"{attack.name}.cu").write_text(attack.source, encoding="utf-8")
    for pattern in seeds:
        for path in ROOT.glob(pattern):
            (Path(corpus) / path.name).write_bytes(path.read_bytes())
    atheris.Setup([sys.argv[0], *sys.argv[2:], corpus], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
