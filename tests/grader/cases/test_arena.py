"""The arena: seals that hold, guard zones, poison, and a judgement of nothing but a copy."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from grader.cases import arena as arena_module
from grader.cases.arena import (
    GUARD_BYTES,
    INPUTS,
    OUTPUTS,
    Arena,
    Outcome,
    Placed,
    Role,
    Slot,
    required_bytes,
)
from grader.worker import memory
from grader.worker.protocol import DType

FLOATS = ("float64", "float32", "float16", "bfloat16")
DTYPES = [each.name for each in DType]
ROOM = 64 << 20  # of a buffer; what isn't touched is no memory
PUNCH_A_HOLE = 3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, of fallocate(2)

libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def arena() -> Iterator[Arena]:
    with Arena(ROOM, ROOM) as opened:
        yield opened


def values_of(dtype: str, count: int) -> torch.Tensor:
    kind = getattr(torch, dtype)
    return torch.arange(count).remainder(2 if kind is torch.bool else 100).to(kind)


def filled(values: torch.Tensor | None) -> torch.Tensor:
    """Values that are there."""
    assert values is not None
    return values


def input_slot(dtype: str = "float32", count: int = 10, **more) -> Slot:
    return Slot("x", dtype, (count,), (1,), values=values_of(dtype, count), **more)


def output_slot(dtype: str = "float32", count: int = 10, **more) -> Slot:
    return Slot("out", dtype, (count,), (1,), role="output", **more)


def padded_slot(dtype: str = "float32", role: Role = "output") -> Slot:
    """3 rows of 5, 8 apart."""
    values = values_of(dtype, 15).reshape(3, 5) if role != "output" else None
    return Slot("out", dtype, (3, 5), (8, 1), role=role, values=values)


@contextlib.contextmanager
def mapped(arena: Arena) -> Iterator[list[memory.Buffer]]:
    """The buffers as a worker maps them."""
    yield [
        memory.map_buffer(os.dup(descriptor), length, writable)
        for descriptor, length, writable in arena.buffers
    ]


def seen(arena: Arena, placed: Placed) -> torch.Tensor:
    """What a worker sees of a tensor."""
    with mapped(arena) as buffers:
        return memory.view(placed.argument, memory.allocation(placed.argument, buffers))


def allocation_seen(arena: Arena, placed: Placed) -> torch.Tensor:
    with mapped(arena) as buffers:
        return memory.allocation(placed.argument, buffers)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


# --- seals -------------------------------------------------------------------------------------


def test_a_store_to_a_read_only_mapping_can_not_be_made_possible(arena: Arena) -> None:
    placed = arena.place([input_slot()])[0]
    with mapped(arena) as buffers:
        address, length = buffers[INPUTS].address, buffers[INPUTS].length
        made_writable = libc.mprotect(
            ctypes.c_void_p(address), ctypes.c_size_t(length), mmap.PROT_READ | mmap.PROT_WRITE
        )
        assert made_writable == -1
        assert ctypes.get_errno() == errno.EACCES
        with Path("/proc/self/mem").open("r+b", buffering=0) as own_memory:
            own_memory.seek(address + placed.argument.offset)
            with pytest.raises(OSError):
                own_memory.write(b"\0" * 8)
    assert torch.equal(seen(arena, placed), filled(placed.slot.values))


def test_inputs_can_not_be_written_through_their_descriptor(arena: Arena) -> None:
    descriptor, length, _ = arena.buffers[INPUTS]
    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"x", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(descriptor, length)
    assert libc.fallocate(descriptor, PUNCH_A_HOLE, ctypes.c_long(0), ctypes.c_long(4096)) == -1


def test_inputs_can_not_be_written_through_a_reopened_descriptor(arena: Arena) -> None:
    descriptor, length, _ = arena.buffers[INPUTS]
    try:
        again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
    except OSError:
        return  # not even that
    try:
        with pytest.raises(PermissionError):
            os.write(again, b"x")
        with pytest.raises(PermissionError):
            mmap.mmap(again, length)
    finally:
        os.close(again)


@pytest.mark.parametrize("buffer", [INPUTS, OUTPUTS])
def test_no_buffer_can_be_resized_or_unsealed(arena: Arena, buffer: int) -> None:
    descriptor, length, _ = arena.buffers[buffer]
    for size in (0, length - mmap.PAGESIZE, length + mmap.PAGESIZE):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, size)
    assert os.fstat(descriptor).st_size == length


def test_outputs_can_be_written_by_the_worker(arena: Arena) -> None:
    placed = arena.place([output_slot()])
    seen(arena, placed[0]).fill_(7)
    assert arena.collect(placed)[0].values.tolist() == [7.0] * 10


def test_closing_gives_the_memory_back() -> None:
    opened = Arena(3 << 20, 3 << 20)
    placed = opened.place([input_slot(), output_slot()])
    outcome = opened.collect(placed)[0]
    maps = Path("/proc/self/maps")
    there = maps.read_text().count("memfd:inputs")
    opened.close()
    assert maps.read_text().count("memfd:inputs") == there - 1
    assert outcome.values.shape == (10,)  # a copy: it outlives the arena


# --- layout ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_worker_sees_the_values_placed(arena: Arena, dtype: str) -> None:
    slot = input_slot(dtype, first=1)
    placed = arena.place([input_slot("int8", 3), slot, output_slot(dtype)])[1]
    assert torch.equal(seen(arena, placed), filled(slot.values))
    assert torch.equal(seen(arena, placed), filled(slot.values))  # and again


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inputs_writable", [False, True])
def test_a_padded_view_is_read_row_by_row(arena: Arena, dtype: str, inputs_writable: bool) -> None:
    slot = padded_slot(dtype, "input")
    placed = arena.place([slot], inputs_writable)[0]
    view = seen(arena, placed)
    assert view.stride() == (8, 1)
    assert torch.equal(view, filled(slot.values))


def test_allocations_are_aligned_and_an_offset_view_is_not(arena: Arena) -> None:
    slots = [input_slot("int8", 3), input_slot("float32"), input_slot("float32", first=1)]
    placed = [each.argument for each in arena.place(slots)]
    assert all(argument.allocation[0] % 256 == 0 for argument in placed)
    assert [argument.offset % 16 for argument in placed] == [0, 0, 4]


def test_tensors_lie_a_guard_zone_apart_on_both_sides(arena: Arena) -> None:
    slots = [input_slot("float16", 7), output_slot("int8", 1), padded_slot("float64")]
    placed = arena.place(slots, inputs_writable=True)
    end = 0
    for each in placed:
        start, length = each.argument.allocation
        assert start >= end, "allocations overlap"
        itemsize = getattr(torch, each.slot.dtype).itemsize
        assert each.argument.offset - start >= GUARD_BYTES
        last = each.argument.offset + each.slot.extent * itemsize
        assert start + length - last >= GUARD_BYTES
        end = start + length
    assert end <= required_bytes(slots)


def test_required_bytes_is_just_enough() -> None:
    slots = [output_slot(count=1000), output_slot("int8", 3)]
    need = required_bytes(slots)
    with Arena(0, need) as exact:
        assert len(exact.place(slots)) == 2
    with Arena(0, need - mmap.PAGESIZE) as small, pytest.raises(ValueError, match="bytes needed"):
        small.place(slots)


# --- poison and guard zones --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_lies_around_an_input_is_nan(arena: Arena, dtype: str) -> None:
    placed = arena.place([input_slot(dtype, first=1)])[0]
    around = allocation_seen(arena, placed).view(getattr(torch, dtype))
    assert int(around.isnan().count_nonzero()) == around.numel() - 10


@pytest.mark.parametrize("dtype", FLOATS)
def test_an_output_starts_as_nan_of_many_payloads(arena: Arena, dtype: str) -> None:
    placed = arena.place([output_slot(dtype, 4000)])[0]
    view = seen(arena, placed)
    assert bool(view.isnan().all())
    assert len(set(bits(view).reshape(4000, -1)[:, 0].tolist())) > 50


def test_poison_differs_from_run_to_run(arena: Arena) -> None:
    first, second = (filled(arena.place([output_slot()])[0].before) for _ in range(2))
    with Arena(ROOM, ROOM) as other:
        third = filled(other.place([output_slot()])[0].before)
    for one, another in ((first, second), (first, third), (second, third)):
        assert int(one.eq(another).count_nonzero()) < one.numel() / 64


def test_the_poison_of_all_arenas_is_drawn_once(arena: Arena) -> None:
    arena.place([output_slot()])
    drawn = dict(arena_module._NOISE._drawn)
    with Arena(ROOM, ROOM) as other:
        other.place([output_slot()])
    assert {key: id(each) for key, each in drawn.items()} == {
        key: id(each) for key, each in arena_module._NOISE._drawn.items()
    }


def test_a_boolean_output_starts_as_what_no_kernel_stores(arena: Arena) -> None:
    placed = arena.place([output_slot("bool", 4000)])[0]
    start = placed.argument.offset - placed.argument.allocation[0]
    assert int(filled(placed.before)[start : start + 4000].min()) > 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_untouched_output_is_unwritten_everywhere(arena: Arena, dtype: str) -> None:
    outcome = arena.collect(arena.place([output_slot(dtype)]))[0]
    assert bool(outcome.unwritten.all())
    assert not outcome.changed
    assert outcome.outside_count == 0


def test_a_nan_written_by_the_kernel_is_not_taken_for_poison(arena: Arena) -> None:
    placed = arena.place([output_slot()])
    seen(arena, placed[0])[3] = float("nan")
    assert arena.collect(placed)[0].unwritten.tolist() == [i != 3 for i in range(10)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("first", [0, 1])
def test_what_was_written_is_told_from_what_was_not(arena: Arena, dtype: str, first: int) -> None:
    placed = arena.place([output_slot(dtype, 64, first=first)])
    # The poison with every bit turned is sure to differ from it in every element.
    kind = getattr(torch, dtype)
    start = placed[0].argument.offset - placed[0].argument.allocation[0]
    view = allocation_seen(arena, placed[0])[start : start + 40 * kind.itemsize]
    view.bitwise_xor_(255)
    outcome = arena.collect(placed)[0]
    assert outcome.unwritten.tolist() == [False] * 40 + [True] * 24
    if dtype != "bool":  # of which torch keeps only whether it is 0
        assert torch.equal(bits(outcome.values[:40]), view)
    assert outcome.changed
    assert outcome.outside_count == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [-1, -50, 10, 11, 300])
def test_a_store_beside_the_view_is_seen_and_placed(arena: Arena, dtype: str, offset: int) -> None:
    placed = arena.place([output_slot(dtype, first=1)])
    itemsize = getattr(torch, dtype).itemsize
    at = placed[0].argument.offset - placed[0].argument.allocation[0] + offset * itemsize
    allocation_seen(arena, placed[0])[at] ^= 1  # one bit of one element
    outcome = arena.collect(placed)[0]
    assert (outcome.outside, outcome.outside_count) == ((offset,), 1)
    assert not outcome.changed


def test_a_scalar_is_judged_like_any_tensor(arena: Arena) -> None:
    slot = Slot("out", "float32", (), (), role="output")
    placed = arena.place([slot])
    assert bool(arena.collect(placed)[0].unwritten)
    seen(arena, placed[0]).fill_(2.0)
    outcome = arena.collect(placed)[0]
    assert (float(outcome.values), bool(outcome.unwritten), outcome.changed) == (2.0, False, True)


def test_poison_of_padded_rows_is_drawn_anew_for_every_element(arena: Arena) -> None:
    slot = Slot("out", "float32", (64, 60), (67, 1), role="output")
    first, second = (seen(arena, arena.place([slot])[0]).clone() for _ in range(2))
    assert len(set(first.view(torch.int32).flatten().tolist())) > 3800
    same = first.view(torch.int32) == second.view(torch.int32)
    assert int(same.count_nonzero()) < 60


def test_a_store_between_padded_rows_is_outside(arena: Arena) -> None:
    placed = arena.place([padded_slot()])
    view = seen(arena, placed[0])
    view.as_strided((3, 6), (8, 1)).fill_(1.0)  # one column too many
    outcome = arena.collect(placed)[0]
    assert outcome.outside == (5, 13, 21)
    assert outcome.values.tolist() == [[1.0] * 5] * 3
    assert outcome.values.is_contiguous()


def test_the_whole_guard_zone_is_watched(arena: Arena) -> None:
    placed = arena.place([output_slot(count=16)])
    allocation_seen(arena, placed[0]).bitwise_xor_(255)
    outcome = arena.collect(placed)[0]
    assert outcome.outside_count == placed[0].argument.allocation[1] // 4 - 16
    assert len(outcome.outside) == 1024
    assert outcome.outside[0] == -GUARD_BYTES // 4


def test_a_store_beside_one_tensor_is_not_laid_to_another(arena: Arena) -> None:
    placed = arena.place([output_slot(), output_slot(), output_slot()])
    seen(arena, placed[1]).as_strided((11,), (1,)).fill_(1.0)
    counts = [outcome.outside_count for outcome in arena.collect(placed)]
    assert counts == [0, 1, 0]


# --- judged from a copy ------------------------------------------------------------------------


def written(arena: Arena) -> tuple[Outcome, torch.Tensor]:
    placed = arena.place([output_slot()])
    view = seen(arena, placed[0])
    view.fill_(1.0)
    return arena.collect(placed)[0], view


def test_what_is_written_after_the_answer_changes_nothing(arena: Arena) -> None:
    outcome, view = written(arena)
    view.as_strided((20,), (1,)).fill_(2.0)
    assert outcome.values.tolist() == [1.0] * 10
    assert not outcome.unwritten.any()
    assert outcome.outside_count == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_leftovers_are_numbers_and_nobody_takes_one_for_unwritten(arena: Arena, dtype: str) -> None:
    placed = arena.place([output_slot(dtype)], leftovers=True)
    assert seen(arena, placed[0]).isfinite().all()
    outcome = arena.collect(placed)[0]
    assert not outcome.unwritten.any() and not outcome.changed


def test_leftovers_have_zeros_and_a_number_that_zeros_would_change(arena: Arena) -> None:
    held = [seen(arena, arena.place([output_slot()], leftovers=True)[0]).clone() for _ in range(20)]
    assert all(each.any() for each in held)
    assert any((each == 0).any() for each in held)


def test_what_was_written_and_its_values_are_taken_from_one_copy(arena: Arena, monkeypatch) -> None:
    """Else a worker could answer one of the two looks rightly and the other not."""
    placed = arena.place([output_slot()])
    view = seen(arena, placed[0])
    view[:5] = 1.0
    judge_copy = arena_module._outcome

    def after_a_late_store(item: Placed, before: torch.Tensor, copy: torch.Tensor) -> Outcome:
        view.fill_(2.0)
        return judge_copy(item, before, copy)

    monkeypatch.setattr(arena_module, "_outcome", after_a_late_store)
    outcome = arena.collect(placed)[0]
    assert outcome.values[:5].tolist() == [1.0] * 5
    assert outcome.unwritten.tolist() == [False] * 5 + [True] * 5


def test_the_verdict_is_not_compared_with_what_a_worker_could_reach(arena: Arena) -> None:
    """The state before the run is the grader's own memory, not bytes read back."""
    placed = arena.place([output_slot()])
    before = placed[0].before.clone()
    allocation_seen(arena, placed[0]).fill_(0)
    assert torch.equal(filled(placed[0].before), before)


