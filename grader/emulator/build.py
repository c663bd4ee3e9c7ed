"""Builds the programs of one .cu file, and describes its errors in the student's terms.

    source -> isolated -> rewritten -> assembly -> object -> symbols checked -> linked -> sites

Runs inside the sandbox, on untrusted source: it reads the source and the toolchain's folder,
writes only into `folder`, and starts only the compiler's programs.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from . import (
    assembly,
    compiler_output,
    glue,
    isolation,
    objects,
    rewriter,
    tokens,
    unobserved,
    unsupported,
)
from .conditions import Condition, for_host
from .conditions import find as find_conditions
from .elf import THREAD_LOCAL, Elf
from .glue import Entry
from .linking import Linker, LinkError
from .sites import Site
from .toolchain import COMPILE_SECONDS, ENVIRONMENT, PROGRAMS, STUDENT_FLAGS, Toolchain

__all__ = ["Build", "Entry", "Problem", "Site", "build"]

MOST_ROUNDS = 5  # of leaving out what g++ finds lacking
MOST_REPORTED = 60  # errors of g++, of which compiler_output.py keeps fewer
_TEMPLATE = re.compile(r"void (?:\w+::)*(\w+)<")  # a kernel's, as c++filt writes it
_OF_PTX = re.compile(r"::warpgrade::ptx::|__cvta_generic_to_")
_UNUSED = "warpgrade_unused_"  # prefix of symbols that only dead code needs
MOST_SOURCE_BYTES = 1 << 20

Kind = Literal[objects.Kind, "unsupported"]


@dataclass(frozen=True)
class Problem:
    """A problem of a file, or of one entry of it (`entry` then names it).

    `line` is in the student's file, from 1; `detail` shows it, with compiler output if any.
    """

    kind: Kind
    message: str
    line: int | None = None
    entry: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Build:
    """The result of a build: a planner for the callable entries and an executor, or none.

    Their addresses are disjoint, so `sites` has those of both.
    """

    executable: Path | None  # the planner
    problems: tuple[Problem, ...]
    sites: dict[int, Site] = field(default_factory=dict)
    entries: tuple[str, ...] = ()
    executor: Path | None = None
    conditions: tuple[Condition, ...] = ()  # code that nvcc may see differently


class _Failed(Exception):
    """The build ends here, with these problems."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems[0].message)
        self.problems = problems


