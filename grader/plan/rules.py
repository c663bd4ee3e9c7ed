"""The rules on a plan: what a submission's host code may ask for.

1. No result of another torch operation reaches an argument or a launch.
2. Elements of an output come from launches. Where the exercise is about moving data, a copy that
   permutes, selects, repeats or casts is refused; elsewhere it costs traffic and time. At most
   MAX_COPIES copies in a call.
3. Each kernel, left out, changes an output (executors/needless.py runs the plan without it).
4. Two fresh planners give the same plan for a case (text.py: difference).

A spec lifts the first two by naming torch operations (`policy: {torch: [...]}`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeGuard

from grader.plan.model import (
    Alloc,
    Copy,
    Foreign,
    HostOp,
    Launch,
    Plan,
    PointerArgument,
    Step,
    Upload,
    View,
)

MAX_COPIES = 16
_COPYING = frozenset({"copy_", "clone", "contiguous", "to"})


@dataclass(frozen=True)
class Allowed:
    """What one variant may do beyond the rules.

    `torch` are torch operations by name ("mm", "nn.functional.silu"), or "*" for all. `moves_data`:
    the exercise is about layout or casts, so a copy that changes them would solve it.
    """

    torch: frozenset[str] = frozenset()
    moves_data: bool = False

    @property
    def judges_copies(self) -> bool:
        return self.moves_data and "*" not in self.torch and not _COPYING & self.torch


@dataclass(frozen=True)
class Layout:
    """The layout of an argument; strides and offset count elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def is_all_of(self, view: View) -> bool:
        """Whether a view is the whole argument as it was given."""
        placed = (self.shape, self.offset) == (view.shape, view.offset)
        return placed and _dimensions(view) == _dimensions(self)


@dataclass(frozen=True)
class Violation:
    """A broken rule: `what` happened at `line` of the file, and what to do instead."""

    rule: str
    what: str
    line: int
    instead: str


# Torch's functions that are implemented by an operation of another name.
_CALLED = dict.fromkeys(("mm", "bmm", "mv", "dot", "addmm", "baddbmm"), ("matmul",))

_COMPUTE = "Compute it in your own kernel: torch is for allocating, shapes, strides and views here."
_MOVE = "Move the elements in your own kernel: the exercise is about where each one goes."
_FEWER = "Write to the output in the kernel, or copy once."


def allow(plan: Plan, allowed: Allowed) -> Plan:
    """The plan with the torch operations that the spec allows turned into executable steps.

    A planner's own claims have no influence.
    """
    return replace(
        plan, calls=tuple(tuple(_allowed(step, allowed) for step in call) for call in plan.calls)
    )


def _allowed(step: Step, allowed: Allowed) -> Step:
    if not isinstance(step, Foreign | HostOp):
        return step
    given = (step.operation, step.inputs, step.outputs, step.line)
    is_allowed = _names(step.operation, allowed.torch)
    return HostOp("host_op", *given) if is_allowed else Foreign("foreign", *given)


def _names(operation: str, torch: Collection[str]) -> bool:
    """Whether allowed names include this operation ("aten::mm", "aten::add_.Tensor")."""
    name = operation.rpartition("::")[2].partition(".")[0]
    known = {name, name.rstrip("_"), *_CALLED.get(name, ())}
    return "*" in torch or not known.isdisjoint(each.rpartition(".")[2] for each in torch)


def violations(
    plan: Plan, allowed: Allowed, arguments: Mapping[int, Layout] | None = None
) -> list[Violation]:
    """A plan's violations of the first two rules, in the order of its steps.

    `arguments` are the layouts of the entry's tensors by place: a copy of a whole argument selects
    nothing, whatever its strides.
    """
    broken: list[Violation] = []
    tainted: dict[int, Foreign] = {}
    reached: set[int] = set()  # by kernels
    for call in plan.calls:
        broken += _foreign(plan, call, tainted)
        broken += _copies(plan, call, allowed, arguments or {})
        if allowed.judges_copies:
            broken += _straight(plan, call, reached)
    return list(dict.fromkeys(broken))


