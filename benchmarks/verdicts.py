"""Verdicts on the whole corpus as a file, and the differences of two such files.

Every submission under tests/submissions/{wrong,honest,attacks} is run as in the tests, without a
GPU; with --gpu, the wrong and honest ones of the GPU's tests run on one. OUT is JSON with one entry
for each submission: the status of every part, the memory status, the first line of the first
message, whether the tests' own check accepts it, and seconds. Submissions that OUT already has are
skipped, so an interrupted run can be continued.

    python benchmarks/verdicts.py OUT [--only TEXT]... [--jobs N] [--gpu] [--checkout FOLDER]
    python benchmarks/verdicts.py --compare OLD NEW [--messages]

`--checkout` names another working tree (of an older commit, for example), whose grader, tests and
corpus are used. `--compare` prints each submission whose statuses differ, with both statuses and
messages; `--messages` adds those where only the message differs. Its exit status is 1 where a
submission that the tests' check accepted in OLD is not accepted in NEW, or is missing there.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import multiprocessing.util
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, get_args

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 300  # for one submission, before it is recorded as an error

Record = dict[str, Any]  # one entry of the file
Records = dict[str, Record]  # by the name of the submission: "wrong/silu-no_mask"


def main() -> int:
    """Run or compare; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path, metavar="OUT")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"))
    parser.add_argument("--messages", action="store_true", help="compare messages too")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="only names with this text in them; of several texts, all",
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--gpu", action="store_true", help="run them on a GPU")
    given = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    if given.compare:
        old, new = (_read(path) for path in given.compare)
        return _print_comparison(old, new, given.messages, console)
    if given.out is None:
        parser.error("expected OUT, or --compare OLD NEW")
    use(given.checkout)
    every = submissions_on_a_gpu() if given.gpu else submissions()
    names = [name for name in every if all(text in name for text in given.only)]
    if not names:
        parser.error(f"no submission has {' and '.join(given.only)} in its name")
    return collect(names, given, console)


def use(checkout: Path) -> None:
    """Import `grader` and `tests` from `checkout`, in this process and its children."""
    folder = str(checkout.resolve())
    sys.path[:] = [folder, *(path for path in sys.path if path != folder)]
    os.environ["PYTHONPATH"] = folder
    import grader
    import tests

    for package in (grader, tests):
        place = Path(str(package.__file__)).resolve()
        if not place.is_relative_to(folder):
            raise SystemExit(f"{package.__name__}: expected it in {folder}, got {place}")


# --- running --------------------------------------------------------------------------------------


@functools.cache
def submissions() -> dict[str, Callable[[], Record]]:
    """The function that runs each submission, by name."""
    from grader.staff.calibration import corpus
    from tests.support import attacks

    runs: dict[str, Callable[[], Record]] = {}
    for kind in ("wrong", "honest"):
        for language in ("triton", "cuda"):
            for entry in corpus.load(kind, language):
                runs[f"{kind}/{entry.id}"] = functools.partial(_corpus_record, entry)
    for path in sorted(
        (Path(__file__).parents[1] / "tests" / "submissions" / "honest" / "styles").glob("*.py")
    ):
        runs[f"honest/styles/{path.stem}"] = functools.partial(_style_record, path)
    for attack in attacks.load():
        runs[f"attacks/{attack.name}"] = functools.partial(_attack_record, attack)
    return runs


@functools.cache
def submissions_on_a_gpu() -> dict[str, Callable[[], Record]]:
    """The same for a GPU, without what differs on a GPU, which isn't observed."""
    from importlib.metadata import version

    from grader.staff.calibration import corpus
    from tests.support import expected

    return {
        f"{kind}/{entry.id}": functools.partial(_corpus_record, entry, gpu=True)
        for kind in ("wrong", "honest")
        for language in ("triton", "cuda")
        for entry in corpus.load(kind, language)
        if not entry.only_observed and not expected.unnoticed_by(entry, version("triton"))
    }