def build(
    source: Path,
    entries: Sequence[Entry],
    folder: Path,
    toolchain: Toolchain,
    guarded: bool = True,
) -> Build:
    """Build the planner and the executor for those of `entries` that `source` has.

    `folder` (created if needed) receives `planner` and `executor`, and nothing else that stays.
    Unless `guarded`, for tests of other layers of defence, accesses are not observed, symbols not
    checked, and assembly is compiled. Raises ToolchainError or OSError only where the machine
    fails, never for the source.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        (folder / program).unlink(missing_ok=True)
    work = _Work(source.name, folder, toolchain, guarded)
    try:
        return work.build(_text_of(source), entries)
    except _Failed as failed:
        return Build(None, failed.problems)
    finally:
        work.clean()


def _text_of(source: Path) -> str:
    raw = source.read_bytes()
    if len(raw) > MOST_SOURCE_BYTES:
        message = f"the file has {len(raw):,} bytes; at most {MOST_SOURCE_BYTES:,} are compiled"
        raise _Failed(Problem("compile", message))
    if b"\0" in raw:
        line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        raise _Failed(Problem("compile", "the file has a zero byte; expected text", line))
    return raw.decode("utf-8-sig", errors="replace")


class _Work:
    """One build: its names, its folder, its steps."""

    def __init__(self, file: str, folder: Path, toolchain: Toolchain, guarded: bool) -> None:
        self.file = re.sub(r'["\\\n]', "_", file)
        self.folder = folder
        self.toolchain = toolchain
        self.guarded = guarded
        self.lines: list[str] = []
        self.source = tokens.read("")
        self.kernels: frozenset[str] = frozenset()
        self.kernels_object = "student.o"

    def build(self, text: str, entries: Sequence[Entry]) -> Build:
        self.source = tokens.read(text)
        self.lines = text.splitlines()
        lacking = unsupported.find(self.source) if self.guarded else []
        rewritten = rewriter.rewrite(self.source)
        lacking += [unsupported.Unsupported(t.message, t.offset) for t in rewritten.troubles]
        self.kernels = rewritten.kernels
        with ThreadPoolExecutor(2) as pool:
            declared = [e for e in entries if _line_of(self.source, e.name)]
            table = pool.submit(self._compile_table, declared, "table")
            self._compile_student(rewritten.text, lacking, entries)
            return self._link(entries, declared, table)

    # ---- Steps -----------------------------------------------------------------------------------

    def _compile_student(
        self, whole: str, lacking: Sequence[unsupported.Unsupported], entries: Sequence[Entry]
    ) -> None:
        """Make student.o of the `whole` rewritten text, or of the rest without what is lacking.

        If nvcc's passes differ, the kernels' object is another one. Raises _Failed with the
        compiler's errors.
        """
        for _ in range(MOST_ROUNDS):
            text = _without(self.source, lacking, self.guarded) if lacking else whole
            if text is None:
                break
            self.kernels_object = "student.o"
            errors = self._compile(text, entries)
            more = [] if errors or not self.guarded else _unobserved(self)
            if not errors and not more and (of_host := for_host(text)):
                self.kernels_object = "kernels_student.o"
                (self.folder / "student.o").rename(self.folder / self.kernels_object)
                errors = self._compile(of_host, entries)
            if not errors and not more:
                return
            more += [each for error in errors if (each := _lacking(self.source, error))]
            if not more:
                raise _Failed(*(self._compile_problem(error) for error in errors))
            if {*more} <= {*lacking}:
                break
            lacking = [*lacking, *more]  # the other errors may be consequences
        raise _Failed(*self._unsupported(lacking))

    def _compile(self, text: str, entries: Sequence[Entry]) -> list[compiler_output.CompileError]:
        """The errors of the text with the check of its entries' types, as far as it can be made."""
        brought = "#include <warpgrade/ptx.h>\n" if _OF_PTX.search(text) else ""
        body = f'{brought}#line 1 "{self.file}"\n{text}'
        errors = self._assemble(body + glue.signature_check(entries))
        if errors and all(error.in_check for error in errors):
            # Names that the check can't handle (a variable's, a template's): the symbols decide.
            bad = {error.in_check for error in errors}
            rest = [entry for i, entry in enumerate(entries, 1) if i not in bad]
            errors = self._assemble(body + glue.signature_check(rest))
        if errors and all(error.in_check for error in errors):
            errors = self._assemble(body)
        if not errors:
            self._instantiate_kernels()
        return errors

    def _instantiate_kernels(self) -> None:
        """Make student.o again with the kernel templates that g++ has left out.

        It leaves out one that is named only as a template argument inside a generic lambda.
        """
        missing = [
            symbol.name
            for symbol in Elf(self.folder / "student.o").symbols
            if not symbol.is_defined and not objects.is_allowed(symbol.name, ())
        ]
        templates = [
            name
            for name in objects.demangled(missing)
            if (template := _TEMPLATE.match(name)) and template[1] in self.kernels
        ]
        if not templates:
            return
        text = (self.folder / "student.cpp").read_bytes().decode()
        if self._assemble(text + "".join(f"template {name};\n" for name in templates)):
            message = (
                f"the emulator doesn't support {templates[0]}, which has no body or is named only "
                "inside a generic lambda"
            )
            raise _Failed(Problem("unsupported", message))

    def _assemble(self, text: str) -> list[compiler_output.CompileError]:
        (self.folder / "student.cpp").write_text(text, encoding="utf-8", newline="")
        header = self.toolchain.header(self._header_kind())
        done = self._run(
            *(self.toolchain.compiler, *STUDENT_FLAGS, "-S"),
            *("-I", self.toolchain.include),
            *("-include", header, "-Wno-invalid-pch", "-fno-diagnostics-show-caret"),
            *("-fdiagnostics-color=never", f"-fmax-errors={MOST_REPORTED}"),
            *("-fdump-rtl-final=student.rtl", "-fdump-tree-tsan-lineno-uid=student.tsan"),
            *("student.cpp", "-o", "student.s"),
        )
        if done.returncode:
            errors = compiler_output.read(done.stderr, self.file, self.lines)
            return errors or [compiler_output.CompileError(None, _last_line(done.stderr))]
        path = self.folder / "student.s"
        rtl = (self.folder / "student.rtl").read_text("utf-8", "replace")
        changed = assembly.with_alignments(assembly.with_gaps(path.read_bytes()), rtl)
        path.write_bytes(changed if self.guarded else assembly.without_hooks(changed))
        done = self._run("as", "student.s", "-o", "student.o")
        if done.returncode:
            return [compiler_output.CompileError(None, _last_line(done.stderr))]
        return []

    def _header_kind(self) -> str:
        for directive in self.source.directives:
            name = directive.header[1:-1].removesuffix(".h")
            if directive.name == "include" and name in _LIBRARY_HEADERS:
                return "library"
        return "core"

    def _compile_table(self, entries: Sequence[Entry], name: str) -> None:
        text = glue.entry_table(entries, planner=True)
        (self.folder / f"{name}.cpp").write_text(text)
        done = self._run(
            *(self.toolchain.compiler, "-std=c++17", "-O1", "-fPIE", "-w"),
            *("-I", self.toolchain.include, "-c", f"{name}.cpp", "-o", f"{name}.o"),
        )
        if done.returncode:
            raise RuntimeError(f"the table of entries doesn't compile: {done.stderr[-1000:]}")

    def _link(
        self, entries: Sequence[Entry], declared: Sequence[Entry], table: Future[None]
    ) -> Build:
        symbols = self.toolchain.symbols
        provided = {*symbols["provided"], glue.REFERENCE_SYMBOL}
        reserved = {*symbols["reserved"], glue.REFERENCE_SYMBOL}
        faults = []
        for name in dict.fromkeys([self.kernels_object, "student.o"]):
            elf = Elf(self.folder / name)
            unused = objects.unreachable(elf, entries, provided)
            if self.guarded:
                checked = objects.check(elf, entries, provided, reserved, unused)
                if name == self.kernels_object:
                    checked += objects.host_functions(elf, provided)
                faults += [each for each in checked if each not in faults]
            self._redirect(name, unused)
        if not self.guarded:
            faults = [each for entry in entries if (each := objects.entry_fault(elf, entry))]
        problems = tuple(self._fault_problem(fault) for fault in faults)
        if any(not problem.entry for problem in problems):
            raise _Failed(*problems)
        wrong = {problem.entry for problem in problems}
        present = [entry for entry in entries if entry.name not in wrong]
        if not present:
            raise _Failed(*problems)
        table.result()
        name = "table"
        if present != list(declared):
            name = "table_again"
            self._compile_table(present, name)
        linker = Linker(self.folder, self.file, self.toolchain, self._run, self.kernels_object)
        try:
            planner, executor = linker.link(f"{name}.o", [_UNUSED + each for each in unused])
        except LinkError as error:
            raise _Failed(_link_problem(str(error))) from None
        names = tuple(entry.name for entry in present)
        sites = planner.sites | executor.sites
        conditions = tuple(find_conditions(self.source))
        return Build(planner.path, problems, sites, names, executor.path, conditions)

    def _redirect(self, name: str, unused: Sequence[str]) -> None:
        """Redirect an object's calls of these to the runtime's functions; rename `unused`."""
        renames = self.folder / "redirected"
        provided = set(self.toolchain.symbols["provided"])
        names = assembly.redirected(provided, self.guarded)
        pairs = [(name, f"warpgrade_{name}") for name in names]
        pairs += [(name, _UNUSED + name) for name in unused]  # live calls stay as they are
        renames.write_text("".join(f"{old} {new}\n" for old, new in pairs))
        done = self._run("objcopy", "--redefine-syms=redirected", name)
        if done.returncode:
            raise RuntimeError(f"objcopy: {done.stderr[-1000:]}")

    # ---- Running programs ------------------------------------------------------------------------

    def _run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run one of the compiler's programs in the folder. Raises _Failed after a time limit."""
        try:
            return subprocess.run(
                [str(part) for part in command],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=COMPILE_SECONDS,
                env={**os.environ, **ENVIRONMENT, "TMPDIR": str(self.folder)},
            )
        except subprocess.TimeoutExpired:
            message = f"compiling took longer than {COMPILE_SECONDS:.0f} seconds"
            raise _Failed(Problem("compile", message)) from None

    def clean(self) -> None:
        """Remove everything but the programs."""
        for path in self.folder.iterdir():
            if path.name not in PROGRAMS and not path.is_dir():
                with contextlib.suppress(OSError):
                    path.unlink()

    # ---- Problems --------------------------------------------------------------------------------

    def _unsupported(self, lacking: Sequence[unsupported.Unsupported]) -> list[Problem]:
        """The problems of a file that can't be compiled without these features."""
        first: dict[str, Problem] = {}
        for each in lacking:
            if each.feature in first:
                continue
            line = self.source.line(each.offset)
            message = f"the emulator doesn't support {each.feature} ({self.file}:{line})"
            shown = compiler_output.excerpt(self.lines, line)
            first[each.feature] = Problem("unsupported", message, line, detail=shown)
        return list(first.values())

    def _compile_problem(self, error: compiler_output.CompileError) -> Problem:
        shown = compiler_output.excerpt(self.lines, error.line)
        return Problem("compile", error.message, error.line, detail=shown)

    def _fault_problem(self, fault: objects.Fault) -> Problem:
        if fault.is_absent and fault.entry in self.kernels:
            fault = objects.kernel_fault(fault.entry)
        line = _line_of(self.source, fault.name)
        shown = compiler_output.excerpt(self.lines, line)
        return Problem(fault.kind, fault.message, line, fault.entry, shown)