def _foreign(plan: Plan, call: tuple[Step, ...], tainted: dict[int, Foreign]) -> list[Violation]:
    """Results of torch operations that reach an argument or a launch."""
    broken = []
    for step in call:
        if isinstance(step, Foreign):
            for view in step.outputs:
                if plan.buffers[view.buffer].kind == "argument":
                    broken.append(_computed(step, "an argument of the entry"))
                else:
                    tainted[view.buffer] = step
        elif isinstance(step, Copy):
            cause = tainted.get(step.source.buffer)
            if cause is not None and plan.buffers[step.to.buffer].kind == "argument":
                broken.append(_computed(cause, "an argument of the entry"))
            elif cause is not None:
                tainted[step.to.buffer] = cause
        elif isinstance(step, Alloc):
            tainted.pop(step.buffer, None)
        elif isinstance(step, Launch):
            for number in _pointed_to(step):
                if number in tainted:
                    broken.append(_computed(tainted[number], "a kernel"))
        elif isinstance(step, HostOp):
            causes = [tainted[v.buffer] for v in step.inputs if v.buffer in tainted]
            if causes:
                broken.append(_computed(causes[0], "an argument of the entry"))
    return broken


def _computed(step: Foreign, reached: str) -> Violation:
    operation = step.operation.removeprefix("aten::")
    message = f"PyTorch computed {operation}, and the result reaches {reached}"
    return Violation("torch", message, step.line, _COMPUTE)


def _pointed_to(step: Launch) -> list[int]:
    numbers = [number for _, number, _ in step.pointers]
    for argument in step.arguments:
        if hasattr(argument, "pointer"):
            numbers.append(argument.pointer[0])
        elif hasattr(argument, "descriptor"):
            numbers.append(argument.descriptor.buffer)
    return numbers


def _copies(
    plan: Plan, call: tuple[Step, ...], allowed: Allowed, arguments: Mapping[int, Layout]
) -> list[Violation]:
    """Copies that do the exercise's work, or too many of them."""
    if "*" in allowed.torch or _COPYING & allowed.torch:
        return []
    copies = [step for step in call if isinstance(step, Copy)]
    broken = []
    if allowed.moves_data:
        for step in copies:
            given = [_layout_of(view, plan, arguments) for view in (step.source, step.to)]
            if change := change_of(step, [each for each in given if each is not None]):
                message = f"a copy by PyTorch or the CUDA runtime {change}, which is the exercise"
                broken.append(Violation("copy", message, step.line, _MOVE))
    if len(copies) > MAX_COPIES:
        message = f"{len(copies)} copies in one call; at most {MAX_COPIES} are allowed"
        broken.append(Violation("copy", message, copies[MAX_COPIES].line, _FEWER))
    return broken


def _straight(plan: Plan, call: tuple[Step, ...], reached: set[int]) -> Iterator[Violation]:
    """Copies to an argument from buffers that no kernel has written; `reached` are kernels'."""
    for step in call:
        if isinstance(step, Launch):
            reached.update(_pointed_to(step))
        elif isinstance(step, Upload):
            reached.update(number for _, number, _ in step.pointers)
        elif _goes_to_argument(step, plan) and step.source.buffer not in reached:
            yield _without_kernel(step.line)


def copies_to_arguments(plan: Plan) -> bool:
    return any(_goes_to_argument(step, plan) for step in plan.calls[0])


def _goes_to_argument(step: Step, plan: Plan) -> TypeGuard[Copy]:
    return isinstance(step, Copy) and plan.buffers[step.to.buffer].kind == "argument"


def copies_alone(plan: Plan) -> Violation:
    """The violation of a plan whose result is right without any kernel."""
    return _without_kernel(next(s.line for s in plan.calls[0] if _goes_to_argument(s, plan)))


def _without_kernel(line: int) -> Violation:
    message = "a copy by PyTorch or the CUDA runtime gives an output what no kernel has computed"
    return Violation("copy", message, line, _MOVE)


