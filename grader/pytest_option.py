"""`pytest --submission=DIR`: the folder that the students' tests grade.

At the end of a run it also lists measurements, and suggests names for a `-k` that selects no test.

It is loaded by name (`-p`, in pyproject.toml), because an option of a conftest.py is registered too
late: pytest would take DIR for a folder of tests. pytest looks for pyproject.toml even earlier, and
in `--submission DIR`, with a blank, it takes DIR for the place to look in, and runs what the
configuration there names. So an entry point of the package loads this plugin too, and the plugin
starts pytest again with the project's pyproject.toml. That is for one's own folders.

PYTEST_DONT_REWRITE: this module has no assertions to rewrite, and the second start would warn that
they can't be.
"""

from __future__ import annotations

import difflib
import gc
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from grader import packages

packages.expect(["pytest"])
with packages.importing():
    from grader.grading import head_start
    from grader.sandbox import bytecode
    from grader.startup import end_by_signals, importing

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / "pyproject.toml"
ASSIGNMENT = str(ROOT / "assignment")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    _leave_as_it_is(pluginmanager)
    parser.addoption(
        "--submission",
        metavar="DIR",
        default=ASSIGNMENT,
        help="the folder to test (default: assignment)",
    )


def _leave_as_it_is(manager: pytest.PytestPluginManager) -> None:
    """Have pytest import the modules of the grader and of hypothesis as Python does.

    It takes each module of a package with a plugin for one whose assertions it explains, and
    compiles hundreds of files anew for that: in every process, where Python keeps no byte code. It
    has no public way to leave a package out.
    """
    marked: set[str] = getattr(manager.rewrite_hook, "_must_rewrite", set())
    marked -= {name for name in marked if name.partition(".")[0] in ("grader", "hypothesis")}


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | pytest.ExitCode | None:
    """Start pytest again with this project's configuration, if DIR led it to another one."""
    if _is_ours(config) or config.getoption("--submission") == ASSIGNMENT:
        return None
    return pytest.main(["--config-file", str(CONFIGURATION), *config.invocation_params.args])


def pytest_configure(config: pytest.Config) -> None:
    """Pick the students' tests outside of tests/, and begin the sandbox if they run alone."""
    if not _is_ours(config):
        return
    folder = config.getoption("--submission")
    if not Path(folder).is_dir():
        raise pytest.UsageError(f"--submission: expected a folder like assignment/, got {folder}")
    of_the_graders = config.invocation_params.dir.is_relative_to(ROOT / "tests")
    if config.args_source is pytest.Config.ArgsSource.INVOCATION_DIR and not of_the_graders:
        config.args = [str(ROOT / "tests" / "test_assignment.py")]
    only_theirs = all(Path(each).name == "test_assignment.py" for each in config.args)
    timed = any(Path(each).name.startswith("test_performance.py") for each in config.args)
    if timed and (line := packages.problem(["pytest-benchmark"])):
        raise pytest.UsageError(line)
    if config.args and (only_theirs or timed):
        config.stash[_EXPRESSION] = config.option.keyword
        stems = [path.stem for path in (ROOT / "exercises").glob("*.yaml")]
        config.option.keyword = by_whole_names(config.option.keyword, stems)
    if config.args and only_theirs and not config.option.collectonly:
        end_by_signals()
        bytecode.keep()
        head_start.begin_plans()


def _is_ours(config: pytest.Config) -> bool:
    """Whether pytest runs by this project's configuration, not by that of another project."""
    return config.inipath is not None and config.inipath.resolve() == CONFIGURATION


def by_whole_names(expression: str, stems: Sequence[str]) -> str:
    """The expression of a `-k`, in which an exercise's name selects the tests of that one alone.

    pytest takes a word for part of a test's name: `gemm` would select `batched_gemm` too. A test's
    name ends as in `[gemm-triton-float32-aligned]`.
    """
    known = {stem.lower() for stem in stems}
    return re.sub(
        _WORD, lambda word: f"[{word[0]}-" if word[0].lower() in known else word[0], expression
    )


_EXPRESSION = pytest.StashKey[str]()
_MEASURED = pytest.StashKey[list[str]]()
_DESELECTED = pytest.StashKey[list[str]]()
_SELECTED = pytest.StashKey[int]()
_OPERATORS = {"and", "or", "not", "True", "False"}
_WORD = r"[\w:+\-.\[\]\\/]+"  # of an expression, as pytest reads it
_DTYPES = {"bf": "bfloat", "fp": "float", "f": "float"}
_OTHER_WORDS = {"speed": "performance", "benchmark": "performance", "half": "float16"}


@pytest.fixture
def record_measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Store a sentence for the end of the run: pytest prints nothing for a test that passes."""
    return request.config.stash.setdefault(_MEASURED, []).append


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests, which imports torch."""
    with importing():
        yield


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        item.config.stash.setdefault(_DESELECTED, []).append(item.name)


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[_SELECTED] = len(session.items)


def pytest_unconfigure() -> None:
    """Exempt torch's objects from garbage collection at exit, which would take half a second."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the measurements, and names near a `-k` that selects nothing."""
    config = terminalreporter.config
    left_out = config.stash.get(_DESELECTED, []) if _is_ours(config) else []
    if config.option.keyword and left_out and not config.stash.get(_SELECTED, 1):
        typed = config.stash.get(_EXPRESSION, config.option.keyword)
        terminalreporter.write_line(none_selected(typed, left_out))
    lines = config.stash.get(_MEASURED, [])
    if lines:
        terminalreporter.section("memory")
    for sentence in lines:
        terminalreporter.write_line(sentence)


def none_selected(expression: str, names: Sequence[str]) -> str:
    """A sentence or two for a `-k` that selects none of the tests `names`.

    Names are like `test_assignment[rmsnorm-triton-float32-aligned]`.
    """
    parts = [match[1].split("-") for each in names if (match := re.search(r"\[(.+)\]$", each))]
    known = list(dict.fromkeys(part for each in parts for part in each))
    words = [each for each in re.findall(_WORD, expression) if each not in _OPERATORS]
    strange = [w for w in words if not any(w.lower() in each.lower() for each in names)]
    if not strange:
        return f"-k {expression!r}: every word is in a test's name, but no test answers to it all."
    message = f"-k {expression!r}: no test has {strange[0]!r} in its name."
    meant = {word: name for word in strange if (name := _meant(word, known))}
    if len(meant) == len(strange):
        typed = re.sub(_WORD, lambda word: meant.get(word[0], word[0]), expression)
        return f"{message} Type: pytest -k {shlex.quote(typed)}"
    if near := difflib.get_close_matches(strange[0].lower(), known):
        return f"{message} Did you mean {' or '.join(near)}?"
    exercises = list(dict.fromkeys(each[0] for each in parts))
    return f"{message} Exercises: {', '.join(exercises)}." if exercises else message


def _meant(word: str, known: Sequence[str]) -> str | None:
    """What a word of `-k` is another spelling of, such as rms-norm; of a variant, both parts."""
    parts = word.lower().split("/")
    if len(parts) > 1 and {*parts} <= {*known}:
        return f"({' and '.join(parts)})"
    spelt = re.sub(r"\W|_", "", word.lower())
    spelt = re.sub(r"^(bf|fp|f)(?=16$|32$)", lambda bits: _DTYPES[bits[1]], spelt)
    spelt = _OTHER_WORDS.get(spelt, spelt)
    return next((each for each in known if spelt == each.replace("_", "")), None)
