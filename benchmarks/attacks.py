"""Attacks on graders, and the layers that stop each: `make attacks`.

Prints a table of attacks by layers: every attack of tests/submissions/attacks under each layer that
it names, with the others off, and under all of them. A tick is a stopped attack; a dash, a layer
that doesn't apply. Exit status 1 when one was missed. Times are wall seconds.

    python benchmarks/attacks.py [NAME ...] [--jobs N]
    python benchmarks/attacks.py --show NAME            the file that is handed in
"""

from __future__ import annotations

import argparse
import multiprocessing
import queue
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from tests.support import attacking, attacks  # noqa: E402
from tests.support.attacking import Result  # noqa: E402
from tests.support.attacks import Attack  # noqa: E402
from tests.support.canaries import Machine  # noqa: E402

Row = dict[str, Result]  # by column; "all" has every layer on
PATIENCE_SECONDS = 300.0  # for one attack under all its layers


def main() -> int:
    """Run and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of attacks; none: all of them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="print their files and run none")
    given = parser.parse_args()
    started = time.monotonic()
    chosen = [each for each in attacks.load() if not given.names or each.name in given.names]
    unknown = {*given.names} - {each.name for each in chosen}
    if unknown or not chosen:
        parser.error(f"no attack called {', '.join(sorted(unknown))}")
    if given.show:
        for attack in chosen:
            sys.stdout.buffer.write(attack.source.encode("utf-8", "surrogateescape"))
        return 0
    console = Console(width=None if sys.stdout.isatty() else 160)
    rows, differences = _run([each.name for each in chosen], given.jobs, console)
    console.print(_table([each for each in chosen if each.name in rows], rows))
    for each in differences:
        console.print(f"[red]{each}[/]", highlight=False)
    missed = sum(not result.held for row in rows.values() for result in row.values())
    console.print(_summary(rows, missed, time.monotonic() - started))
    return 1 if missed or differences or len(rows) < len(chosen) else 0


def _run(names: list[str], jobs: int, console: Console) -> tuple[dict[str, Row], list[str]]:
    """A row for each attack, as they come; and lasting changes of the machine."""
    # Each process is a grader of its own and inherits no other's.
    context = multiprocessing.get_context("spawn")
    waiting, done = context.Queue(), context.Queue()
    for name in [*names, *[None] * jobs]:
        waiting.put(name)
    graders = [context.Process(target=_work, args=(waiting, done)) for _ in range(jobs)]
    for grader in graders:
        grader.start()
    rows: dict[str, Row] = {}
    differences: list[str] = []
    ended = 0
    while ended < jobs:
        try:
            name, told = done.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            differences.append("nothing came of an attack: its grader is hung, or gone")
            break
        if name is None:
            ended += 1
            differences += told
            continue
        rows[name] = told
        for column, result in told.items():
            for trouble in result.troubles:
                console.print(f"[red]{name}, {column}:[/] {trouble}", highlight=False)
    for grader in graders:
        grader.join(timeout=PATIENCE_SECONDS if ended == jobs else 0)
        grader.kill()
    return rows, differences


def _work(waiting: Any, done: Any) -> None:
    """One grader: processes names until there are no more."""
    with Machine() as machine:
        for name in iter(waiting.get, None):
            done.put((name, _row(name)))
        attacking.end_neighbours()
    done.put((None, machine.differences))


def _row(name: str) -> Row:
    attack = next(each for each in attacks.load() if each.name == name)
    row = {
        label: attacking.run(attack, layer, level)
        for label, layer, level in attacks.columns()
        if layer in attack.layers
    }
    row["all"] = attacking.run_all(attack)
    return row


def _table(chosen: list[Attack], rows: dict[str, Row]) -> Table:
    table = Table(header_style="bold")
    table.add_column("attack")
    table.add_column("with every layer on")
    labels = [label for label, _, _ in attacks.columns()]
    for label in labels:
        table.add_column(label, justify="center")
    for attack in chosen:
        row = rows[attack.name]
        cells = [_cell(row.get(label)) for label in labels]
        all_on = row["all"]
        status = all_on.status.value if all_on.status else ""
        table.add_row(attack.name, status if all_on.held else f"[red]{status} MISSED[/]", *cells)
    return table


def _cell(result: Result | None) -> str:
    if result is None:
        return "[dim]–[/]"
    if result.skipped:
        return "[yellow]skipped[/]"
    return "[green]✓[/]" if result.held else "[red]MISSED[/]"


def _summary(rows: dict[str, Row], missed: int, seconds: float) -> str:
    every = [(label, each) for row in rows.values() for label, each in row.items()]
    reasons = sorted({each.skipped for _, each in every if each.skipped})
    held = sum(each.held and not each.skipped for label, each in every if label != "all")
    lines = [f"{len(rows)} attacks, held {held} times by single layers; {missed} missed."]
    lines += [f"Not tried: {reason}." for reason in reasons]
    return "\n".join([*lines, f"{seconds:.0f} s"])


if __name__ == "__main__":
    sys.exit(main())
