"""The text of kernels: files of a submission, the functions in them and their hashes.

Planner and frontend both read functions by this module, so that both hash the same lines.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import textwrap
import tokenize
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .failures import CompileFailure

MAX_FILE_BYTES = 2 << 20
# The compilers write a file's name into their texts, so it may not contain a text's terminator.
_PLAIN_NAME = re.compile(r"[\w./ +-]{1,200}")


@dataclass(frozen=True)
class FunctionText:
    """One `def` in a file; `line` is that of the word `def`, counted from 1."""

    file: str
    line: int
    name: str
    lines: tuple[str, ...]  # from `def` to the last line of the body
    node: ast.FunctionDef = field(compare=False, repr=False)

    @cached_property
    def text(self) -> str:
        """The lines without their common indentation."""
        return textwrap.dedent("".join(self.lines))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the lines as they stand in the file."""
        return hashlib.sha256("".join(self.lines).encode()).hexdigest()

    @cached_property
    def names(self) -> dict[str, set[str]]:
        """The names in the body, each with the attributes that are taken of it."""
        used: dict[str, set[str]] = {}
        for node in (each for statement in self.node.body for each in ast.walk(statement)):
            if isinstance(node, ast.Name):
                used.setdefault(node.id, set())
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used.setdefault(node.value.id, set()).add(node.attr)
        return used

    @cached_property
    def is_noinline(self) -> bool:
        """Whether a decorator says noinline=True: such a function is called, not inlined."""
        for decorator in self.node.decorator_list:
            for keyword in getattr(decorator, "keywords", ()):
                value = getattr(keyword.value, "value", None)
                if keyword.arg == "noinline" and value is True:
                    return True
        return False


def place(function: Any) -> tuple[str, int]:
    """The file of a jit function of Triton's, and the line of its `def`."""
    starts = [line.lstrip().startswith("def ") for line in function.raw_src]
    return function.fn.__code__.co_filename, function.starting_line_number + starts.index(True)


class SourceFolder:
    """The Python files of a submission, each read and parsed at most once."""

    def __init__(self, folder: str) -> None:
        self.root = Path(folder).resolve()
        self._files: dict[str, tuple[list[str], dict[int, ast.FunctionDef]]] = {}
        self._functions: dict[tuple[str, int], FunctionText] = {}
        self._relative: dict[str, str | None] = {}

    def relative(self, path: str) -> str | None:
        """The name of a file inside the folder; None for other files."""
        if path not in self._relative:
            try:
                self._relative[path] = str(Path(path).resolve().relative_to(self.root))
            except (ValueError, OSError):
                self._relative[path] = None
        return self._relative[path]

    def lines(self, file: str) -> list[str]:
        """The lines of a file, each with its end. Raises CompileFailure."""
        return self._read(file)[0]

    def function(self, file: str, line: int) -> FunctionText:
        """The function whose `def` is at a line. Raises CompileFailure."""
        if (known := self._functions.get((file, line))) is not None:
            return known
        lines, functions = self._read(file)
        node = functions.get(line)
        if node is None:
            raise CompileFailure(
                f"no function is defined at line {line} of {file}", file, line, kind="forged"
            )
        made = FunctionText(file, line, node.name, tuple(lines[line - 1 : node.end_lineno]), node)
        self._functions[file, line] = made
        return made

    def _read(self, file: str) -> tuple[list[str], dict[int, ast.FunctionDef]]:
        if file not in self._files:
            self._files[file] = self._parse(file)
        return self._files[file]

    def _parse(self, file: str) -> tuple[list[str], dict[int, ast.FunctionDef]]:
        path = self.root / file
        if self.relative(str(path)) is None or not path.is_file():
            raise CompileFailure(f"{file} is no file of the submission", file, kind="forged")
        if not _PLAIN_NAME.fullmatch(file):
            message = "a file with kernels needs a name of letters, digits and _ - + . alone"
            raise CompileFailure(f"{message}, got {file!r}", file)
        data = path.read_bytes()
        if len(data) > MAX_FILE_BYTES:
            raise CompileFailure(f"{file} has more than {MAX_FILE_BYTES:,} bytes", file)
        try:
            text = decoded(data)
            tree = ast.parse(data, filename=file)
        except (SyntaxError, ValueError, RecursionError, MemoryError, LookupError) as error:
            line = getattr(error, "lineno", None) or 0
            raise CompileFailure(f"{file} can't be parsed: {error}", file, line) from None
        functions = {
            node.lineno: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
        }
        return text.splitlines(keepends=True), functions


def decoded(data: bytes) -> str:
    """The text of a Python file in its declared encoding, with line ends as Python sees them.

    Raises SyntaxError, UnicodeDecodeError or LookupError.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    text = io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
    return with_blanks(text)


def with_blanks(text: str) -> str:
    """Python text with blanks for characters at which str.splitlines splits, and Python doesn't."""
    return text.translate(_BLANKS)


_BLANKS = {ord(character): " " for character in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"}