def test_state_before_the_run_is_made_privately(arena: Arena, monkeypatch) -> None:
    """A worker that writes while the arena is filled can't make its bytes the state before."""
    view = seen(arena, arena.place([output_slot()])[0])
    shared = arena.memory.outputs
    original = torch.Tensor.copy_

    def interfere(self, *arguments, **named):
        result = original(self, *arguments, **named)
        if self.data_ptr() == shared.data_ptr():
            view.fill_(1.0)
        return result

    monkeypatch.setattr(torch.Tensor, "copy_", interfere)
    placed = arena.place([output_slot()])
    monkeypatch.undo()
    assert arena.collect(placed)[0].values.tolist() == [1.0] * 10
    assert not arena.collect(placed)[0].unwritten.any()


def test_inputs_are_judged_only_where_they_could_be_written(arena: Arena) -> None:
    slots = [input_slot(), output_slot()]
    assert [o.slot.name for o in arena.collect(arena.place(slots))] == ["out"]
    placed = arena.place(slots, inputs_writable=True)
    seen(arena, placed[0])[4] = 99.0
    outcomes = arena.collect(placed)
    assert [o.slot.name for o in outcomes] == ["x", "out"]
    assert outcomes[0].unwritten.tolist() == [i != 4 for i in range(10)]


