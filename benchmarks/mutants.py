"""How often does the message about a random small mistake show the line of the mistake?

A mutant is a right solution with other names and one random change: another name, operator or
number, a term or an argument left out, two names exchanged, a statement deleted. Whoever wrote the
diagnosis saw none, and there are as many as seeds. Passed over is a mutant that loses no point, and
one that doesn't compile, whose message is the compiler's. Each gets a line; the last one counts.

    python benchmarks/mutants.py [--count N] [--seed N] [--only EXERCISE/VARIANT]
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from grader.evidence import Failure  # noqa: E402
from grader.executors.source_text import SourceText, Token  # noqa: E402
from grader.grading.check import check_parts  # noqa: E402
from grader.grading.edits.edit_scope import WORDS  # noqa: E402
from grader.grading.session import Options, Session  # noqa: E402
from grader.spec.task import Task  # noqa: E402
from grader.status import Status  # noqa: E402
from tests.support import mistakes  # noqa: E402
from tests.support.planned import SPECS  # noqa: E402

OF_COMPILERS = frozenset({Status.compile_error, Status.import_error, Status.crashed})
TRIES = 30  # at a mutant that differs from its original
OPERATORS = ("+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "&", "&&", "||")
SWAPS = {
    "exp": "exp2", "max": "sum", "sum": "max", "maximum": "minimum", "fmaxf": "fminf",
    "rsqrt": "sqrt", "zeros": "ones", "row": "col", "x": "y", "float32": "float16",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A changed solution, and the line of the change."""

    text: str
    line: int
    what: str


def renamed(text: str, is_triton: bool, chance: random.Random) -> str:
    """The text with other names for some locals, so that no name is known."""
    assigned = re.findall(r"^[ \t]+(?:(?:const|int|float|size_t) )*([a-z]\w{2,}) = ", text, re.M)
    for name in sorted({*assigned}):
        if chance.random() < 0.5 and not re.search(rf"\.{name}\b|\b{name}=|{name}\(", text):
            text = re.sub(rf"\b{name}\b", f"{name[:2]}{chance.choice('abcxyz')}_{len(name)}", text)
    return text


def mutated(text: str, task: Task, chance: random.Random) -> Mutant | None:
    """One random change of a function that the entry reaches; None where none was made."""
    source = SourceText(text, task.variant.language == "triton")
    functions = source.reached(task.variant.entry)
    for _ in range(TRIES):
        tokens = source.tokens(chance.choice(functions))
        operation = chance.choice(OPERATIONS)
        made = operation(source, tokens, chance.randrange(1, max(2, len(tokens) - 2)), chance)
        if made is None or made[2] == text[made[0] : made[1]]:
            continue
        start, end, new = made
        changed = text[:start] + new + text[end:]
        what = f"{operation.__name__} {text[start:end][:50]!r} -> {new[:50]!r}"
        return Mutant(changed, source.line_at(start), what)
    return None


Made = tuple[int, int, str] | None


def other_name(_: SourceText, tokens: list[Token], at: int, chance: random.Random) -> Made:
    """A name for another one that stands on a line nearby."""
    token = tokens[at]
    near = [each.text for each in tokens if each.is_name and abs(each.line - token.line) < 4]
    near = [each for each in near if each not in WORDS]
    if not token.is_name or token.text in WORDS or not near:
        return None
    return token.start, token.end, SWAPS.get(token.text, chance.choice(near))


def other_operator(_: SourceText, tokens: list[Token], at: int, chance: random.Random) -> Made:
    """An operator for another one."""
    token = tokens[at]
    if token.text not in OPERATORS:
        return None
    return (
        token.start,
        token.end,
        chance.choice(OPERATORS[:6] if token.text in OPERATORS[:6] else OPERATORS[6:]),
    )


