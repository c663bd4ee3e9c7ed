"""The command line. Exit status: 0 grading finished, whatever the score; 1 `check` found a failure;
2 the command line or a spec is wrong; 3 the grader itself failed; 130 it was interrupted."""

from __future__ import annotations

import errno
import functools
import importlib
import inspect
import itertools
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.main
from pydantic import ValidationError
from typer.core import TyperGroup

from grader import __version__, packages, report
from grader import evidence as evidence_files
from grader.cases import Case
from grader.cli.console import (
    FAILED,
    INTERRUPTED,
    USAGE,
    WRONG,
    CourseOption,
    EvidenceOption,
    GpusOption,
    GradescopeOption,
    HtmlOption,
    JobsOption,
    JsonOption,
    JunitOption,
    NameArgument,
    OnlyOption,
    choose_course,
    console,
    errors,
    expect_no_name,
    have_oracles,
    known_names,
    middling_case,
    parsed_case,
    progress,
    refuse,
    right_exercises,
    show,
    step_in_words,
    tell,
    the_course,
    usual_submission,
    writable,
    write,
)
from grader.evidence import VariantEvidence
from grader.gpu import machine
from grader.gpu.locks import choose, visible
from grader.grading import predictions, process_pool
from grader.grading.check import check_case, check_memory
from grader.grading.grade import expect_files, grade_task
from grader.grading.grade import grade as grade_submission
from grader.grading.session import PUBLIC_SEED, Options, Progress, Session, Step, selected
from grader.mistakes import Mistake
from grader.report import narrow
from grader.scoring.score import score_variant
from grader.spec import Memory
from grader.spec.task import Task
from grader.status import Status

if TYPE_CHECKING:  # typer has a copy of click, under a private name
    from typer._click import Command, Context

# Commands that other modules hold, imported when one of them is asked for or help is.
_ELSEWHERE = {
    "bench": "grader.cli.bench_command:command",
    "predict": "grader.cli.predict_command:command",
    "plan": "grader.cli.plan_command:command",
    "inspect": "grader.cli.inspect_command:command",
    "visualize": "grader.cli.visualize_command:command",
    "profile": "grader.cli.profile_command:command",
    # BEGIN STAFF
    "batch": "grader.cli.class_commands:grade_class",
    "rescore": "grader.cli.class_commands:rescore",
    "regrade": "grader.cli.class_commands:regrade",
    "adjust": "grader.cli.class_commands:adjust",
    "export": "grader.cli.class_commands:export",
    "similarity": "grader.cli.class_commands:list_similar",
    "gradescope-zip": "grader.cli.staff_commands:write_autograder",
    "serve": "grader.cli.serve_command:command",
    "calibrate": "grader.cli.calibrate:command",
    "new": "grader.cli.staff_commands:begin",
    "author": "grader.cli.staff_commands:check_course",
    "stubs": "grader.cli.staff_commands:write_stubs",
    "handout": "grader.cli.staff_commands:write_handout",
    "release": "grader.cli.staff_commands:write_release",
    "site": "grader.cli.staff_commands:write_site",
    # END STAFF
}


def on_course(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the option `--course`; its default submission is that course's."""
    signature = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def run(ctx: Context, course: Path | None, **given: Any) -> None:
        if course is not None:
            choose_course(course)
        is_default = ctx.get_parameter_source("submission")
        if is_default is not None and is_default.name == "DEFAULT":
            given["submission"] = usual_submission()
        command(**given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
        *(each.replace(kind=keyword) for each in signature.parameters.values()),
        inspect.Parameter("course", keyword, default=None, annotation=CourseOption),
    ]
    run.__signature__ = signature.replace(parameters=more)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in more}
    return run


class _Commands(TyperGroup):
    """The commands of this file, and those of others by their names."""

    def list_commands(self, ctx: Context) -> list[str]:
        """In the order in which they are told."""
        return [*super().list_commands(ctx), *_ELSEWHERE]

    def get_command(self, ctx: Context, name: str) -> Command | None:
        """A command, imported now where it is another module's."""
        if name not in _ELSEWHERE:
            return super().get_command(ctx, name)
        module, function = _ELSEWHERE[name].split(":")
        of_one = typer.Typer(add_completion=False, context_settings=_CONTEXT)
        of_one.command(name=name)(on_course(getattr(importlib.import_module(module), function)))
        return typer.main.get_command(of_one)

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Command | None, list[str]]:
        """The command that is called. Raises Mistake for a case whose words lack quotes."""
        at = args.index("--case") + 1 if "--case" in args else len(args)
        words = list(itertools.takewhile(lambda each: "=" in each and each[0] != "-", args[at:]))
        if len(words) > 1:
            raise Mistake(f"--case: put the whole case in quotes: --case '{' '.join(words)}'")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Context) -> Any:
        """Call the command. Ctrl-C ends it with a word, where typer says nothing.

        A value that an option can't have is shown, which typer leaves out of its message.
        """
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if isinstance(error.__cause__, ValidationError):
                error.message += f", got {error.__cause__.errors()[0]['input']!r}"
            raise
        except KeyboardInterrupt:
            errors.print("interrupted")
            raise typer.Exit(INTERRUPTED) from None


