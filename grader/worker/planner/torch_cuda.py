"""torch.cuda of the course's GPU for launchers, without the GPU.

Streams and events are noted in the plan; waits return at once; there are no times.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import fake_tensors
from .errors import Unsupported
from .notes import note

# Of an H100, unless `see` is called.
PROPERTIES = types.SimpleNamespace(
    name="NVIDIA H100 80GB HBM3",
    major=9,
    minor=0,
    multi_processor_count=132,
    warp_size=32,
    total_memory=80 << 30,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    shared_memory_per_block=49_152,
    shared_memory_per_block_optin=232_448,
    shared_memory_per_multiprocessor=233_472,
    regs_per_multiprocessor=65_536,
    L2_cache_size=50 << 20,
    is_integrated=0,
    is_multi_gpu_board=0,
    gcnArchName="",
    clock_rate=1_980_000,
    memory_clock_rate=2_619_000,
    memory_bus_width=5120,
    uuid="00000000-0000-0000-0000-000000000000",
)


def see(gpu: dict[str, Any]) -> None:
    """Take the properties of another GPU: the fields of HostGpu in grader/gpu/kinds.py."""
    major, minor = divmod(gpu["capability"], 10)
    vars(PROPERTIES).update(
        name=gpu["name"],
        major=major,
        minor=minor,
        multi_processor_count=gpu["multiprocessors"],
        total_memory=gpu["memory_bytes"],
        max_threads_per_multi_processor=gpu["threads"],
        shared_memory_per_block_optin=gpu["shared_optin"],
        shared_memory_per_multiprocessor=gpu["shared_bytes"],
        L2_cache_size=gpu["l2_bytes"],
        clock_rate=gpu["clock_khz"],
        memory_clock_rate=gpu["memory_clock_khz"],
        memory_bus_width=gpu["bus_bits"],
    )


def _add(do: str, **fields: Any) -> None:
    if fake_tensors.recorder is not None:
        fake_tensors.recorder.steps.add(do, **fields)


class Event:
    """An event: recordings and waits are noted in the plan."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.number, self._owner = 0, fake_tensors.recorder  # the recorder of the number
        if self._owner is not None:
            self.number = self._owner.events
            self._owner.events += 1
        self.cuda_event = 0
        self.device = torch.device("cuda", 0)

    def record(self, stream: Stream | None = None) -> None:
        """Note that the event follows the current work of a stream."""
        recorder = fake_tensors.recorder
        if recorder is None:
            return
        recorder.note_owner(self._owner)
        recorder.recorded.add(self.number)
        _add("record", event=self.number, stream=_number(stream))

    def wait(self, stream: Stream | None = None) -> None:
        """Note that a stream waits for the event, unless it wasn't recorded."""
        recorder = fake_tensors.recorder
        if recorder is not None and self.number in recorder.recorded:
            recorder.note_owner(self._owner)
            _add("wait", event=self.number, stream=_number(stream))

    def synchronize(self) -> None:
        """Note that the host waits for the event, unless it wasn't recorded."""
        recorder = fake_tensors.recorder
        if recorder is not None and self.number in recorder.recorded:
            recorder.note_owner(self._owner)
            _add("synchronise", event=self.number)

    def query(self) -> bool:
        """True, as at the end of a loop that asks until it is: so the host has waited."""
        self.synchronize()
        return True

    def elapsed_time(self, other: Event) -> float:
        """One millisecond, so that a quotient can be printed: plans have no times."""
        note("torch.cuda.Event.elapsed_time")
        return 1.0


class Stream:
    """A stream: a number in the plan. A context manager, as torch.cuda.stream's result is."""

    def __init__(self, *_: Any, number: int | None = None, **__: Any) -> None:
        recorder = fake_tensors.recorder
        self._owner = None  # the Recorder of its number
        if number is None:
            number = 0 if recorder is None else recorder.streams
            if recorder is not None:
                self._owner = recorder
                recorder.streams += 1
        self.number = self.stream_id = self.cuda_stream = number
        self.device_index, self.device_type = 0, 1
        self.device = torch.device("cuda", 0)
        self._outer: list[int] = []

    def __enter__(self) -> Stream:
        if fake_tensors.recorder is not None:
            self._outer.append(fake_tensors.recorder.steps.stream)
            self.make_current()
        return self

    def __exit__(self, *_: object) -> None:
        if self._outer:
            fake_tensors.active_recorder().steps.stream = self._outer.pop()

    def make_current(self) -> None:
        """Make launches go to this stream."""
        recorder = fake_tensors.active_recorder()
        recorder.note_owner(self._owner)
        recorder.steps.stream = self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.number == self.number

    def __hash__(self) -> int:
        return hash(self.number)

    def record_event(self, event: Event | None = None) -> Event:
        """An event that follows this stream's current work."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Note that this stream waits for an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Note that this stream waits for another stream's current work."""
        self.wait_event(stream.record_event())

    def synchronize(self) -> None:
        """Note that the host waits for the stream."""
        if fake_tensors.recorder is not None:
            _add("synchronise", stream=_number(self))

    def query(self) -> bool:
        """True, as at the end of a loop that asks until it is: so the host has waited."""
        self.synchronize()
        return True


def _number(stream: Stream | None) -> int:
    recorder = fake_tensors.active_recorder()
    if stream is None:
        return recorder.steps.stream
    recorder.note_owner(stream._owner)
    return stream.number


def current_stream(device: Any = None) -> Stream:
    """The stream of launches."""
    recorder = fake_tensors.recorder
    return Stream(number=0 if recorder is None else recorder.steps.stream)


