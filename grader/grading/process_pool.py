"""A pool of the grader's own processes, which work side by side: on tasks, or on hand-ins.

    with Pool(jobs=2) as pool:
        future = pool.submit(function, *arguments, on_message=on_step)

`function`, its arguments and its result are pickled. The processes are trusted: a submission's code
runs only in the sandboxes that they start. They are forked by multiprocessing's fork server, which
has imported the grader and does nothing else, since this process may have threads.

Ctrl-C reaches this process only, which then stops the others. They call what was given to `at_end`
when they are stopped, and when this process is gone, however it ended. A process that is killed
costs its own task and is replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from multiprocessing import connection, forkserver, util
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import pebble

from grader.sandbox import processes

Lost = pebble.ProcessExpired  # a future's exception where its process was killed

T = TypeVar("T")

MOST_BY_DEFAULT, MOST_BY_DEFAULT_ON_GPU = 4, 16
CORES_TO_TIME = 2  # for each GPU: of whoever times there, and of the worker that is timed
GPU_BYTES_EACH = 3 << 30  # a context of its own, its worker's, and the tensors of both
PRELOADED = ["grader.grading.preloaded"]
# The environment of a pool's processes, which are many on a GPU: one queue of work to it each, not
# eight. Where sixteen start at once, that makes it 0.6 s until each is ready and not 2.2 (H100).
# Workers have eight: with one, a stream that nobody waits for would be waited for.
ONE_QUEUE = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
_LONGEST_MESSAGE = 2048  # bytes; a pipe takes as many at once or none, whoever else writes
_FIRST = 100  # of multiprocessing's own clean-up, which is called from the highest number down

_writer: Connection | None = None  # in a process of the pool, to the one that made it
_number = 0  # of the task that it works on


def default_jobs(gpu_bytes: int = 0, gpus: int = 1) -> int:
    """As many as there are cores to use, up to four: each needs some 1.5 GB of memory.

    Up to sixteen for each of some `gpus` that have `gpu_bytes`, if they fit there: most of the time
    is the compiler's, and machines with a GPU have the memory. Some cores stay free for the clock.
    """
    cores, most = len(os.sched_getaffinity(0)), MOST_BY_DEFAULT
    if gpu_bytes:
        cores -= CORES_TO_TIME * gpus
        most = gpus * min(MOST_BY_DEFAULT_ON_GPU, gpu_bytes // GPU_BYTES_EACH)
    return max(1, min(cores, most))


def expect() -> None:
    """Begin to start the fork server of pools, which imports for seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()


def unheard(message: Any) -> None:
    """What gets messages that nobody wants."""


class Pool:
    """A context manager; what hasn't run when it ends is cancelled, what runs is stopped.

    The futures of both are done by then: cancelled.
    """

    def __init__(self, jobs: int) -> None:
        """`jobs` processes, started with the first task."""
        # Unless its parent's end is noticed, a sandbox's processes would come to nobody.
        processes.adopt_orphans()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._reader, self._to_us = context.Pipe(duplex=False)
        self._pool = pebble.ProcessPool(
            jobs, initializer=_begin, initargs=(self._to_us,), context=context
        )
        self._numbers = count(1)
        self._on_message: dict[int, Callable[[Any], None]] = {}
        self._unfinished: set[Future[Any]] = set()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        # Stopped without this, the futures of what runs are broken, or never done.
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
        """Have a process call `function(*arguments)`; `on_message` gets what it tells meanwhile.

        `on_message` is called in another thread. The future's exception is what the function
        raised, or Lost where its process was killed.
        """
        number = next(self._numbers)
        # It stays: a message may arrive after the result.
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
            self._on_message[number](message)


def tell(message: Any) -> None:
    """In a process of a pool: tell whoever submitted the task. What is too long is left out."""
    data = pickle.dumps((_number, message))
    if _writer is not None and len(data) <= _LONGEST_MESSAGE:
        _writer.send_bytes(data)


def at_end(function: Callable[[], None]) -> util.Finalize:
    """In a process of a pool: have `function` called before it ends, unless it is killed.

    What is returned has `cancel`, after which it isn't.
    """
    return util.Finalize(None, function, exitpriority=_FIRST)


def _begin(writer: Connection) -> None:
    global _writer
    _writer = writer
    os.environ.update(ONE_QUEUE)
    threading.Thread(target=_follow_our_maker, daemon=True).start()


def _follow_our_maker() -> None:
    """End when the process is gone that made the pool; the fork server, our parent, is not it."""
    maker = multiprocessing.parent_process()
    assert maker is not None  # a process of a pool has one
    connection.wait([maker.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _call(number: int, function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    global _number
    _number = number
    return function(*arguments)