_CONTEXT = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Grade GPU-kernel submissions: on a GPU, or on any laptop without one.",
    context_settings=_CONTEXT,
)

SubmissionArgument = Annotated[Path, typer.Argument(help="A folder like assignment/.")]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of the drawn cases and their data.")
]

VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="All kinds of failure in full, and whole tracebacks.")
]


@app.command()
@on_course
def grade(  # noqa: PLR0913  # each parameter is an option
    submission: SubmissionArgument = Path("assignment"),
    only: OnlyOption = None,
    seed: SeedOption = PUBLIC_SEED,
    require_sandbox: Annotated[
        bool,
        typer.Option("--require-sandbox", help="Refuse to run without bubblewrap or Landlock."),
    ] = False,
    jobs: JobsOption = None,
    gpus: GpusOption = None,
    lift: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Let an exercise or variant break the rules (staff)."),
    ] = None,
    evidence: EvidenceOption = None,
    json: JsonOption = None,
    html: HtmlOption = None,
    junit: JunitOption = None,
    gradescope: GradescopeOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Grade a submission and show the score; a low score is no failure, and ends with status 0."""
    if gpus is not None:
        choose(gpus)
    # Without a spec, a whole score would lack its points.
    exercises = right_exercises() if only else the_course().exercises
    names = known_names(exercises, only)
    expect_no_name(submission, exercises)
    expect_files(submission, exercises)
    have_oracles(exercises, names)
    lifted = known_names(exercises, lift)
    writable(evidence, json, html, junit, gradescope)
    with progress(step_in_words, _first_failure) as on_step:
        observed = grade_submission(
            submission,
            exercises,
            Options(seed=seed, require_sandbox=require_sandbox, lifted=tuple(lifted)),
            only=names,
            jobs=jobs or process_pool.default_jobs(machine.gpu_bytes(), len(visible())),
            on_step=on_step,
        )
    if evidence is not None:
        write(evidence, evidence_files.to_json(observed))
    show(
        observed, exercises, json, html, junit, gradescope, called=str(submission), verbose=verbose
    )


@app.command()
@on_course
def check(
    name: NameArgument,
    case: Annotated[
        str | None, typer.Option(help="One case, as in 'rows=1 cols=1025 dtype=float16 seed=7'.")
    ] = None,
    submission: Annotated[Path, typer.Option(help="The folder to check.")] = Path("assignment"),
    seed: SeedOption = PUBLIC_SEED,
    verbose: VerboseOption = False,
) -> None:
    """Check one exercise as a grade does, or repeat one case; ends with status 1 on a failure."""
    exercises = right_exercises()
    tasks = selected(exercises, known_names(exercises, [name]))
    expect_files(submission, exercises)
    have_oracles(exercises, [name])
    cases = [parsed_case(case, task, seed) if case is not None else None for task in tasks]
    observed: list[VariantEvidence] = []
    options = Options(seed=seed)
    with (
        progress(step_in_words, _first_failure) as on_step,
        Session(submission, exercises, options) as session,
    ):
        session.begin_building(tasks)
        for task, wanted in zip(tasks, cases, strict=True):
            observed.append(_checked(session, task, wanted, on_step))
        has_gpu = session.device == "cuda"
        answers = list(predictions.answered(session, [name]))
    has_failed = False
    for index, (evidence, wanted, task) in enumerate(zip(observed, cases, tasks, strict=True)):
        if index:
            console.print()
        judged = None if wanted else score_variant(task, evidence, has_gpu)
        report.check_to_terminal(
            evidence, console, str(wanted or ""), verbose, _with_a_case(task).variant, judged
        )
        has_failed |= any(part.status.is_failure for part in evidence.parts)
        has_failed |= judged is not None and bool(judged.lost)
    for each in answers if case is None else ():
        tell(f"\n{each.exercise}/{each.variant}: {_of_answers(each)}")
        has_failed |= each.predictions is not None and each.predictions.status.is_failure
    if any(each.has_grader_error for each in observed):
        raise typer.Exit(FAILED)
    if has_failed:
        raise typer.Exit(WRONG)


@app.command(name="run-plan")
@on_course
def run_plan(
    file: Annotated[Path, typer.Argument(help="What `grader plan --out` wrote.")],
    evidence: EvidenceOption = None,
    json: JsonOption = None,
) -> None:
    """On a GPU, run and time what was planned elsewhere; the submission isn't needed."""
    from grader.executors.gpu import bundle
    from grader.grading import plan_files

    exercises = the_course().exercises
    planned = bundle.read(file)
    if machine.gpu_name() is None:
        refuse(f"{file}: expected a machine with an NVIDIA GPU to run it on, there is none here")
    bundle.expect_usable(planned, file, exercises, machine.capability())
    have_oracles(exercises, list(dict.fromkeys(each.exercise for each in planned.variants)))
    writable(evidence, json)
    with progress(step_in_words) as on_step:
        observed = plan_files.run(planned, exercises, on_step)
    if evidence is not None:
        write(evidence, evidence_files.to_json(observed))
    tell(plan_files.origin(observed), "dim")
    show(observed, exercises, json)