def other_number(_: SourceText, tokens: list[Token], at: int, chance: random.Random) -> Made:
    """A whole number that is off by one or by a factor."""
    token = tokens[at]
    if not token.text.isdigit():
        return None
    number = int(token.text)
    return token.start, token.end, str(chance.choice([number + 1, number * 2, number // 2, 0]))


def term_left_out(_: SourceText, tokens: list[Token], at: int, chance: random.Random) -> Made:
    """An operator and the name behind it."""
    token, behind = tokens[at], tokens[at + 1]
    following = tokens[at + 2].text
    if token.text not in OPERATORS[:6] or not behind.is_name or following in "([.":
        return None
    return token.start, behind.end, ""


def exchanged(source: SourceText, tokens: list[Token], at: int, chance: random.Random) -> Made:
    """Two names on both sides of a comma or an operator."""
    one, middle, other = tokens[at - 1], tokens[at], tokens[at + 1]
    if not (one.is_name and other.is_name and middle.text in (",", "/", "-", "<", "%", "//")):
        return None
    between = source.source[one.end : other.start]
    return one.start, other.end, other.text + between + one.text


def deleted(source: SourceText, tokens: list[Token], at: int, chance: random.Random) -> Made:
    """A whole statement on a line of its own, which defines no name for the first time."""
    line = tokens[at].line
    text = source.lines[line - 1]
    if not re.match(r"\s*(?:\w+(?:\[[^=]*\])? [-+*]= |__syncthreads|(\w+) = .*\b\1\b)", text):
        return None
    start = source.starts[line - 1]
    nothing = "pass" if source.is_triton else ";"
    return start, start + len(text), text[: len(text) - len(text.lstrip())] + nothing


def argument_left_out(
    source: SourceText, tokens: list[Token], at: int, chance: random.Random
) -> Made:
    """An argument by its name: a mask, an `other`, an axis."""
    match = re.compile(r", (?:mask|other|axis)=[^,()\n]+(?:\([^()\n]*\))?").search(
        source.code, tokens[at].start, tokens[at].start + 200
    )
    return (*match.span(), "") if match else None


OPERATIONS: tuple[Callable[[SourceText, list[Token], int, random.Random], Made], ...] = (
    other_name, other_name, other_operator, other_number, term_left_out, exchanged, deleted,
    argument_left_out,
)  # fmt: skip


def explained(text: str, task: Task) -> tuple[Failure | None, float]:
    """The first failure of a text, and the seconds of its check."""
    started = time.perf_counter()
    parts = [(dtype, size) for dtype in task.variant.dtypes for size in task.variant.size_classes]
    with TemporaryDirectory() as folder:
        (Path(folder) / task.variant.file).write_text(text, encoding="utf-8")
        with Session(Path(folder), SPECS, Options(device="cpu")) as session:
            checked = check_parts(session, task, parts)
    failures = [failure for part in checked for failure in part.failures]
    best = next((each for each in failures if each.cause), failures[0] if failures else None)
    return best, time.perf_counter() - started


def main() -> int:
    """Print a line for each mutant that is caught, then how many messages show its line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="EXERCISE/VARIANT")
    given = parser.parse_args()
    tasks = [
        Task(exercise, variant)
        for exercise in SPECS.values()
        for variant in exercise.variants.values()
        if given.only in f"{exercise.name}/{variant.name}"
        and variant.language in ("triton", "cuda")
        and "torch" not in variant.name
    ]
    verdicts: list[str] = []
    seconds: list[float] = []
    for seed in range(given.seed, given.seed + 4 * given.count):
        if len(verdicts) == given.count:
            break
        chance = random.Random(seed)
        task = chance.choice(tasks)
        original = mistakes.solution((mistakes.REFERENCE / task.variant.file).read_text("utf-8"))
        mutant = mutated(renamed(original, task.variant.language == "triton", chance), task, chance)
        if mutant is None:
            continue
        failure, spent = explained(mutant.text, task)
        if failure is None or failure.status in OF_COMPILERS:
            continue
        shown = [each.line for each in failure.code]
        verdict = "no cause"
        if failure.cause:
            verdict = "cause here" if mutant.line in shown else "cause elsewhere"
        elif mutant.line in shown or failure.where.endswith(f":{mutant.line}"):
            verdict = "line shown"
        verdicts.append(verdict)
        seconds.append(spent)
        print(f"{seed} {task.exercise.name}/{task.variant.name}:{mutant.line} {mutant.what}")
        print(
            f"    {verdict}, {spent:.1f} s: {failure.status}; {failure.cause} {shown}", flush=True
        )
    print({each: verdicts.count(each) for each in sorted({*verdicts})}, end=" ")
    print(f"median {statistics.median(seconds):.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
