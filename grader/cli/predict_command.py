"""`grader predict`: the questions to answer before the code is written, and answers.yaml."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from grader.cli.console import known_names, refuse, right_exercises, tell, write
from grader.grading import predictions
from grader.grading.submitted import contents, expect_folder
from grader.spec import Exercise
from grader.spec.predictions import ANSWERS, STUDENT, Question, asked, drawn, form_mistake


def command(
    name: Annotated[
        str | None, typer.Argument(help="An exercise: rmsnorm; all of them if none is given.")
    ] = None,
    submission: Annotated[
        Path, typer.Option(help="The folder whose answers.yaml gets the answers.")
    ] = Path("assignment"),
    student: Annotated[
        str | None, typer.Option(help="Your name, from which the numbers are drawn.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the questions only.")] = False,
) -> None:
    """Ask an exercise's questions before its code is written; answers.yaml keeps the answers.

    There is no answer key: which answers are right is checked when the class is graded.
    """
    exercises = right_exercises()
    names = known_names(exercises, [name] if name else None) or list(exercises)
    expect_folder(submission)
    asking = [exercises[each] for each in names if each in exercises]
    asking = [each for each in asking if each.predictions is not None]
    if not asking:
        wanted = "expected an exercise that asks questions"
        refuse(f"{name}: {wanted}, this one has none" if name else f"{wanted}, there is none")
    path = submission / ANSWERS
    try:
        who = _student(path, student, show)
        for exercise in asking:
            tell(f"{exercise.name}: {exercise.title}", "bold")
            _ask(exercise, path, who, show)
    except typer.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        tell("")
        refuse(
            "grader predict asks for each answer, and standard input has ended: run it in a "
            "terminal, or see the questions with --show --student NAME and write the answers into "
            f"{path}"
        )
    if not show:
        tell(_state(path, asking))


def _state(path: Path, asking: Sequence[Exercise]) -> str:
    """How many of the questions have an answer, and what becomes of it."""
    questions = [
        (each.name, key)
        for each in asking
        if each.predictions
        for key in each.predictions.questions
    ]
    answered = sum(bool(_answers(path, name).get(key)) for name, key in questions)
    return f"{answered} of {len(questions)} answered, in {path}; checked when the class is graded"


def _student(path: Path, given: str | None, show: bool) -> str:
    """The student's name: the file's, else the one given, which the file gets."""
    known = _parsed(path).get(STUDENT)
    if known is not None:
        try:
            name = predictions.student_of({STUDENT: known})
        except ValueError as error:
            refuse(f"{path}: {error}")
        if given is not None and given.split() != name.split():
            refuse(f"--student: expected {name!r}, whose answers are in {path}; got {given!r}")
        return name
    if given is None and show:
        refuse("--show: expected --student NAME, from which the numbers are drawn")
    try:
        name = predictions.student_of({STUDENT: given or typer.prompt("Your name in the course")})
    except ValueError as error:
        refuse(f"--student: {error}")
    if not show:
        text = f"{STUDENT}: {json.dumps(name, ensure_ascii=False)}\n"
        _write(path, text + _text(path), {STUDENT: name, **_parsed(path)})
    return name


def _ask(exercise: Exercise, path: Path, student: str, show: bool) -> None:
    assert exercise.predictions is not None
    for key, question in exercise.predictions.questions.items():
        text = asked(question, drawn(exercise.name, key, question, student))
        tell(f"  {key}: {text}{_wanted(question)}")
        known = _answers(path, exercise.name).get(key)
        if known is not None:
            mistake = form_mistake(question, known)
            tell(f"    in {path}: {known}{f' ({mistake})' if mistake else ''}")
        elif not show and (given := _given(question)):
            _add(path, exercise.name, key, given)


def _wanted(question: Question) -> str:
    if question.choices:
        return f" ({' or '.join(question.choices)})"
    return f" (in {question.unit})" if question.unit else ""


def _given(question: Question) -> str:
    """An answer of the right form; "" where Enter alone leaves the question open."""
    while True:
        given: str = typer.prompt("    your answer", default="", show_default=False).strip()
        mistake = form_mistake(question, given) if given else ""
        if not mistake:
            return given
        tell(f"    {mistake}", "red")


# --- the file, whose lines all stay ---------------------------------------------------------------


def _text(path: Path) -> str:
    data = contents(path) if path.exists() else b""
    if isinstance(data, str):
        refuse(f"{path}: {data}")
    return data.decode("utf-8", "replace")


def _parsed(path: Path) -> dict[str, Any]:
    text = _text(path)
    try:
        return predictions.parsed(text.encode()) if text.strip() else {}
    except ValueError as error:
        refuse(f"{path}: {error}")


def _answers(path: Path, exercise: str) -> dict[str, Any]:
    """The file's answers to one exercise."""
    mine = _parsed(path).get(exercise)
    return mine if isinstance(mine, dict) else {}


def _add(path: Path, exercise: str, key: str, given: str) -> None:
    """Write one more answer: at the end of the exercise's lines, or of the file."""
    wanted = {**_parsed(path), exercise: {**_answers(path, exercise), key: given}}
    _write(path, with_answer(_text(path), exercise, key, given), wanted)


def with_answer(text: str, exercise: str, key: str, given: str) -> str:
    """The file's text with a line more; no other line changes."""
    value = given if re.fullmatch(r"[\w.+-]+", given) else json.dumps(given, ensure_ascii=False)
    text = text if not text or text.endswith("\n") else f"{text}\n"
    lines = text.splitlines(keepends=True)
    heads = (n for n, line in enumerate(lines) if re.match(rf"{exercise}:\s*(#.*)?$", line))
    head = next(heads, None)
    if head is None:
        return f"{text}{exercise}:\n  {key}: {value}\n"
    last, indent = head, "  "
    for number in range(head + 1, len(lines)):
        if not lines[number].startswith(" "):
            break
        if lines[number].strip() and not lines[number].lstrip().startswith("#"):
            last = number
            indent = re.match(" *", lines[number])[0]  # type: ignore[index]
    return "".join([*lines[: last + 1], f"{indent}{key}: {value}\n", *lines[last + 1 :]])


def _write(path: Path, text: str, wanted: dict[str, Any]) -> None:
    """Write the text if it says what is wanted, and nothing else."""
    try:
        is_right = predictions.parsed(text.encode()) == wanted
    except ValueError:
        is_right = False
    if not is_right:
        refuse(f"{path}: expected a line for each answer below its exercise: add this one by hand")
    write(path, text)
