"""A plan in words, as a student would like to read it.

silu(x, out) asks for, with n=1024 dtype=float32:
  launch  silu_kernel on 1 program: x, out, 1024; BLOCK=1024, 4 warps      silu.py:22
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatchmethod

from grader.plan.model import (
    Alloc,
    Argument,
    Copy,
    DescriptorArgument,
    Fill,
    Foreign,
    Free,
    HostOp,
    KernelName,
    Launch,
    Plan,
    PointerArgument,
    Readback,
    Record,
    Refused,
    ScalarArgument,
    Specialisation,
    Step,
    Synchronise,
    Upload,
    View,
    Wait,
)
from grader.plan.rules import change_of, repeats
from grader.plan.scalars import value_of

MOST_STEPS = 60  # shown; the rest is counted
MOST_ITEMS = 8  # of a tuple, shown


@dataclass(frozen=True)
class Line:
    """One line of a plan: what is done, in how many words, and where in the file."""

    verb: str
    what: str
    place: str = ""


def lines(plan: Plan, names: Sequence[str], file: str, starts: Sequence[int] = ()) -> list[Line]:
    """The first call of a plan, step by step, and what the second one does differently.

    `names` are those of the entry's arguments; `file` is the submission's. `starts` are the bytes
    of each argument's buffer before its first element, 0 where none are given.
    """
    words = Words(plan, names, file, starts)
    shown = list(words.of_call(plan.calls[0]))
    if not repeats(plan):
        shown.append(Line("again", "a second call with the same arguments does this instead:"))
        shown += list(words.of_call(plan.calls[1])) or [Line("", "nothing at all")]
    return shown


def summary(plan: Plan, names: Sequence[str], file: str) -> str:
    """One sentence: 'allocates 4,096 bytes and launches silu_kernel on 512 programs'."""
    words = Words(plan, names, file)
    allocated = sum(
        plan.buffers[step.buffer].bytes for step in plan.calls[0] if isinstance(step, Alloc)
    )
    parts = [f"allocates {_bytes(allocated)}"] if allocated else []
    launches = plan.launches
    if launches:
        told = [f"{words.kernel(each)} on {words.grid(each)}" for each in launches[:3]]
        more = f" and {len(launches) - 3} more kernels" if len(launches) > 3 else ""
        parts.append(f"launches {', '.join(told)}{more}")
    asked = []
    for kind, verb in (
        (Copy, "copies"),
        (Upload, "uploads"),
        (HostOp | Foreign, "torch operations"),
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


class Words:
    """The words for the steps of one plan."""

    def __init__(
        self, plan: Plan, names: Sequence[str], file: str, starts: Sequence[int] = ()
    ) -> None:
        self.plan = plan
        self.names = names
        self.file = file
        self.starts = dict(enumerate(starts))

    def of_call(self, call: Sequence[Step]) -> Iterator[Line]:
        for step in call[:MOST_STEPS]:
            verb, what = self.words(step)
            line = getattr(step, "line", 0)
            yield Line(verb, what, f"{self.file}:{line}" if line else "")
        if len(call) > MOST_STEPS:
            yield Line("", f"and {len(call) - MOST_STEPS:,} more steps")

    def buffer(self, number: int) -> str:
        buffer = self.plan.buffers[number]
        if buffer.argument is not None and buffer.argument < len(self.names):
            return self.names[buffer.argument]
        return buffer.name or f"buffer {number}"

    def view(self, view: View) -> str:
        shape = " x ".join(map(str, view.shape)) or "1 element"
        return f"{self.buffer(view.buffer)} ({shape}, {view.dtype})"

    def kernel(self, launch: Launch) -> str:
        named = self.plan.specialisations[launch.specialisation]
        return named.kernel if isinstance(named, KernelName) else named.function

    def grid(self, launch: Launch) -> str:
        extents = [extent for extent in launch.grid if extent != 1] or [1]
        shape = " x ".join(f"{extent:,}" for extent in extents)
        noun = "program" if self.plan.language == "triton" else "block"
        return f"{shape} {noun}{'s' * (extents != [1])}"

    @singledispatchmethod
    def words(self, step: Step) -> tuple[str, str]:
        raise TypeError(f"no words for {type(step).__name__}")

    @words.register
    def _(self, step: Alloc) -> tuple[str, str]:
        buffer = self.plan.buffers[step.buffer]
        kind = "" if buffer.kind == "device" else f" of {buffer.kind} memory"
        return "allocate", f"{self.buffer(step.buffer)}, {_bytes(buffer.bytes)}{kind}"

    @words.register
    def _(self, step: Free) -> tuple[str, str]:
        return "free", self.buffer(step.buffer)

    @words.register
    def _(self, step: Fill) -> tuple[str, str]:
        return "fill", f"{self.view(step.to)} with {step.value}"

    @words.register
    def _(self, step: Copy) -> tuple[str, str]:
        change = change_of(step)
        told = f": it {change}" if change else ""
        return "copy", f"{self.view(step.source)} to {self.view(step.to)}{told}"

    @words.register
    def _(self, step: Upload) -> tuple[str, str]:
        size = step.to.elements * step.to.itemsize
        return "upload", f"{_bytes(size)} from the host to {self.buffer(step.to.buffer)}"

    @words.register
    def _(self, step: Launch) -> tuple[str, str]:
        given = [self.argument(each) for each in step.arguments]
        given += [self.buffer(number) for _, number, _ in step.pointers]
        how = [f"{step.shared:,} bytes of shared memory"] if step.shared else []
        if step.block:
            threads = " x ".join(str(extent) for extent in step.block if extent != 1) or "1"
            how.insert(0, f"{threads} threads each")
        named = self.plan.specialisations[step.specialisation]
        if isinstance(named, Specialisation):
            how += [f"{name}={literal(value)}" for name, value in named.constants.items()]
            how += [f"{named.options['num_warps']} warps"] if "num_warps" in named.options else []
        if step.cooperative:
            how.append("cooperative")
        if step.stream:
            how.append(f"stream {step.stream}")
        what = f"{self.kernel(step)} on {self.grid(step)}: {', '.join(given)}"
        return "try" if step.trial >= 0 else "launch", "; ".join(
            [what, ", ".join(how)][: 1 + bool(how)]
        )

    @words.register
    def _(self, step: Record) -> tuple[str, str]:
        return "record", f"event {step.event} on stream {step.stream}"

    @words.register
    def _(self, step: Wait) -> tuple[str, str]:
        return "wait", f"stream {step.stream} for event {step.event}"

    @words.register
    def _(self, step: Synchronise) -> tuple[str, str]:
        return "wait", "the host, for the whole device"

    @words.register
    def _(self, step: HostOp) -> tuple[str, str]:
        outputs = ", ".join(map(self.view, step.outputs))
        return "torch", f"{step.operation.removeprefix('aten::')} to {outputs} (allowed here)"

    @words.register
    def _(self, step: Foreign) -> tuple[str, str]:
        outputs = ", ".join(map(self.view, step.outputs)) or "the host"
        name = step.operation.removeprefix("aten::")
        return "torch", f"{name} to {outputs}; it is not run: no kernel of yours did it"

    @words.register
    def _(self, step: Readback) -> tuple[str, str]:
        return "read", f"{_bytes(step.bytes)} of the device; the host gets no data"

    @words.register
    def _(self, step: Refused) -> tuple[str, str]:
        return "refused", f"{step.kernel}: {step.error}, {step.why}"

    def argument(self, argument: Argument) -> str:
        """An argument of a Triton kernel, by the name or the value that a student knows."""
        if isinstance(argument, PointerArgument):
            number, offset = argument.pointer
            offset -= self.starts.get(self.plan.buffers[number].argument, 0)
            return self.buffer(number) + (f" {offset:+,} bytes" if offset else "")
        if isinstance(argument, DescriptorArgument):
            block = " x ".join(map(str, argument.descriptor.block))
            return f"descriptor of {self.buffer(argument.descriptor.buffer)}, blocks of {block}"
        assert isinstance(argument, ScalarArgument)
        return f"{value_of(argument):g}" if argument.type[0] in "fb" else str(value_of(argument))


def literal(value: object) -> str:
    """A constant as a student wrote it, shortened: '(1, 2)' of a tuple, 'fp32' of a type."""
    if not isinstance(value, dict):
        return str(value)
    items = value.get("tuple")
    if isinstance(items, list):
        told = [literal(each) for each in items[:MOST_ITEMS]]
        told += ["..."] if len(items) > MOST_ITEMS else []
        return f"({', '.join(told)}{',' if len(items) == 1 else ''})"
    kernel = value.get("kernel")
    if isinstance(kernel, dict) and isinstance(kernel.get("function"), str):
        return kernel["function"]
    return str(value.get("float", value.get("dtype", value.get("layout", "a value"))))


def _bytes(count: int) -> str:
    return f"{count:,} byte{'s' * (count != 1)}"
