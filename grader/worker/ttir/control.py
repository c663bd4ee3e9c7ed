"""Functions, branches and loops, for programs that may diverge.

A region runs as a generator. It yields where a waiting program lets others go on; where programs
run in step (see executor.py) it never does.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from .errors import NESTED, LimitExceeded, MalformedIR, NeverEnds
from .ir import Block, Function, Op
from .poison import Poison, check, union
from .registry import Run, control_flow, operation, prepare
from .scanning import called_name
from .state import Frame, State

Steps = Generator[None, None, Any]
TURNS_BEFORE = 64  # of a loop, until it is asked whether anything changes
Pair = tuple[Any, Poison | None]


def run_block(state: State, frame: Frame, block: Block) -> Steps:
    """Execute the operations of a block."""
    state.execution.count(block, state.programs)
    values, poison = frame.values, frame.poison
    for op in block.ops:
        run = op.run or prepare(op)
        if op.runs_programs_apart:
            yield from run(state, frame)
        else:
            run(state, frame)
        for slot in op.dead:
            values[slot] = None
            if poison:
                poison.pop(slot, None)


def run_region(state: State, frame: Frame, block: Block) -> Generator[None, None, list[Pair]]:
    """Execute a region's block; returns the values that its last operation yields.

    An empty yield isn't written down.
    """
    yield from run_block(state, frame, block)
    if not block.ops or block.ops[-1].name not in ("scf.yield", "scf.condition"):
        return []
    return frame.take(block.ops[-1].operands)


def merged(chosen: np.ndarray, new: Pair, old: Pair) -> Pair:
    """The new value for chosen programs, the old one for others."""
    value, before = new[0], old[0]
    if before is None or value is before:
        result = value
    elif isinstance(value, np.ndarray):
        result = np.where(chosen.reshape(-1, *(1,) * (value.ndim - 1)), value, before)
    else:
        result = value.merged(chosen, before)
    if new[1] is old[1]:  # mostly None
        return result, new[1]
    rank = max(each[1].where.ndim for each in (new, old) if each[1] is not None)
    ones = chosen.reshape(-1, *(1,) * (rank - 1))
    return result, union([new[1] and new[1].under(ones), old[1] and old[1].under(~ones)])


def _all_merged(chosen: np.ndarray, new: Sequence[Pair], old: Sequence[Pair]) -> list[Pair]:
    return [merged(chosen, *each) for each in zip(new, old, strict=True)]


# --- functions ----------------------------------------------------------------------------------


def run_function(
    state: State, function: Function, arguments: Sequence[Pair]
) -> Generator[None, None, list[Pair]]:
    """Call a function; returns its values."""
    if state.depth > state.execution.limits.depth:
        raise LimitExceeded(NESTED, state.execution.limits.depth)
    frame = Frame(function)
    frame.put(function.arguments, arguments)
    state.depth += 1
    returned = yield from run_blocks(state, frame, function.blocks)
    state.depth -= 1
    return returned


def _last(block: Block) -> Op:
    if not block.ops:
        raise MalformedIR("a block without operations")
    return block.ops[-1]


def run_blocks(
    state: State, frame: Frame, blocks: Sequence[Block]
) -> Generator[None, None, list[Pair]]:
    """Run blocks in order, each for the programs that reach it; returns the function's values.

    Branches lead forwards only.
    """
    if len(blocks) == 1:
        yield from run_block(state, frame, blocks[0])
        return frame.take(_last(blocks[0]).operands)
    outer = state.active
    everyone = np.ones(state.programs, bool) if outer is None else outer
    waiting: dict[int, np.ndarray] = {0: everyone}
    returned: list[Pair] | None = None
    for number, block in enumerate(blocks):
        here = waiting.pop(number, None)
        if here is None or not here.any():
            continue
        state.active = None if here.all() else here
        yield from run_block(state, frame, block)
        last = _last(block)
        if last.name.endswith(".return"):
            values = frame.take(last.operands)
            returned = values if returned is None else _all_merged(here, values, returned)
        for chosen, (target, given) in zip(
            _ways(state, frame, last, here), last.successors, strict=True
        ):
            if target <= number:
                raise MalformedIR("a branch backwards")
            _arrive(frame, blocks[target].arguments, given, chosen, target in waiting)
            before = waiting.get(target)
            waiting[target] = chosen if before is None else before | chosen
    state.active = outer
    return returned or []


def _arrive(
    frame: Frame, slots: Sequence[int], given: Sequence[int], chosen: np.ndarray, again: bool
) -> None:
    """Pass a branch's values to a block, for the programs that take the branch."""
    new = frame.take(given)
    frame.put(slots, _all_merged(chosen, new, frame.take(slots)) if again else new)


def _ways(state: State, frame: Frame, last: Op, here: np.ndarray) -> list[np.ndarray]:
    """The programs that take each successor of a block."""
    if last.name == "cf.br":
        return [here]
    if last.name != "cf.cond_br":
        return []
    check(state, frame, last.operands[0], last)
    taken = np.broadcast_to(frame.values[last.operands[0]], here.shape)
    return [here & taken, here & ~taken]


@control_flow("tt.call")
def _call(op: Op) -> Run:
    name = called_name(op)

    def run(state: State, frame: Frame) -> Steps:
        function = state.execution.module.functions.get(name)
        if function is None or len(function.arguments) != len(op.operands):
            raise MalformedIR(f"a call of {name[:80]}")
        returned = yield from run_function(state, function, frame.take(op.operands))
        frame.put(op.results, returned)

    return run


@operation(
    "tt.return",
    "scf.yield",
    "scf.condition",
    "cf.br",
    "cf.cond_br",
    "tt.reduce.return",
    "tt.scan.return",
    "tt.map_elementwise.return",
)
def _end_of_block(op: Op) -> Run:
    """Nothing: the block's caller evaluates its last operation."""
    return lambda state, frame: None


