"""Every block of code and every command in handout.md, README.md and its pages is run, or is exempt
by name.

Blocks of handout.md, by what follows the backticks:

    python          run in the order of the text, those of a section in one process, as a student
                    would; what is printed is what the block `text output` below it shows. One
                    whose first line is `# Needs a GPU.` is run alone, on a GPU; signatures are held
                    to assignment/
    cuda            run in the emulator; `text output` below it says what was counted or found
    sh              each line is a command; of `grader inspect` the blocks `ptx` and `text output`
                    below it are parts of what is printed
    text            a formula or a diagram
    text shown      what the block above printed when lecture/outputs.py ran it
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path

import pytest
import torch

from grader.emulator.report import SiteCounters
from grader.spec import load_all
from lecture import outputs
from tests.support import documents, warm_python
from tests.support.commandline import call
from tests.support.documents import Block
from tests.support.emulated import NEEDS_COMPILER, Outcome, Program
from tests.support.scripts import Scripts
from tests.support.small_exercise import ROOT

HANDOUT = documents.read("handout.md")
BLOCKS = documents.blocks(HANDOUT)
EXERCISES = load_all()
# What README.md had before it was short. Of docs/cli.md the part that is written by hand.
PAGES = (
    "README.md", "docs/cli.md", "docs/reports.md", "docs/release.md", "docs/support.md",
    "docs/architecture.md", "docs/glossary.md", "docs/inspect.md",
    "docs/visualize.md",
)  # fmt: skip
EVERY_PAGE = ["handout.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
EVERY_PAGE += sorted(f"docs/{each.name}" for each in (ROOT / "docs").glob("*.md"))
# What lecture/outputs.py has put into the handout.
SHOWN_IN_PLACES = set(
    re.findall(
        r"^<!-- shown: [^\n]*-->\n\n```text shown\n(.*?)```\n\n\*Printed ", HANDOUT, re.S | re.M
    )
)
BETWEEN = "\x1e"  # printed between the blocks of a section


def kind(block: Block) -> str:
    """What a block is. Raises AssertionError for one that no test would know how to run."""
    if block.info == "python":
        if block.text.startswith("# Needs a GPU."):
            return "gpu"
        return "signature" if "-> None: ..." in block.text else "python"
    if block.info == "cuda":
        return "cuda" if "{" in block.text else "cuda signature"
    known = {
        "sh": "sh",
        "text": "text",
        "text output": "output",
        "ptx": "ptx",
        "text shown": "shown",
    }
    assert block.info in known, f"handout.md:{block.line}: a block of unknown kind {block.info!r}"
    return known[block.info]


def of_kind(*kinds: str) -> list[Block]:
    return [block for block in BLOCKS if kind(block) in kinds]


def shown_below(block: Block) -> list[Block]:
    """The blocks that say what `block` prints."""
    return [each for each in BLOCKS if each.previous is block and kind(each) in ("output", "ptx")]


def test_every_block_is_of_a_known_kind_and_none_only_stands_there():
    for block in BLOCKS:
        place = f"handout.md:{block.line}"
        what = kind(block)
        if what in ("output", "ptx"):
            assert block.previous is not None, f"{place}: output of nothing"
            if kind(block.previous) == "sh":
                assert block.previous.text.startswith("grader inspect "), place
            else:
                assert what == "output" and kind(block.previous) in ("python", "cuda"), place
        elif what == "cuda":
            assert shown_below(block), f"{place}: nothing says what this does"
        elif what in ("python", "gpu"):
            assert shown_below(block) or "assert " in block.text, f"{place}: checks nothing"
        elif what == "shown":
            assert block.text in SHOWN_IN_PLACES, f"{place}: not in a place of lecture/outputs.py"
    assert len(of_kind("python")) > 10
    assert len(of_kind("cuda")) > 5


# --- Python ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_python() -> Iterator[Callable[[list[Block], Path, bool], list[str]]]:
    """Runs blocks as one file in one process, interpreted or not; what each of them printed."""
    with contextlib.ExitStack() as stack:
        parents: dict[bool, Scripts] = {}

        def run(blocks: list[Block], folder: Path, interpreted: bool) -> list[str]:
            if interpreted not in parents:
                parents[interpreted] = stack.enter_context(Scripts(interpreted))
            script = folder / "try_it.py"
            between = f'\nprint("{BETWEEN}", end="")\n'
            script.write_text(between.join(each.text for each in blocks), encoding="utf-8")
            printed = parents[interpreted].run(script).split(BETWEEN)
            assert len(printed) == len(blocks)
            return printed

        yield run


SECTIONS = list(dict.fromkeys(block.section for block in of_kind("python")))


@pytest.mark.parametrize("section", SECTIONS)
def test_python_prints_what_the_handout_shows(section, run_python, tmp_path):
    blocks = [block for block in of_kind("python") if block.section == section]
    compiles = any("triton.compile(" in block.text for block in blocks)
    if compiles and (written_for := made_for()) != (here := minor(version("triton"))):
        pytest.skip(f"what a compiler prints is shown of triton {written_for}, here is {here}")
    for block, printed in zip(blocks, run_python(blocks, tmp_path, not compiles), strict=True):
        for below in shown_below(block):
            assert printed == below.text, f"handout.md:{below.line}"


@pytest.mark.parametrize(
    "block", [each for each in of_kind("sh") if shown_below(each)], ids=lambda block: block.id
)
def test_inspect_prints_what_the_handout_shows(block, capsys, monkeypatch):
    if (written_for := made_for()) != (here := minor(version("triton"))):
        pytest.skip(f"what a compiler prints is shown of triton {written_for}, here is {here}")
    [command] = block.lines
    monkeypatch.chdir(ROOT)
    ended = call(capsys, *shlex.split(command)[1:], "--plain")
    assert ended.code == 0, ended.err
    for below in shown_below(block):
        assert_in_order(below.lines, ended.out, f"handout.md:{below.line}")


def test_what_is_shown_of_stored_profiles_is_what_the_command_prints():
    names = ("profile-manual", "profile-ncu", "profile-waiting")
    place = next(each for each in outputs.places(HANDOUT) if each.name == names[0])
    printed = outputs.run(place, "")
    assert printed.status == 0, printed.text
    made = outputs.filled(HANDOUT, dict.fromkeys(names, printed))
    for name in names:
        assert shown_in(made, name) == shown_in(HANDOUT, name), "python -m lecture.outputs --here"


def shown_in(handout: str, name: str) -> str:
    """What stands in a place."""
    found = re.search(rf"^<!-- shown: {name},.*?```text shown\n(.*?)```", handout, re.S | re.M)
    assert found is not None, name
    return found[1]


def made_for() -> str:
    """The version of Triton that the Makefile installs, as 3.9."""
    line = re.search(r"^TRITON := (.*)$", documents.read("Makefile"), re.M)
    assert line is not None
    return minor(line[1])


def minor(full: str) -> str:
    return ".".join(full.split(".")[:2])


def assert_in_order(wanted: list[str], printed: str, place: str) -> None:
    """Each line of an excerpt comes after the one before it, whatever its registers' numbers."""
    left = iter([without_numbers(line) for line in printed.splitlines()])
    for line in wanted:
        assert without_numbers(line) in left, f"{place}: {line!r} is not there, or not in order"