def collect(names: list[str], given: argparse.Namespace, console: Console) -> int:
    """Run the missing ones of `names`, and write each record at once. The exit status."""
    out, jobs, checkout = given.out, given.jobs, given.checkout
    records = _read(out) if out.exists() else {}
    missing = [name for name in names if name not in records]
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[name]}"),
    )
    # Each process is a grader of its own and inherits no other's threads or sandbox.
    context = multiprocessing.get_context("spawn")
    with (
        Progress(*columns, console=console) as progress,
        ProcessPoolExecutor(jobs, context, initializer=use, initargs=(checkout,)) as pool,
    ):
        bar = progress.add_task("", total=len(names), completed=len(names) - len(missing), name="")
        futures = {pool.submit(record_of, name, given.gpu): name for name in missing}
        for future in as_completed(futures):
            name = futures[future]
            records[name] = future.result()
            _write(out, records)
            progress.update(bar, advance=1, name=name)
            if not records[name]["accepted"]:
                said = records[name]["error"] or records[name]["trouble"]
                progress.console.print(f"[red]{name}[/]: {_first_line(said)}", highlight=False)
    chosen = [records[name] for name in names]
    accepted = sum(record["accepted"] for record in chosen)
    seconds = sum(record["seconds"] for record in chosen)
    console.print(f"{accepted} of {len(chosen)} accepted by the tests' checks; {seconds:.0f} s")
    return 0


def record_of(name: str, gpu: bool = False) -> Record:
    """The record of one submission, in this process."""
    started = time.monotonic()
    texts = dict.fromkeys(("expected", "message", "where", "trouble", "error"), "")
    record: Record = {"parts": {}, "memory": None, "metrics": {}, "accepted": False, **texts}
    try:
        with _patience(PATIENCE_SECONDS):
            record.update((submissions_on_a_gpu() if gpu else submissions())[name]())
    except Exception as error:  # the others have to run all the same
        record["error"] = f"{type(error).__name__}: {error}"
    record["seconds"] = round(time.monotonic() - started, 2)
    return record


def _corpus_record(submission: Any, gpu: bool = False) -> Record:
    """An entry of wrong/*.yaml or honest/*.yaml."""
    from grader.gpu.devices import DeviceName
    from grader.status import Status
    from tests.grader.grading import test_cuda_submissions as cuda
    from tests.grader.grading import test_submissions as triton
    from tests.support import expected

    is_wrong = submission.kind == "wrong"
    with tempfile.TemporaryDirectory(prefix="warpgrade-verdicts-") as root:
        folder = Path(root) / "submission"
        if submission.language == "cuda":
            observed = cuda.observe(submission, folder, "gpu" if gpu else "emulator")
            check = functools.partial(
                cuda.check_wrong if is_wrong else cuda.check_honest, submission, observed, gpu=gpu
            )
        else:
            device: DeviceName = "cuda" if gpu else get_args(DeviceName)[0]
            observed = triton.observe(
                submission, folder, device, sandbox=_sandbox(), every_dtype=False
            )
            check = functools.partial(triton.check_honest, submission, observed)
            if is_wrong:
                check = functools.partial(triton.check_wrong, submission, observed, gpu=gpu)
    if submission.status is Status.not_attempted:  # it doesn't run, so no part can be checked
        check = functools.partial(_check_equal, observed.correctness.value, "not_attempted")
    return {
        **_described(observed.parts, observed.memory),
        "expected": expected.status_on(submission, gpu).value,
        **_checked(check),
    }


def _style_record(path: Path) -> Record:
    """A file of honest/styles: every part of its exercise's Triton variant."""
    from grader.gpu.devices import DeviceName
    from grader.grading.grade import grade_task
    from grader.grading.session import Options, Session
    from grader.spec.task import Task
    from tests.support import attacking

    exercise = attacking.EXERCISES[path.stem.split("_")[0]]
    with tempfile.TemporaryDirectory(prefix="warpgrade-verdicts-") as root:
        (Path(root) / f"{exercise.name}.py").write_bytes(path.read_bytes())
        with Session(
            Path(root),
            attacking.EXERCISES,
            Options(seed=attacking.SEED, device=get_args(DeviceName)[0], effort=attacking.BRIEF),
            sandbox=_sandbox(),
        ) as session:
            observed = grade_task(session, Task(exercise, exercise.variants["triton"]))
    check = functools.partial(_check_equal, observed.correctness.value, "passed")
    return {
        **_described(observed.parts, observed.memory),
        "expected": "passed",
        **_checked(check),
    }


def _attack_record(attack: Any) -> Record:
    """An attack with every layer on."""
    from tests.support import attacking

    _neighbours_end_with_this_process()
    result = attacking.run_all(attack)
    status = result.status.value if result.status else f"skipped: {result.skipped}"
    return {
        "expected": attack.status.value,
        "parts": {"float32 ragged": status},
        "message": _first_line(" ".join(result.troubles)),
        "accepted": result.held,
        "trouble": "; ".join(result.troubles),
    }


