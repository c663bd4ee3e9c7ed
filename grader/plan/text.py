"""A plan in words for students.

silu(x, out) asks for, with n=1024 dtype=float32:
  launch  silu_kernel on 1 program: x, out, 1024; BLOCK=1024, 4 warps      silu.py:22

So is the difference between two plans of one case: a launcher should repeat its plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from grader.plan import model
from grader.plan.model import Alloc, Launch, Plan, Specialisation, Step, View, value_of
from grader.plan.rules import change_of, repeats

MOST_STEPS = 60  # printed; the rest is counted
MOST_ITEMS = 8  # printed of a tuple


@dataclass(frozen=True)
class Line:
    """One line of a plan: a verb, its target, and the place in the file that asks for it."""

    verb: str
    target: str
    place: str = ""


def lines(plan: Plan, names: Sequence[str], file: str, starts: Sequence[int] = ()) -> list[Line]:
    """The first call of a plan step by step, and how the second one differs.

    `names` are those of the entry's arguments; `file` is the submission's. `starts` are the bytes
    of each argument's buffer before its first element, 0 by default.
    """
    known = Names(plan, names, file, starts)
    shown = list(_lines_of(plan.calls[0], known))
    if not repeats(plan):
        shown.append(Line("again", "a second call with the same arguments does this instead:"))
        shown += list(_lines_of(plan.calls[1], known)) or [Line("", "nothing at all")]
    return shown


def summary(plan: Plan, names: Sequence[str], file: str) -> str:
    """One sentence: 'allocates 4,096 bytes and launches silu_kernel on 512 programs'."""
    known = Names(plan, names, file)
    allocated = sum(
        plan.buffers[step.buffer].bytes for step in plan.calls[0] if isinstance(step, model.Alloc)
    )
    parts = [f"allocates {_bytes(allocated)}"] if allocated else []
    launches = plan.launches
    if launches:
        shown = [f"{known.kernel(each)} on {known.grid(each)}" for each in launches[:3]]
        more = f" and {len(launches) - 3} more kernels" if len(launches) > 3 else ""
        parts.append(f"launches {', '.join(shown)}{more}")
    asked = []
    for kind, verb in (
        (model.Copy, "copies"),
        (model.Upload, "uploads"),
        (model.HostOp | model.Foreign, "torch operations"),
    ):
        if count := sum(isinstance(step, kind) for step in plan.calls[0]):
            asked.append(_count(count, verb))
    if asked:
        parts.append(f"asks for {_listed(asked)}")
    return _listed(parts) or "asks nothing of the device"


def _listed(parts: Sequence[str]) -> str:
    """'a', 'a and b' or 'a, b, and c'."""
    if len(parts) < 3:
        return " and ".join(parts)
    return f"{', '.join(parts[:-1])}, and {parts[-1]}"


def _count(number: int, plural: str) -> str:
    """A number and its noun: '1 copy', '2 copies'."""
    singular = {"copies": "copy"}.get(plural, plural.removesuffix("s"))
    return f"{number:,} {singular if number == 1 else plural}"


class Names:
    """A student's names of the buffers, kernels and arguments of one plan."""

    def __init__(
        self, plan: Plan, arguments: Sequence[str], file: str, starts: Sequence[int] = ()
    ) -> None:
        """`arguments`, `file` and `starts` are as in `lines`."""
        self.plan = plan
        self.file = file
        self._arguments = arguments
        self._starts = starts

    def buffer(self, number: int) -> str:
        """The argument that lies in a buffer, or the buffer by its own name or number."""
        buffer = self.plan.buffers[number]
        if buffer.argument is not None and buffer.argument < len(self._arguments):
            return self._arguments[buffer.argument]
        return buffer.name or f"buffer {number}"

    def view(self, view: View) -> str:
        """'x (4 x 8, float32)'."""
        shape = " x ".join(map(str, view.shape)) or "1 element"
        return f"{self.buffer(view.buffer)} ({shape}, {view.dtype})"

    def kernel(self, launch: Launch) -> str:
        kernel = self.plan.specialisations[launch.specialisation]
        return kernel.kernel if isinstance(kernel, model.KernelName) else kernel.function

    def grid(self, launch: Launch) -> str:
        """'4 x 8 programs'."""
        extents = [extent for extent in launch.grid if extent != 1] or [1]
        shape = " x ".join(f"{extent:,}" for extent in extents)
        noun = "program" if self.plan.language == "triton" else "block"
        return f"{shape} {noun}{'s' * (extents != [1])}"

    def argument(self, argument: model.Argument) -> str:
        """An argument of a Triton kernel, by a name or value that a student knows."""
        if isinstance(argument, model.PointerArgument):
            number, offset = argument.pointer
            place = self.plan.buffers[number].argument
            if place is not None and place < len(self._starts):
                offset -= self._starts[place]
            return self.buffer(number) + (f" {offset:+,} bytes" if offset else "")
        if isinstance(argument, model.DescriptorArgument):
            block = " x ".join(map(str, argument.descriptor.block))
            return f"descriptor of {self.buffer(argument.descriptor.buffer)}, blocks of {block}"
        value = value_of(argument)
        return f"{value:g}" if argument.type[0] in "fb" else str(value)