def without_numbers(line: str) -> str:
    """An instruction without its comment, its registers' numbers and spaces."""
    code = re.sub(r"%(p|rs|rd|r|fd|f)\d+", r"%\1", line.partition("//")[0])
    return " ".join(code.split())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("block", of_kind("gpu"), ids=lambda block: block.id)
def test_python_for_a_gpu_holds_what_it_asserts(block, run_python, tmp_path):
    assert "assert " in block.text
    run_python([block], tmp_path, False)


def test_blocks_for_a_gpu_are_python():
    for block in of_kind("gpu"):
        compile(block.text, f"handout.md:{block.line}", "exec")


# --- signatures -----------------------------------------------------------------------------------


def signatures(tree: ast.Module) -> dict[str, str]:
    """Functions' parameters with their annotations, `torch.` left out."""
    return {
        node.name: ast.unparse(node.args).replace("torch.", "")
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def stub(file: str) -> str:
    return (ROOT / "assignment" / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.name)
def test_signatures_are_those_of_the_stubs(exercise):
    mine = [block for block in BLOCKS if block.section == exercise.name]
    python = "".join(block.text for block in mine if kind(block) == "signature")
    cuda = " ".join("".join(b.text for b in mine if kind(b) == "cuda signature").split())
    for variant in exercise.variants.values():
        if variant.language == "triton":
            entry = signatures(ast.parse(stub(variant.file)))[variant.entry]
            assert signatures(ast.parse(python))[variant.entry] == entry
        else:
            found = re.search(rf'extern "C" void {variant.entry}\([^)]*\)', stub(variant.file))
            assert " ".join(found[0].split()) in cuda


# --- CUDA -----------------------------------------------------------------------------------------

COUNTED = torch.arange(256.0)  # what `in` holds
# What the entries leave in `out`, of which the rest stays as it was.
RESULTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "neighbours": lambda x: 2 * x,
    "stretches": lambda x: 2 * x,
    "grid_stride": lambda x: 2 * x,
    "reversed": lambda x: 255 - x,
    "stride_1": lambda x: x[:32],
    "stride_2": lambda x: x[:32],
    "stride_32": lambda x: x[:32],
    "stride_33": lambda x: x[:32],
    "by_lane": lambda x: torch.where(x % 2 == 0, x.sqrt(), torch.exp(-x)),
    "by_warp": lambda x: torch.where(x // 32 % 2 == 0, x.sqrt(), torch.exp(-x)),
    "smallest": lambda x: x // 32 * 32,
    "swizzled": lambda x: 5 + x[:32],
    "fine": lambda x: 2 * x,
    "coarse": lambda x: 2 * x,
    "vectors": lambda x: 2 * x,
    "counted_by_all": lambda x: torch.full((8,), 32.0),
    "counted_by_blocks": lambda x: torch.full((8,), 32.0),
}


def told(program: Program, outcome: Outcome) -> set[str]:
    """What can be said of a run, in the handout's words."""
    facts = set()
    assert outcome.report is not None
    for finding in outcome.report.findings:
        if finding.kind == "race":
            facts.add(f"data race at line {program.line_of(finding.pc)}")
        else:
            facts.add(f"{finding.kind.replace('_', ' ')}: {finding.text.rpartition(': ')[2]}")
    sites = [site for launch in outcome.report.launches for site in launch.sites]
    for kind_ in ("load", "store"):
        found = [s for s in sites if s.kind == kind_ and s.space == "global"]
        if found:
            sectors, useful = total(found, "sectors"), total(found, "useful_bytes")
            each = sectors / total(found, "requests")
            facts.add(f"{each:g} sectors per {kind_}, {useful / sectors:g} useful bytes in each")
            lanes = total(found, "lanes") / total(found, "requests")
            facts.add(f"{lanes:g} of 32 lanes per {kind_}")
        found = [s for s in sites if s.kind == kind_ and s.space == "shared"]
        if found:
            turns = total(found, "wavefronts") / total(found, "requests")
            facts.add(f"{turns:g} turn{'' if turns == 1 else 's'} per shared {kind_}")
    atomics = [site for site in sites if site.kind == "atomic" and site.space == "global"]
    if atomics:
        facts.add(f"{total(atomics, 'lanes')} atomic operations in global memory")
    return facts


def total(sites: list[SiteCounters], counter: str) -> int:
    return sum(getattr(site, counter) for site in sites)


@NEEDS_COMPILER
@pytest.mark.parametrize("block", of_kind("cuda"), ids=lambda block: block.id)
def test_cuda_does_in_the_emulator_what_the_handout_shows(block, tmp_path):
    (tmp_path / "block.cu").write_text(block.text)
    program = Program(tmp_path / "block.cu", tmp_path / "built")
    [below] = shown_below(block)
    said: dict[str, list[str]] = {}
    for line in below.lines:
        entry, _, claim = line.partition(": ")
        said.setdefault(entry, []).append(claim)
    assert set(said) <= set(program.parameters)
    for entry in program.parameters:
        outcome = program.run(entry, measure=True)
        facts = told(program, outcome)
        for claim in said.get(entry, []):
            values = re.findall(r"out\[(\d+)\] is (\d+)", claim)
            if values:
                assert all(outcome.out[int(i)] == int(value) for i, value in values), claim
            else:
                assert claim in facts, facts
        if not outcome.report.findings:
            want = RESULTS[entry](COUNTED)
            torch.testing.assert_close(outcome.out[: len(want)], want)
        else:
            assert entry in said, outcome.report.findings


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_nvcc_takes_every_cuda_block(tmp_path):
    text = "\n".join(
        f"namespace block_{block.line} {{\n{without_includes(block.text)}\n}}"
        for block in of_kind("cuda")
    )
    (tmp_path / "all.cu").write_text("#include <cstdio>\n#include <cuda_runtime.h>\n" + text)
    command = ["nvcc", "-arch=sm_90", "-ptx", "-o", "all.ptx", "all.cu"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def without_includes(text: str) -> str:
    return re.sub(r"^#include .*$", "", text, flags=re.M)


# --- commands -------------------------------------------------------------------------------------

# Commands that no test here runs, and why: with the name of the test that does, where one does.
EXEMPT = {
    r"python -m lecture\.handout .*": (
        "tests/grader/instruments/test_lecture.py::test_the_handout_gets_its_tables_from_what_was_measured"
    ),
    r"nsys .*": "Nsight Systems has to be installed, and asks for a GPU",
    r"ncu .*": "Nsight Compute has to be installed, and asks for a GPU",
    r"source \.venv/bin/activate": "the shell's own; .venv is made by make",
    r"TRITON_INTERPRET=1 python try_it\.py": (
        "tests/docs/test_documents.py::test_python_prints_what_the_handout_shows"
    ),
    r"grader (grade .*--evidence|rescore) evidence\.json": (
        "tests/grader/cli/test_cli.py::test_stored_evidence_is_scored_again_without_running_anything"
    ),
    r"grader predict .*": "tests/grader/grading/test_predictions.py::test_predict_begins_a_file",
    r"grader author check .*": (
        "tests/grader/staff/test_author_check.py::test_each_mistake_is_a_line"
    ),
    r"grader visualize .*": (
        "tests/grader/instruments/visualize/test_command.py::test_the_page_is_written_where_it_is_wanted"
    ),
    r"grader profile (try_it|my_benchmark)\.py": (
        "tests/grader/cli/test_profile_command.py::test_a_file_is_profiled_and_leaves_a_page_and_a_trace"
    ),
    r"grader run-plan FILE": (
        "tests/grader/executors/gpu/test_plan_files.py::test_a_file_of_the_solution_is_run_and_timed"
    ),
    r"grader doctor": (
        "tests/grader/cli/test_doctor.py::test_every_line_fits_and_goes_on_below_its_own_text"
    ),
    r"grader batch SOURCE --out results/": (
        "tests/grader/batch/test_commands.py::test_a_batch_is_told_in_lines_and_ends_in_files"
    ),
    r"grader export results/ --format canvas --to FILE": (
        "tests/grader/batch/test_commands.py::"
        "test_a_gradebook_for_canvas_comes_of_canvas_own_roster"
    ),
    r"grader rescore results/": (
        "tests/grader/batch/test_commands.py::"
        "test_rescoring_says_who_moves_by_how_much_before_it_writes"
    ),
    r"grader regrade": (
        "tests/grader/batch/test_commands.py::"
        "test_regrading_runs_one_students_parts_and_nothing_else"
    ),
    r"grader adjust": (
        "tests/grader/batch/test_commands.py::test_points_are_added_listed_and_taken_back"
    ),
    r"grader gradescope-zip --out a\.zip": (
        "tests/grader/grading/test_gradescope.py::"
        "test_the_command_packs_a_courses_seed_and_what_it_lifts"
    ),
    r"grader new (course DIR|exercise NAME --triton --cuda)": (
        "tests/grader/spec/test_course.py::"
        "test_a_new_course_and_its_exercise_work_from_the_command_line"
    ),
    r"grader serve( --jsonl)?": (
        "tests/grader/service/test_serve.py::test_every_line_is_answered_by_its_id"
    ),
    r"grader similarity results/": (
        "tests/grader/batch/test_similarity.py::test_the_command_compares_what_a_class_handed_in"
    ),
    r"PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer .*": (
        "compute-sanitizer has to be installed, and asks for a GPU"
    ),
    r"cp -r assignment broken|sed -i .*|grader check gelu --submission broken": (
        "one after the other; lecture/outputs.py runs them, and shows what they print"
    ),
    r"grader inspect gemm/triton_v3": (
        "tests/grader/instruments/inspect/test_triton_findings.py::test_num_stages_of_3_loads_ahead_and_of_1_does_not"
    ),
    r"grader bench \S+ --configs .+": (
        "tests/grader/instruments/test_bench_configs.py::"
        "test_each_configuration_is_timed_and_judged_and_a_failing_one_ends_none"
    ),
    r"pytest tests/test_performance\.py": (
        "tests/grader/instruments/test_performance_benchmarks.py::"
        "test_rounds_are_compared_stored_and_written_as_json"
    ),
}
CASES = {"rmsnorm": "rows=1 cols=3 dtype=float32"}  # for a '…' in a command


def commands(name: str) -> Iterator[str]:
    """Every command of a document: lines of shell blocks, and what stands in backticks."""
    text = documents.read(name).partition("<!-- generated")[0]
    for block in [*documents.blocks(text), *documents.indented(text)]:
        if block.info == "sh" or all(documents.is_command(line) for line in block.lines):
            yield from map(documents.command_of, block.lines)
    yield from (span for span in documents.spans(text) if documents.is_command(span))


COMMANDS = sorted({each for name in ("handout.md", *PAGES) for each in commands(name)})


def test_an_exemption_names_a_reason_or_a_test_that_exists():
    assert len(COMMANDS) > 15
    for pattern, reason in EXEMPT.items():
        assert any(re.fullmatch(pattern, command) for command in COMMANDS), f"unused: {pattern}"
        file, found, test = reason.partition("::")
        if found:
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """The ids of all tests that students run."""
    words = ["-m", "pytest", "--collect-only", "-q", "tests/test_assignment.py"]
    ran = warm_python.run(words, ROOT, {**os.environ, "PYTHONPATH": str(ROOT)})
    assert ran.returncode == 0, ran.stdout
    return [line for line in ran.stdout.splitlines() if "::" in line]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs_in_a_cheap_form_or_is_exempt(command, collected, tmp_path, capsys):
    if any(re.fullmatch(pattern, command) for pattern in EXEMPT):
        return
    program, *words = shlex.split(command.replace("…", CASES["rmsnorm"]))
    if program == "make":  # as make would do it, without doing it
        ran = subprocess.run(
            ["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
    elif program == "pytest" and words[0] == "-k":
        assert any(words[1] in name for name in collected)
        other = [name for name in EXERCISES if name != words[1]]
        assert not any(words[1] in name and f"[{each}-" in name
                       for name in collected for each in other)  # fmt: skip
    elif program == "python":
        [script] = words
        compile((ROOT / script).read_text(encoding="utf-8"), script, "exec")
    elif program == "nvcc":
        if not shutil.which("nvcc"):
            pytest.skip("needs nvcc")
        where = words.index("-o") + 1
        words[where] = str(tmp_path / words[where])
        subprocess.run(["nvcc", *words], cwd=ROOT, check=True)
        assert Path(words[where]).stat().st_size
    else:
        assert program == "grader", f"no test knows how to run {command!r}"
        if words == ["grade"]:  # of all stubs one: gelu, which comes solved, is checked below
            shutil.copy(ROOT / "assignment" / "silu.py", tmp_path)
            words.append(str(tmp_path))
        if "--html" in words:
            where = words.index("--html") + 1
            words[where] = str(tmp_path / words[where])
        assert grader(words, capsys) == 0


def grader(words: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """The exit status of the command in this process, over the stubs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        ended = call(capsys, *words)
    print(ended.err)
    return int(ended.code)


# --- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY_PAGE)
def test_every_link_leads_somewhere(name):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_fences(documents.read(name))):
        if link.startswith("https://"):
            continue  # another site's: no test here uses the network
        file, _, anchor = link.partition("#")
        target = (ROOT / name).parent / file if file else ROOT / name
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link


def anchors(text: str) -> set[str]:
    """Those of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", without_fences(text), re.M)
    # Lower case, punctuation gone, spaces to hyphens.
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def without_fences(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


# --- README and its pages -------------------------------------------------------------------------

# Their blocks that are neither commands nor the tree, by how they begin.
SHOWN = {
    "warpgrade: assignment, seed": "a report; its last line is run below",
    "cli   ": "the layers, which test_architecture.py holds to the contracts",
}


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_the_pages_is_of_a_known_kind(name):
    text = documents.read(name).partition("<!-- generated")[0]
    assert all(block.info == "sh" for block in documents.blocks(text))
    for block in documents.indented(text):
        shown = [begin for begin in SHOWN if block.text.startswith(begin)]
        all_commands = all(documents.is_command(line) for line in block.lines)
        assert shown or all_commands or is_tree(block), f"{name}:{block.line}: of unknown kind"


def test_the_readme_is_short_and_shows_a_report_early():
    lines = documents.read("README.md").splitlines()
    assert len(lines) <= 100
    assert any("](docs/images/" in line for line in lines[:30])


def is_tree(block: Block) -> bool:
    return block.section == "The tree"


def test_the_tree_of_the_architecture_page_is_there():
    page = "docs/architecture.md"
    [tree] = [block for block in documents.indented(documents.read(page)) if is_tree(block)]
    folders: list[tuple[int, str]] = []
    seen = 0
    for line in tree.lines:
        depth = len(line) - len(line.lstrip())
        names = [*takewhile(re.compile(r"[\w*]+(\.\w+|/)").fullmatch, line.split())]
        folders = [each for each in folders if each[0] < depth]
        parent = ROOT.joinpath(*(folder for _, folder in folders))
        for name in names:
            assert list(parent.glob(name)), f"{page}'s tree: no {name} in {parent}"
            seen += 1
        if len(names) == 1 and names[0].endswith("/"):
            folders.append((depth, names[0]))
    assert seen > 20


def test_the_tree_of_the_architecture_page_has_every_folder():
    [tree] = [b for b in documents.indented(documents.read("docs/architecture.md")) if is_tree(b)]
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no checkout of git")
    folders = {each.partition("/")[0] for each in listed.stdout.split() if "/" in each}
    there = {line.split("/")[0] for line in tree.text.splitlines()}
    assert {each for each in folders if not each.startswith(".")} <= there


@pytest.mark.parametrize("name", EVERY_PAGE)
def test_a_page_has_no_long_lines(name):
    """But for tables, pictures and what is shown of a program."""
    text = without_fences(documents.read(name))
    long = [each for each in text.splitlines() if len(each) > 128]
    assert [each for each in long if not each.startswith(("|", "!["))] == []


def test_the_line_to_paste_from_the_shown_report_is_a_command_that_works(capsys):
    [line] = re.findall(r"Reproduce:\n\s+grader (check .*)\n", documents.read("docs/reports.md"))
    assert grader(shlex.split(line), capsys) == 0