def _described(parts: tuple[Any, ...], memory: Any) -> Record:
    """The stored fields of the evidence on one variant."""
    failures = [failure for part in parts for failure in part.failures]
    reasons = [part.reason for part in parts if part.reason]
    if memory is not None and memory.reason:
        reasons.append(memory.reason)
    message = failures[0].what if failures else (reasons[0] if reasons else "")
    return {
        "parts": {f"{part.dtype} {part.size_class}": part.status.value for part in parts},
        "memory": memory.status.value if memory is not None else None,
        "metrics": {each.name: each.value for each in memory.metrics} if memory is not None else {},
        "message": _first_line(message),
        "where": failures[0].where if failures else "",
    }


def _checked(check: Callable[[], None]) -> Record:
    try:
        check()
    except AssertionError as error:
        return {"accepted": False, "trouble": str(error) or "the check failed, with no message"}
    return {"accepted": True, "trouble": ""}


def _check_equal(actual: str, expected: str) -> None:
    assert actual == expected, f"expected {expected}, got {actual}"


@functools.cache
def _sandbox() -> Any:
    """One sandbox for all of this process's Triton submissions, shared as in the tests."""
    from grader.gpu.devices import DeviceName
    from grader.sandbox import Sandbox

    without_gpu = get_args(DeviceName)[0]  # "interpreter" in older checkouts
    try:
        sandbox = Sandbox(without_gpu, kind="plans")
    except TypeError:  # a checkout in which kernels ran in Triton's interpreter
        sandbox = Sandbox(without_gpu)
    sandbox.start()
    multiprocessing.util.Finalize(None, sandbox.close, exitpriority=10)
    return sandbox


@functools.cache
def _neighbours_end_with_this_process() -> None:
    from tests.support import attacking

    multiprocessing.util.Finalize(None, attacking.end_neighbours, exitpriority=10)


@contextmanager
def _patience(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after `seconds`."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


# --- files, and how they differ -------------------------------------------------------------------


def differences(old: Records, new: Records, messages: bool = False) -> dict[str, tuple[str, ...]]:
    """The differences of two files, by submission: the fields' names, or "missing"."""
    fields = ["parts", "memory", "accepted", "error", *(["message", "where"] if messages else [])]
    result: dict[str, tuple[str, ...]] = {}
    for name, before in old.items():
        after = new.get(name)
        if after is None:
            result[name] = ("missing",)
        elif changed := tuple(field for field in fields if before[field] != after[field]):
            result[name] = changed
    return result


def worse(old: Records, new: Records) -> list[str]:
    """Submissions that the tests' checks accepted in `old` and not in `new`."""
    return [
        name
        for name, before in old.items()
        if before["accepted"] and not new.get(name, {"accepted": False})["accepted"]
    ]


def _print_comparison(old: Records, new: Records, messages: bool, console: Console) -> int:
    changed = differences(old, new, messages)
    for name in changed:
        console.print(f"[bold]{name}[/] (expected {old[name]['expected']})", highlight=False)
        for label, records in (("old", old), ("new", new)):
            for line in _shown(records.get(name)):
                console.print(f"  {label}  {line}", highlight=False, markup=False)
    lost = worse(old, new)
    added = new.keys() - old.keys()
    console.print(
        f"{len(changed)} of {len(old)} differ; {len(lost)} accepted only in the old file, "
        f"{len(worse(new, old)) - len(added)} only in the new one; {len(added)} are new"
    )
    for name in lost:
        console.print(f"  [red]worse[/]: {name}", highlight=False)
    return 1 if lost else 0


def _shown(record: Record | None) -> Iterator[str]:
    """A record in a few lines."""
    if record is None:
        yield "not in the file"
        return
    parts: dict[str, list[str]] = {}
    for part, status in record["parts"].items():
        parts.setdefault(status, []).append(part)
    memory = [f"memory: {record['memory']}"] if record["memory"] else []
    told = [f"{status}: {', '.join(names)}" for status, names in parts.items()]
    yield f"{'accepted' if record['accepted'] else 'NOT accepted'}; {'; '.join([*told, *memory])}"
    if record["message"]:
        yield f"    {record['where']} {record['message']}".rstrip()
    if record["error"]:
        yield f"    error: {_first_line(record['error'])}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]


def _read(path: Path) -> Records:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, records: Records) -> None:
    """Replace the file atomically."""
    partial = path.with_name(f"{path.name}.part")
    partial.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    raise SystemExit(main())