def test_an_inout_starts_with_its_values_and_can_be_written(arena: Arena) -> None:
    slot = Slot("y", "float32", (10,), (1,), role="inout", values=values_of("float32", 10))
    placed = arena.place([slot])
    assert placed[0].argument.buffer == OUTPUTS
    view = seen(arena, placed[0])
    assert torch.equal(view, filled(slot.values))
    view[2] = -1.0
    outcome = arena.collect(placed)[0]
    assert outcome.values[2] == -1.0
    assert outcome.unwritten.tolist() == [i != 2 for i in range(10)]


# --- the worker's side -------------------------------------------------------------------------


def test_a_buffer_gives_no_bytes_beyond_its_end(arena: Arena) -> None:
    with mapped(arena) as buffers:
        buffer = buffers[OUTPUTS]
        assert buffer.bytes(buffer.length - 8, 8).numel() == 8
        for offset, length in ((buffer.length - 8, 9), (-1, 4), (0, 0), (0, buffer.length + 1)):
            with pytest.raises(ValueError, match="of a buffer of"):
                buffer.bytes(offset, length)


def test_memory_beside_a_mapped_buffer_is_inaccessible(arena: Arena) -> None:
    with mapped(arena) as buffers:
        for buffer in buffers:
            around = {
                buffer.address - 1,
                buffer.address - memory.MARGIN,
                buffer.address + buffer.length,
                buffer.address + buffer.length + memory.MARGIN - 1,
            }
            assert {_permissions(address) for address in around} == {"---"}