def _unobserved(work: _Work) -> list[unsupported.Unsupported]:
    """Loads of kernels that no hook observes. Raises _Failed for one outside of the file's code."""
    elf = Elf(work.folder / "student.o")
    shared = {each.name for each in elf.symbols if each.kind == THREAD_LOCAL and each.is_defined}
    dump = (work.folder / "student.tsan").read_text("utf-8", "replace")
    starts = {t.line: t.start for run in work.source.runs() for t in reversed(run.tokens)}
    lacking = []
    for feature, line in unobserved.find(dump, objects.of_kernels(elf), shared, work.file):
        if line not in starts:
            message = f"the emulator doesn't support {feature}"
            raise _Failed(Problem("unsupported", message, line))
        lacking.append(unsupported.Unsupported(feature, starts[line]))
    return list(dict.fromkeys(lacking))


def _without(
    source: tokens.Source, lacking: Sequence[unsupported.Unsupported], guarded: bool
) -> str | None:
    """The text without what is lacking, rewritten; None where that can't be left out."""
    text = isolation.without(source, lacking)
    if text is None:
        return None
    left = tokens.read(text)
    return None if guarded and unsupported.find(left) else rewriter.rewrite(left).text


def _lacking(
    source: tokens.Source, error: compiler_output.CompileError
) -> unsupported.Unsupported | None:
    """The feature, for an error about what CUDA has and our headers lack; else None."""
    name = compiler_output.unknown_name(error.message)
    feature = unsupported.lacking(name) if name else unsupported.in_words(error.message)
    on_line = [token for run in source.runs() for token in run.tokens if token.line == error.line]
    if feature is None or not on_line:
        return None
    named = [token for token in on_line if token.text == name]
    return unsupported.Unsupported(feature, (named or on_line)[0].start)


