"""Markdown documents as the tests need them: their code blocks and the commands they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.small_exercise import ROOT

PROGRAMS = (
    *("make", "grader", "pytest", "python", "source", "nvcc"),
    *("nsys", "ncu", "compute-sanitizer", "TRITON_INTERPRET=1"),
)


@dataclass(frozen=True)
class Block:
    """A fenced block: `info` is what follows the three backticks, `line` that of its first line.

    `section` is the nearest heading of level 2 above. `previous` is the block before it where
    nothing but empty lines, or one line of text that ends in a colon, stands between them.
    """

    section: str
    info: str
    line: int
    text: str
    previous: Block | None = None

    @property
    def id(self) -> str:
        """A name for a test: `gelu-213`."""
        return f"{re.sub(r'[^a-z0-9]+', '_', self.section.lower()).strip('_')}-{self.line}"

    @property
    def lines(self) -> list[str]:
        return [line for line in self.text.splitlines() if line.strip()]


def read(name: str) -> str:
    """A document of the project's folder."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    """All fenced blocks. Raises AssertionError for one that has no end."""
    found: list[Block] = []
    section, info, start = "", None, 0
    between: list[str] = []
    held: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if info is None:
            if line.startswith("## "):
                section = line[3:].strip()
            if line.startswith("```"):
                info, start, held = line[3:].strip(), number + 1, []
            elif line.strip():
                between.append(line)
        elif line.startswith("```"):
            assert line == "```", f"line {number}: a fence in the block of line {start}"
            follows = found and (not between or (len(between) == 1 and between[0].endswith(":")))
            before = found[-1] if follows and found[-1].section == section else None
            found.append(Block(section, info, start, "\n".join(held) + "\n", before))
            info, between = None, []
        else:
            held.append(line)
    assert info is None, f"line {start}: a block without an end"
    return found


def indented(text: str) -> list[Block]:
    """The blocks of lines indented by four spaces, outside of fences and lists."""
    found: list[Block] = []
    held: list[str] = []
    section, start = "", 0
    fenced = False
    for number, line in enumerate([*text.splitlines(), "end"], start=1):
        fenced ^= line.startswith("```")
        if not fenced and (line.startswith("    ") or (held and not line.strip())):
            start = start if held else number
            held.append(line[4:])
        elif held:
            found.append(Block(section, "", start, "\n".join(held).strip("\n") + "\n"))
            held = []
        if line.startswith("## "):
            section = line[3:].strip()
    return found


def spans(text: str) -> Iterator[str]:
    """What stands in single backticks, outside of blocks."""
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if not fenced and not line.startswith("    "):
            yield from re.findall(r"(?<!`)`([^`]+)`(?!`)", line)


def command_of(line: str) -> str:
    """A line of a shell block without its prompt and its comment."""
    return re.split(r"\s+#\s", line.strip().removeprefix("$ "))[0].strip()


def is_command(text: str) -> bool:
    """Whether it begins with one of the programs that these documents speak of."""
    return text.split(" ")[0] in PROGRAMS and " " in text