def _lines_of(call: Sequence[Step], names: Names) -> Iterator[Line]:
    """A line for each step of a call, the first MOST_STEPS of them."""
    for step in call[:MOST_STEPS]:
        verb, target = described(step, names)
        line = getattr(step, "line", 0)
        yield Line(verb, target, f"{names.file}:{line}" if line else "")
    if len(call) > MOST_STEPS:
        yield Line("", f"and {len(call) - MOST_STEPS:,} more steps")


def described(step: Step, names: Names) -> tuple[str, str]:
    """A step as a verb and its target: ("launch", "silu_kernel on 1 program: x, out")."""
    match step:
        case model.Alloc():
            buffer = names.plan.buffers[step.buffer]
            kind = "" if buffer.kind == "device" else f" of {buffer.kind} memory"
            return "allocate", f"{names.buffer(step.buffer)}, {_bytes(buffer.bytes)}{kind}"
        case model.Free():
            return "free", names.buffer(step.buffer)
        case model.Fill():
            return "fill", f"{names.view(step.to)} with {step.value}"
        case model.Copy():
            change = change_of(step)
            effect = f": it {change}" if change else ""
            return "copy", f"{names.view(step.source)} to {names.view(step.to)}{effect}"
        case model.Upload():
            size = _bytes(step.to.elements * step.to.itemsize)
            return "upload", f"{size} from the host to {names.buffer(step.to.buffer)}"
        case Launch():
            return "try" if step.trial >= 0 else "launch", _launched(step, names)
        case model.Record():
            return "record", f"event {step.event} on stream {step.stream}"
        case model.Wait():
            return "wait", f"stream {step.stream} for event {step.event}"
        case model.Synchronise():
            of_one = f"stream {step.stream}" if step.stream is not None else f"event {step.event}"
            is_whole = step.stream is None and step.event is None
            return "wait", f"the host, for {'the whole device' if is_whole else of_one}"
        case model.HostOp():
            outputs = ", ".join(map(names.view, step.outputs))
            return "torch", f"{step.operation.removeprefix('aten::')} to {outputs} (allowed here)"
        case model.Foreign():
            outputs = ", ".join(map(names.view, step.outputs)) or "the host"
            name = step.operation.removeprefix("aten::")
            return "torch", f"{name} to {outputs}; it is not run: no kernel of yours did it"
        case model.Readback():
            return "read", f"{_bytes(step.bytes)} of the device; the host gets no data"
        case model.Refused():
            return "refused", f"{step.kernel}: {step.error}, {step.why}"


def _launched(step: Launch, names: Names) -> str:
    """'silu_kernel on 1 program: x, out; BLOCK=1024, 4 warps'."""
    given = [names.argument(each) for each in step.arguments]
    given += [names.buffer(number) for _, number, _ in step.pointers]
    how = [f"{step.shared:,} bytes of shared memory"] if step.shared else []
    if step.block:
        threads = " x ".join(str(extent) for extent in step.block if extent != 1) or "1"
        how.insert(0, f"{threads} threads each")
    named = names.plan.specialisations[step.specialisation]
    if isinstance(named, model.Specialisation):
        how += [f"{name}={literal(value)}" for name, value in named.constants.items()]
        how += [f"{named.options['num_warps']} warps"] if "num_warps" in named.options else []
    if step.cooperative:
        how.append("cooperative")
    if step.stream:
        how.append(f"stream {step.stream}")
    launched = f"{names.kernel(step)} on {names.grid(step)}: {', '.join(given)}"
    return f"{launched}; {', '.join(how)}" if how else launched


def literal(value: object) -> str:
    """A constant as a student wrote it, shortened: '(1, 2)' for a tuple, 'fp32' for a type."""
    if not isinstance(value, dict):
        return str(value)
    items = value.get("tuple")
    if isinstance(items, list):
        shown = [literal(each) for each in items[:MOST_ITEMS]]
        shown += ["..."] if len(items) > MOST_ITEMS else []
        return f"({', '.join(shown)}{',' if len(items) == 1 else ''})"
    kernel = value.get("kernel")
    if isinstance(kernel, dict) and isinstance(kernel.get("function"), str):
        return str(kernel["function"])
    return str(value.get("float", value.get("dtype", value.get("layout", "a value"))))