class _Context:
    """A context manager and decorator that changes nothing: there is one device."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> _Context:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


class device(_Context):
    """torch.cuda.device."""


class device_of(_Context):
    """torch.cuda.device_of."""


def stream(chosen: Stream | None) -> Any:
    """torch.cuda.stream: launches in its block are on a stream."""
    return _Context() if chosen is None else chosen


def set_stream(chosen: Stream) -> None:
    """torch.cuda.set_stream."""
    if fake_tensors.recorder is not None:
        chosen.make_current()


def record_stream(tensor: torch.Tensor, chosen: Stream) -> None:
    """torch.Tensor.record_stream, which says when memory may be used again: a plan's never is."""
    if not isinstance(chosen, Stream):
        raise TypeError(f"Tensor.record_stream takes a stream, not {type(chosen).__name__}")


def synchronize(device: Any = None) -> None:
    """torch.cuda.synchronize."""
    _add("synchronise")


def nvidia_smi(attributes: Sequence[str]) -> list[int]:
    """triton.testing.nvsmi, for launchers that estimate times."""
    known = _nvidia_smi()
    missing = [each for each in attributes if each not in known]
    if missing:
        part = f"what nvidia-smi says of {missing[0][:60]}"
        raise Unsupported(part, "let the launcher do without it")
    return [known[each] for each in attributes]


def _answer(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _asked(value: Callable[[], Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: value()


def _refused(name: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        raise Unsupported(name)

    return refused


_ANSWERS = {
    "is_available": True, "device_count": 1, "current_device": 0, "is_initialized": True,
    "get_device_properties": PROPERTIES,
    "is_bf16_supported": True, "is_current_stream_capturing": False,
    "can_device_access_peer": False,
    "init": None, "_lazy_init": None, "set_device": None, "empty_cache": None, "ipc_collect": None,
    "manual_seed": None, "manual_seed_all": None, "seed": None, "seed_all": None, "initial_seed": 0,
    "reset_peak_memory_stats": None, "reset_max_memory_allocated": None, "memory_stats": {},
    "max_memory_allocated": 0, "memory_allocated": 0, "memory_reserved": 0,
    "max_memory_reserved": 0, "utilization": 0, "_is_in_bad_fork": False,
}  # fmt: skip
_OF_THE_GPU: dict[str, Callable[[], Any]] = {
    "get_device_name": lambda: PROPERTIES.name,
    "get_device_capability": lambda: (PROPERTIES.major, PROPERTIES.minor),
    "mem_get_info": lambda: (PROPERTIES.total_memory, PROPERTIES.total_memory),
    "get_arch_list": lambda: [f"sm_{PROPERTIES.major}{PROPERTIES.minor}"],
    "clock_rate": lambda: PROPERTIES.clock_rate // 1000,
}


def _nvidia_smi() -> dict[str, int]:
    """The output of `nvidia-smi --query-gpu`, in its units; clocks are the highest."""
    clocks = {
        f"clocks.{when}{unit}": clock // 1000
        for when in ("", "current.", "max.")
        for units, clock in (
            (("sm", "graphics", "gr"), PROPERTIES.clock_rate),
            (("memory", "mem"), PROPERTIES.memory_clock_rate),
        )
        for unit in units
    }
    return {**clocks, "memory.total": PROPERTIES.total_memory >> 20}


_REFUSED = (
    *("CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle"),
    *("_sleep", "cudart", "ExternalStream", "current_blas_handle"),
)
_OF_ANY_DEVICE = {  # torch.accelerator
    "is_available": True, "device_count": 1, "current_device_index": 0, "current_device_idx": 0,
    "current_accelerator": torch.device("cuda"), "set_device_index": None, "set_device_idx": None,
    "empty_cache": None,
}  # fmt: skip


def install() -> None:
    """Replace torch.cuda's functions by these, for the rest of the process."""
    cuda: Any = torch.cuda
    answers = {name: _answer(value) for name, value in _ANSWERS.items()}
    answers |= {name: _asked(value) for name, value in _OF_THE_GPU.items()}
    for name, answer in answers.items():
        answer.__name__ = answer.__qualname__ = name
        answer.__module__ = "torch.cuda"
        setattr(cuda, name, answer)
    for name in _REFUSED:
        setattr(cuda, name, _refused(f"torch.cuda.{name}"))
    accelerator: Any = torch.accelerator
    for name, value in _OF_ANY_DEVICE.items():
        setattr(accelerator, name, _answer(value))
    accelerator.synchronize = synchronize
    accelerator.current_stream = current_stream
    accelerator.set_stream = set_stream
    for replacement in (Event, Stream, device, device_of, stream, set_stream, synchronize):
        setattr(cuda, replacement.__name__, replacement)
    # Of a generator with the seed 0 and no draws: seed and offset.
    cuda.get_rng_state = lambda device=None: torch.zeros(16, dtype=torch.uint8, device="cpu")
    cuda.set_rng_state = _answer(None)
    cuda._DeviceGuard = device
    cuda.current_stream = current_stream
    cuda.default_stream = lambda device=None: Stream(number=0)
    cuda.nvtx = types.SimpleNamespace(
        range_push=_answer(None), range_pop=_answer(None), mark=_answer(None), range=_Context
    )
    cuda.profiler = types.SimpleNamespace(start=_answer(None), stop=_answer(None), profile=_Context)
    tensors: Any = torch.Tensor
    tensors.record_stream = record_stream
    library: Any = torch._C
    # What torch.compile's programs use.
    library._cuda_getCurrentRawStream = lambda device=0: current_stream().number
    library._dynamo.guards._empty_strided_cuda = lambda size, stride, dtype: torch.empty_strided(
        size, stride, dtype=dtype, device="cuda"
    )
    torch.version.cuda = torch.version.cuda or "12.8"
