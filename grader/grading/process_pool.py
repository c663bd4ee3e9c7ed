"""A pool of the grader's own processes, which work in parallel on tasks or on hand-ins.

    with Pool(jobs=2) as pool:
        future = pool.submit(function, *arguments, on_message=on_step)

`function`, its arguments and its result are pickled. The processes are trusted: a submission's code
runs only in the sandboxes that they start. They are forks of multiprocessing's fork server, which
has imported the grader and runs nothing else, whereas this process may have threads.

Ctrl-C reaches this process only, which then stops the others. Each closes its sandboxes when it is
stopped, and when this process is gone. A killed process costs its own task and is replaced.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from multiprocessing import connection, forkserver, util
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import RLock
from typing import Any, TypeVar

import pebble
from pebble.common import process_exit

from grader.sandbox import preloader, processes

Lost = pebble.ProcessExpired  # a future's exception where its process was killed

T = TypeVar("T")

MOST_BY_DEFAULT, MOST_BY_DEFAULT_ON_GPU = 4, 16
SHARE_OF_CORES = 0.7  # that have a process where there is a GPU: the others time kernels
GPU_BYTES_EACH = 3 << 30  # a context, its worker's context, and the tensors of both
PRELOADED = ["grader.grading.preloaded"]
# The environment of a pool's processes: one queue to the GPU each, instead of eight, which starts
# many processes faster. Workers keep eight: with one, unrelated streams would wait for each other.
ONE_QUEUE = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
_LONGEST_MESSAGE = 2048  # bytes, which a pipe with several writers takes atomically

_writer: Connection | None = None  # in a pool process: to the process that made the pool
_number = 0  # of its current task


def default_jobs(gpu_bytes: int = 0, gpus: int = 1) -> int:
    """The usable cores, at most four: each process needs some 1.5 GB of memory.

    With `gpus` of `gpu_bytes` each it is a share of the cores, and at most sixteen for each GPU as
    far as they fit there: such machines have the memory. A check and its compilers keep more than
    one core busy, and what times kernels beside them has cores of its own.
    """
    cores = len(os.sched_getaffinity(0))
    if not gpu_bytes:
        return min(cores, MOST_BY_DEFAULT)
    most = gpus * min(MOST_BY_DEFAULT_ON_GPU, gpu_bytes // GPU_BYTES_EACH)
    return max(1, min(round(SHARE_OF_CORES * cores), most))


def expect() -> None:
    """Begin to start what pools fork from, and their sandboxes: the imports take seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()
    preloader.begin()


def unheard(message: Any) -> None:
    """Ignore a message."""


class _LocksThatLast(ForkServerContext):
    """The fork server's context, which keeps its locks for as long as it is kept itself.

    A process opens them by name when it begins. The pool drops its own before it stops processes,
    and those that begin at that moment print a traceback for want of the name.
    """

    def __init__(self) -> None:
        super().__init__()
        self._locks: list[RLock] = []

    def RLock(self) -> RLock:
        self._locks.append(super().RLock())
        return self._locks[-1]


class Pool(contextlib.AbstractContextManager["Pool"]):
    """A process pool. Its exit cancels what hasn't run and stops what runs.

    All futures are then done, as cancelled.
    """

    def __init__(self, jobs: int) -> None:
        """Begin to start `jobs` processes, in a thread.

        Ctrl-C interrupts this one, and a process whose start is interrupted is one that nothing
        ends: the fork server makes it later, and it fails for want of what it was to share.
        """
        # Each process notices its parent's end, so that no sandbox outlives both.
        processes.adopt_orphans()
        context = self._context = _LocksThatLast()
        context.set_forkserver_preload(PRELOADED)
        self._reader, self._to_us = context.Pipe(duplex=False)
        self._pool = pebble.ProcessPool(
            jobs, initializer=_begin, initargs=(self._to_us, preloader.shared()), context=context
        )
        self._start = threading.Thread(target=self._start_all, daemon=True)
        self._start.start()
        self._numbers = count(1)
        self._on_message: dict[int, Callable[[Any], None]] = {}
        self._unfinished: set[Future[Any]] = set()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _start_all(self) -> None:
        """Have the processes started. What goes wrong does so again with the first task."""
        with contextlib.suppress(OSError, RuntimeError):
            _ = self._pool.active

    def __exit__(self, *_: object) -> None:
        self._start.join()
        # Otherwise the futures of stopped tasks are broken, or never done.
        for future in tuple(self._unfinished):
            future.cancel()
        self._pool.stop()  # type: ignore[no-untyped-call]  # pebble has no types for it
        self._pool.join()
        self._to_us.send_bytes(pickle.dumps((0, None)))
        self._listener.join()
        self._reader.close()
        self._to_us.close()

    def submit(
        self,
        function: Callable[..., T],
        *arguments: Any,
        on_message: Callable[[Any], None] = unheard,
    ) -> Future[T]:
        """Have a process call `function(*arguments)`; `on_message` gets what it sends by `tell`.

        `on_message` is called in another thread. The future's exception is what the function
        raised, or Lost where its process was killed.
        """
        self._start.join()
        number = next(self._numbers)
        # The callback stays registered: a message may arrive after the result. One that ignores
        # messages isn't: a server's pool has no end of tasks.
        if on_message is not unheard:
            self._on_message[number] = on_message
        future: Future[T] = self._pool.schedule(_call, (number, function, arguments))
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future

    def _listen(self) -> None:
        while True:
            number, message = pickle.loads(self._reader.recv_bytes())
            if not number:
                return
            self._on_message.get(number, unheard)(message)


def tell(message: Any) -> None:
    """Send a message to the submitter of this pool process's task, unless it is too long."""
    data = pickle.dumps((_number, message))
    if _writer is not None and len(data) <= _LONGEST_MESSAGE:
        _writer.send_bytes(data)


def _begin(writer: Connection, to_preloader: socket.socket | None) -> None:
    global _writer
    _writer = writer
    preloader.join(to_preloader)
    signal.signal(signal.SIGTERM, _end)
    os.environ.update(ONE_QUEUE)
    threading.Thread(target=_follow_our_maker, daemon=True).start()


def _end(signal_number: int, _: object) -> None:
    """End this process, unless it is ending: pebble's handler would cut its clean-up short."""
    if not util.is_exiting():
        process_exit(signal_number)


def _follow_our_maker() -> None:
    """End when the pool's maker is gone. The parent of this process is the fork server instead."""
    maker = multiprocessing.parent_process()
    assert maker is not None  # in a pool process
    connection.wait([maker.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _call(number: int, function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    global _number
    _number = number
    return function(*arguments)