def _line_of(source: tokens.Source, name: str) -> int | None:
    """The first line of the code with this name, preferably as a function's.

    The last part of a qualified name counts.
    """
    places = list(_places_of(source, name.rpartition("::")[2])) if name else []
    calls = [offset for offset, is_function in places if is_function]
    offsets = calls or [offset for offset, _ in places]
    return source.line(offsets[0]) if offsets else None


def _places_of(source: tokens.Source, name: str) -> Iterator[tuple[int, bool]]:
    """Offsets of a name in the code, and whether a parenthesis follows."""
    for run in source.runs():
        for i, token in enumerate(run.tokens):
            if token.kind == "name" and token.text == name:
                followed = i + 1 < len(run.tokens) and run.tokens[i + 1].text == "("
                yield token.start, followed


# Others, such as <algorithm> and <cassert>, take less time than loading the larger header.
_LIBRARY = """
chrono complex deque fstream functional iomanip iostream iterator list map memory optional ostream
queue random set sstream stdexcept stack string string_view unordered_map unordered_set variant
vector
"""
_LIBRARY_HEADERS = frozenset(_LIBRARY.split())


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return compiler_output.plain(lines[-1]) if lines else "the compiler failed without a message"


def _link_problem(text: str) -> Problem:
    """The problem that the linker's output tells.

    Forbidden symbols were told before, so no rule is broken. A symbol that is declared and nowhere
    defined is the file's mistake. Any other trouble is the emulator's.
    """
    missing = re.search(r"undefined reference to [`'].+?'", text)
    if missing:
        return Problem("compile", f"linking failed: {compiler_output.plain(missing[0])}")
    twice = re.search(r"multiple definition of [`'].+?'", text)
    shown = compiler_output.plain(twice[0] if twice else text[-300:].strip())
    return Problem("unsupported", f"the emulator can't link the file: {shown}")