def test_only_allocations_are_accessible_to_a_kernel(arena: Arena) -> None:
    """Else what is read elsewhere is a harmless 0, and what is written there goes unseen."""
    with mapped(arena) as buffers:
        two, far_apart = [output_slot(), output_slot()], [output_slot(count=3 << 20), output_slot()]
        for slots in (
            [input_slot(), output_slot(), output_slot("int8")],
            [output_slot(count=9)],
            two,
            far_apart,  # the first reaches over where the second was
            two,
            [input_slot(count=1 << 16)],
        ):
            placed = [each.argument for each in arena.place(slots)]
            memory.expose(placed, buffers)
            for index, (buffer, usual) in enumerate(zip(buffers, ("r--", "rw-"), strict=True)):
                inside = [each.allocation for each in placed if each.buffer == index]
                edges = {0, buffer.length - 1}
                for start, length in inside:
                    edges |= {start, start + length - 1, start + length, max(start - 1, 0)}
                for edge in edges:
                    accessible = any(start <= edge < start + n for start, n in inside)
                    assert _permissions(buffer.address + edge) == (usual if accessible else "---")


def _permissions(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, permissions = line.split()[:2]
        start, end = (int(part, 16) for part in span.split("-"))
        if start <= address < end:
            return permissions[:3]
    return "unmapped"


def test_a_tensor_over_a_closed_arena_can_still_be_read():
    arena = Arena(8192, 8192)
    arena.memory.inputs.fill_(3)
    kept = arena.memory.inputs
    arena.close()
    assert int(kept.sum()) == 3 * len(kept)  # a fault would end this process