# --- branches and loops -------------------------------------------------------------------------


def _only_block(op: Op, number: int) -> Block | None:
    if number >= len(op.regions):
        return None
    if len(op.regions[number]) != 1:
        raise MalformedIR(f"{op.name} with several blocks")
    return op.regions[number][0]


@control_flow("scf.if")
def _if(op: Op) -> Run:
    condition = op.operands[0]
    sides = [_only_block(op, 0), _only_block(op, 1)]

    def run(state: State, frame: Frame) -> Steps:
        if frame.poison:
            check(state, frame, condition, op)
        outer = state.active
        chosen = frame.values[condition]
        among = chosen if outer is None else np.broadcast_to(chosen, (state.programs,))[outer]
        first = bool(among[0])
        if (among == first).all():
            side = sides[0 if first else 1]
            if side is not None:
                values = yield from run_region(state, frame, side)
                frame.put(op.results, values)
            return
        chosen = np.broadcast_to(chosen, (state.programs,))
        both = []
        for side, taken in zip(sides, (chosen, ~chosen), strict=True):
            state.active = taken if outer is None else taken & outer
            if side is not None:
                both.append((yield from run_region(state, frame, side)))
        state.active = outer
        if op.results:
            frame.put(op.results, _all_merged(chosen, *both))

    return run


def _trips(low: np.ndarray, high: np.ndarray, step: np.ndarray, unsigned: bool) -> np.ndarray:
    """The number of a loop's iterations, as int64."""
    if unsigned:
        low, high, step = (
            each.view(each.dtype.str.replace("i", "u")) for each in (low, high, step)
        )
    if not (step > 0).all():
        raise MalformedIR("a loop whose step isn't positive")
    span = high.astype(np.int64) - low.astype(np.int64)
    return np.maximum(0, -(-span // step.astype(np.int64)))


@control_flow("scf.for")
def _for(op: Op) -> Run:
    block = _only_block(op, 0)
    assert block is not None
    bounds, initial = op.operands[:3], op.operands[3:]
    unsigned = op.attributes["unsigned"]

    def run(state: State, frame: Frame) -> Steps:
        for slot in bounds if frame.poison else ():
            check(state, frame, slot, op)
        low, high, step = (frame.values[slot] for slot in bounds)
        outer = state.active
        trips = _trips(low, high, step, unsigned)
        among = trips
        if outer is not None:
            among = np.broadcast_to(trips, (state.programs,))[outer]
        turns = int(among.max(initial=0))
        alike = bool((among == turns).all())
        if not alike:
            trips = np.broadcast_to(trips, (state.programs,))
        carried = frame.take(initial)
        index, names = block.arguments[:1], block.arguments[1:]
        for turn in range(turns):
            if not alike:
                going = turn < trips
                state.active = going if outer is None else going & outer
            now = (low + np.asarray(turn).astype(low.dtype) * step).astype(low.dtype)
            frame.put(index, [(now, None)])
            frame.put(names, carried)
            new = yield from run_region(state, frame, block)
            carried = (
                new if alike or state.active is None else _all_merged(state.active, new, carried)
            )
        state.active = outer
        frame.put(op.results, carried)

    return run


def _bytes_of(carried: Sequence[Pair]) -> list[bytes] | None:
    """What a loop carries from turn to turn; None where that isn't all numbers."""
    values = [value for value, _ in carried]
    return [v.tobytes() for v in values] if all(isinstance(v, np.ndarray) for v in values) else None


def _is_as(
    kept: tuple[int, list[bytes] | None, np.ndarray],
    state: State,
    carried: Sequence[Pair],
    going: np.ndarray,
) -> bool:
    """Whether a turn begins as an earlier one did, and no memory has changed since."""
    changes, values, earlier = kept
    if state.execution.interleaved:  # another program may change memory
        return False
    if values is None or changes != state.execution.changes or not np.array_equal(earlier, going):
        return False
    return all(
        value.tobytes() == before for (value, _), before in zip(carried, values, strict=True)
    )


@control_flow("scf.while")
def _while(op: Op) -> Run:
    before, after = _only_block(op, 0), _only_block(op, 1)
    assert before is not None and after is not None

    def run(state: State, frame: Frame) -> Steps:
        carried, result = frame.take(op.operands), None
        outer = state.active
        going = np.ones(state.programs, bool) if outer is None else outer
        turn, kept = 0, (-1, _bytes_of(carried), going)
        while True:
            state.active = None if going.all() else going
            frame.put(before.arguments, carried)
            turn += 1
            if turn & (turn - 1) == 0:
                kept = state.execution.changes, _bytes_of(carried), going
            elif turn > TURNS_BEFORE and _is_as(kept, state, carried, going):
                unchanged = "turns of a loop in which nothing changes"
                raise NeverEnds(unchanged, TURNS_BEFORE, op.line[1])
            passed = yield from run_region(state, frame, before)
            condition = before.ops[-1].operands[0]
            if frame.poison:
                check(state, frame, condition, before.ops[-1])
            passed = passed[1:]
            result = passed if result is None else _all_merged(going, passed, result)
            going = going & np.broadcast_to(frame.values[condition], going.shape)
            if not going.any():
                break
            state.active = None if going.all() else going
            frame.put(after.arguments, passed)
            new = yield from run_region(state, frame, after)
            earlier = carried
            carried = new if state.active is None else _all_merged(going, new, carried)
            if state.execution.interleaved:
                # Only a turn that changes nothing at all may be a wait without an end.
                state.execution.changes += _bytes_of(carried) != _bytes_of(earlier)
                yield
        state.active = outer
        frame.put(op.results, result)

    return run