def _bytes(count: int) -> str:
    return f"{count:,} byte{'s' * (count != 1)}"


_LONGEST = 120  # characters of a step
_VERBS = {
    "allocate": "allocates",
    "free": "frees",
    "fill": "fills",
    "copy": "copies",
    "upload": "uploads",
    "launch": "launches",
    "try": "tries",
    "record": "records",
    "wait": "waits:",
    "torch": "has torch compute",
    "read": "reads",
    "refused": "is refused",
}


def difference(first: Plan, again: Plan, names: Sequence[str] = (), file: str = "") -> str:
    """The first difference, with both values and its line; "" where there is none.

    'silu.py:16 launches k with BLOCK=256 in one plan and BLOCK=512 in another of the same case'.
    `names` are those of the entry's arguments, `file` is the submission's.
    """
    one, other = Names(first, names, file), Names(again, names, file)
    for before, after in zip(first.calls, again.calls, strict=False):
        for step, instead in zip_longest(before, after):
            if step != instead or _kernel(first, step) != _kernel(again, instead):
                return _between(one, step, other, instead)
            if isinstance(step, Alloc):
                sizes = [plan.buffers[step.buffer].bytes for plan in (first, again)]
                if sizes[0] != sizes[1]:
                    return _said(one, step, "allocates", *(f"{size:,} bytes" for size in sizes))
    if len(first.calls) != len(again.calls):
        return "a second call is in one plan and not in another of the same case"
    if first.specialisations != again.specialisations:
        return "the kernels' constants or options are others in another plan of the same case"
    if first.buffers != again.buffers:
        return "the memory that is allocated is another in another plan of the same case"
    return ""


def _kernel(plan: Plan, step: Step | None) -> Any:
    return plan.specialisations[step.specialisation] if isinstance(step, Launch) else None


def _between(one: Names, step: Step | None, other: Names, instead: Step | None) -> str:
    """The difference between two steps at one place; None stands for no step."""
    if step is None or instead is None:
        names, only = (one, step) if step is not None else (other, instead)
        if only is None:
            return ""
        return f"{_subject(names, only)} {_does(names, only)} in one plan of a case only"
    if isinstance(step, Launch) and isinstance(instead, Launch):
        kernel, replaced = one.kernel(step), other.kernel(instead)
        if kernel != replaced:
            return _said(one, step, "launches", kernel, replaced)
        for how, value, changed in _of_launches(one, step, other, instead):
            if value != changed:
                return _said(one, step, f"launches {kernel} {how}", value, changed)
    verb, target = described(step, one)
    other_verb, changed = described(instead, other)
    if verb == other_verb and target != changed:
        return _said(one, step, _VERBS[verb], target[:_LONGEST], changed[:_LONGEST])
    return _said(one, step, "", _does(one, step), _does(other, instead))


def _of_launches(
    one: Names, step: Launch, other: Names, instead: Launch
) -> Iterator[tuple[str, str, str]]:
    """(words before the value, value, value in the other plan) of two launches of a kernel."""
    kernel = one.plan.specialisations[step.specialisation]
    replaced = other.plan.specialisations[instead.specialisation]
    if isinstance(kernel, Specialisation) and isinstance(replaced, Specialisation):
        for name, value, changed in (
            *_pairs(kernel.constants, replaced.constants),
            *_pairs(kernel.options, replaced.options),
        ):
            yield "with", _set(name, value), _set(name, changed)
    yield "on", one.grid(step), other.grid(instead)
    parameters = [
        name
        for name, kind in getattr(kernel, "signature", {}).items()
        if kind != "constexpr" and not isinstance(kind, dict)
    ]
    if len(parameters) == len(step.arguments) == len(instead.arguments):
        for name, given, changed in zip(parameters, step.arguments, instead.arguments, strict=True):
            yield "with", f"{name}={one.argument(given)}", f"{name}={other.argument(changed)}"
    yield "on", f"stream {step.stream}", f"stream {instead.stream}"


def _pairs(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(name, value, value in the other mapping), with None for a missing value."""
    for name in {**one, **other}:
        yield name, one.get(name), other.get(name)


def _set(name: str, value: Any) -> str:
    return f"{name}={literal(value)}"


def _said(names: Names, step: Step, does: str, value: str, changed: str) -> str:
    subject = " ".join(filter(None, (_subject(names, step), does, value)))
    return f"{subject} in one plan and {changed} in another of the same case"


def _subject(names: Names, step: Step) -> str:
    """The line that asks for a step, if one does: freeing memory has none."""
    line = getattr(step, "line", 0)
    return f"{names.file}:{line}" if line and names.file else "the launcher"


def _does(names: Names, step: Step) -> str:
    verb, target = described(step, names)
    return f"{_VERBS[verb]} {target[:_LONGEST]}"