@app.command(name="doctor")
@on_course
def look_at_machine(
    gpu: Annotated[
        bool, typer.Option("--gpu", help="The GPU's state, and what it moves and computes at best.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="With --gpu: measure anew what was measured before.")
    ] = False,
) -> None:
    """Say what this machine can grade, and what to install for the rest."""
    from grader.cli import doctor, gpu_doctor

    if again and not gpu:
        refuse("--again: expected --gpu beside it")
    if gpu:
        gpu_doctor.examine_gpu(console, again)
    else:
        doctor.examine(console)


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"warpgrade {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    course: CourseOption = None,
) -> None:
    choose_course(course)


def main() -> None:
    """The console script: no traceback for a mistake that is the user's."""
    try:
        app()
    except KeyboardInterrupt:
        errors.print("interrupted")
        sys.exit(INTERRUPTED)
    except Exception as error:
        if line := _users_mistake(error):
            narrow.say(line, errors, "red")
            sys.exit(USAGE)
        failed = "The grader itself failed. Please report this to the course staff:"
        errors.print(failed, style="red")
        errors.print(traceback.format_exc(), highlight=False, soft_wrap=True)
        sys.exit(FAILED)


def _users_mistake(error: Exception) -> str:
    """What a user has to put right, in words; "" where the grader failed."""
    if isinstance(error, Mistake):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return packages.line_of(error)
    if isinstance(error, OSError) and (error.filename or error.errno == errno.ENOSPC):
        return f"{error.filename or 'the output'}: {error.strerror}"
    return ""


# --- what the commands share ---------------------------------------------------------------------


def _of_answers(evidence: VariantEvidence) -> str:
    """What became of the answers to an exercise's questions, in words."""
    made = evidence.predictions
    return made.reason if made is not None else evidence.not_attempted


def _checked(session: Session, task: Task, case: Case | None, on_step: Progress) -> VariantEvidence:
    """All that can be observed about a task, or one case of it."""
    evidence = session.blank_evidence(task)
    if evidence.not_attempted:
        return evidence
    if case is None:
        evidence = grade_task(session, task, on_step)
        counts = task.variant.memory is None and evidence.correctness is Status.passed
        if counts and not task.rules.torch:  # what torch computes has no counters
            evidence = replace(evidence, memory=check_memory(session, _with_a_case(task), on_step))
        return evidence
    on_step(Step.at(task, str(case)))
    return replace(evidence, parts=(check_case(session, task, case),))


def _with_a_case(task: Task) -> Task:
    """The task; where its spec bounds no use of memory, with a case whose accesses are counted."""
    if task.variant.memory is not None:
        return task
    case = middling_case(task)
    block = Memory(case={**dict(case.sizes), "dtype": case.dtype})
    return replace(task, variant=task.variant.model_copy(update={"memory": block}))


def _first_failure(step: Step) -> str:
    """The message of a part that fails; the report has it again, with the line that repeats it."""
    if step.failed is None:
        return ""
    failures = tuple(replace(each, reproduce="") for each in step.failed.failures)
    failed = replace(step.failed, failures=failures)
    return report.part_block(step.exercise, step.variant, failed, min(errors.width, report.WIDEST))