def _layout_of(view: View, plan: Plan, arguments: Mapping[int, Layout]) -> Layout | None:
    """The layout of the argument that a view covers, or None."""
    place = plan.buffers[view.buffer].argument
    layout = None if place is None else arguments.get(place)
    return layout if layout is not None and layout.is_all_of(view) else None


def change_of(copy: Copy, whole: Collection[Layout] = ()) -> str:
    """How a copy changes elements beyond moving them, in words; "" where it doesn't.

    A copy between dense views of one order keeps every element's place among the others, and so
    does one of a whole argument, whose layouts are `whole`.
    """
    source, to = copy.source, copy.to
    if source.dtype != to.dtype:
        return f"casts {source.dtype} to {to.dtype}"
    if source.elements <= 1:
        return ""
    for view in (source, to):
        if any(stride == 0 for size, stride in _dimensions(view)):
            return "repeats elements"
    if _order(source) != _order(to):
        return "permutes elements"
    for view in (source, to):
        if not _is_dense(view) and not any(each.is_all_of(view) for each in whole):
            return "selects elements"
    return ""


def _dimensions(view: View | Layout) -> list[tuple[int, int]]:
    """(size, stride) of the dimensions with more than one element."""
    return [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]


def _order(view: View) -> list[tuple[int, int]]:
    """(axis, size) of the dimensions in memory order."""
    dimensions = enumerate(_dimensions(view))
    ordered = sorted(dimensions, key=lambda each: -abs(each[1][1]))
    return [(axis, size if stride > 0 else -size) for axis, (size, stride) in ordered]


def _is_dense(view: View) -> bool:
    """Whether the view's innermost stride is one element."""
    dimensions = _dimensions(view)
    return not dimensions or min(abs(stride) for _, stride in dimensions) == 1


def repeats(plan: Plan) -> bool:
    """Whether the second call asks for the same work as the first, on memory of its own.

    Trials of a tuning don't count: only the first call has them.
    """
    if len(plan.calls) < 2:
        return True
    first, again = (_without_trials(call) for call in plan.calls)
    return first == again or _work(first) == _work(again)


def _without_trials(call: tuple[Step, ...]) -> list[Step]:
    return [step for step in call if not (isinstance(step, Launch) and step.trial >= 0)]


def _work(steps: list[Step]) -> list[Any]:
    """The steps of a call, with its own allocations, streams and events numbered in order."""
    allocated = [step.buffer for step in steps if isinstance(step, Alloc)]
    numbers = {
        "buffer": {number: -1 - place for place, number in enumerate(allocated)},
        "stream": _in_order(steps, "stream"),
        "event": _in_order(steps, "event"),
    }
    return [_numbered(step, numbers) for step in steps]


def _in_order(steps: list[Step], kind: str) -> dict[int, int]:
    """The streams, or the events, of some steps, numbered as they first appear; stream 0 stays."""
    used = (getattr(step, kind, None) for step in steps)
    own = dict.fromkeys(each for each in used if each is not None and (each or kind == "event"))
    return {number: place for place, number in enumerate(own, 1)}


def _numbered(value: Any, numbers: Mapping[str, Mapping[int, int]]) -> Any:
    """A step, or a part of it, as comparable tuples without lines, and with its own numbered."""
    buffers = numbers["buffer"]
    if isinstance(value, PointerArgument):
        return (buffers.get(value.pointer[0], value.pointer[0]), value.pointer[1])
    if is_dataclass(value):
        return tuple(
            numbers[each.name].get(part, part)
            if each.name in numbers
            else tuple((at, buffers.get(to, to), offset) for at, to, offset in part)
            if each.name == "pointers"
            else _numbered(part, numbers)
            for each in fields(value)
            if each.name != "line"
            for part in [getattr(value, each.name)]
        )
    if isinstance(value, tuple):
        return tuple(_numbered(each, numbers) for each in value)
    return value
