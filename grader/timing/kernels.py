"""The kernels that ran: a library's work where a submission was to bring its own.

A second look beside the one at the source, and one that costs nothing timed: after the last pair
the candidate's own worker calls its entry once more under CUDA's profiler, and says what the device
ran. It is the worker's word, so it convicts and never acquits; where it can't be had, nobody loses
a point for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader import hostile, kernel_names
from grader.policy.findings import instead_of
from grader.spec import Exercise, Variant
from grader.status import Status
from grader.supervision import Death
from grader.timing.worker import TimingFailed, expect_ok
from grader.worker.protocol import Code, Reply

LONGEST = 160  # letters of a name in a message
MOST = 128  # names kept


@dataclass(frozen=True)
class Listed:
    """The names of what ran, fit to be shown; or why there are none."""

    names: tuple[str, ...] = ()
    unlisted: str = ""


def listed(answer: Reply | Death, exercise: Exercise, variant: Variant, path: Path) -> Listed:
    """What an answer to `profile` tells of the submission at `path`.

    Raises TimingFailed: `policy_violation` where a library computed and the spec doesn't let it,
    and what the entry raised.
    """
    if isinstance(answer, Death):
        return Listed(unlisted=f"the worker ended: {answer.description}")
    if answer.code is Code.bad_request:
        return Listed(unlisted=_shown(hostile.text(hostile.fields(answer), "message")))
    expect_ok(answer)
    fields = hostile.fields(answer)
    names = _names(fields.get("kernels"))
    if not _may_compute(exercise, variant):
        own = kernel_names.own_kernels(path.read_text(encoding="utf-8-sig", errors="replace"))
        _refuse(kernel_names.of_libraries(names, own), fields.get("computed"))
    return Listed(names, _shown(hostile.text(fields, "unlisted")))


def _refuse(found: list[tuple[str, kernel_names.Owner]], computed: object) -> None:
    if found:
        name, owner = found[0]
        more = f", and {len(found) - 1} more of the kind" if len(found) > 1 else ""
        what = f"the call ran {_shown(name)}, a kernel of {owner.value}{more}"
    elif operations := _operations(computed):
        what = f"PyTorch computed on the way to the result ({', '.join(operations)})"
    else:
        return
    raise TimingFailed(f"{what}. {instead_of('torch')}", Status.policy_violation)


def _may_compute(exercise: Exercise, variant: Variant) -> bool:
    """Whether the spec lets torch compute for the variant."""
    rules = exercise.rules_of(variant)
    return bool(rules.torch) or "torch" in rules.lifted


def _names(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, list) else []
    texts = (hostile.clean(each) for each in given[:MOST] if isinstance(each, str))
    return tuple(hostile.one_line(text, 2 * LONGEST) for text in texts)


def _operations(value: object) -> list[str]:
    """The names in pairs of an operation and a line."""
    pairs = value if isinstance(value, list) else []
    names = [pair[0] for pair in pairs if isinstance(pair, list) and pair]
    return [_shown(hostile.clean(name)) for name in names[:3] if isinstance(name, str)]


def _shown(text: str) -> str:
    return hostile.one_line(text, LONGEST)
