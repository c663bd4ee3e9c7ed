"""Evidence on a variant of several files, with the file and line of each place.

The grader compiles such files as one text (executors/cuda/joining.py) and counts lines in it, under
the name of the variant's own file. Students read lines of the files that they have.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, TypeVar

from grader.evidence import Failure, LineCounters, SourceLine, Touch
from grader.executors.cuda.joining import Joined

_T = TypeVar("_T")
_EXCERPT = re.compile(r"^( *)(\d+)(?= \| )", re.MULTILINE)
_IN_WORDS = re.compile(r"\b([Ll]ine) (\d+)\b")


def placed(evidence: _T, joined: Joined) -> _T:
    """The evidence with every place of the joined text as one of a file. To be called once."""
    made: _T = _Placing(joined).of(evidence)
    return made


class _Placing:
    def __init__(self, joined: Joined) -> None:
        self._joined = joined
        self._place = re.compile(rf"(?<![\w./-]){re.escape(joined.file)}:(\d+)\b")

    def of(self, value: Any) -> Any:
        if type(value) is str:  # no Status
            return self._in_text(value)
        if isinstance(value, tuple):
            return tuple(map(self.of, value))
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        if isinstance(value, (SourceLine, Touch, LineCounters)):
            return self._of_line(value)
        fields = {
            each.name: self.of(getattr(value, each.name)) for each in dataclasses.fields(value)
        }
        if isinstance(value, Failure):
            fields["cause"] = _IN_WORDS.sub(self._in_words, fields["cause"])
            fields["hint"] = _IN_WORDS.sub(self._in_words, fields["hint"])
            fields["detail"] = _EXCERPT.sub(
                lambda match: f"{match[1]}{self._joined.place(int(match[2]))[1]}", fields["detail"]
            )
        return dataclasses.replace(value, **fields)

    def _in_text(self, text: str) -> str:
        def named(match: re.Match[str]) -> str:
            file, line = self._joined.place(int(match[1]))
            return f"{file}:{line}"

        return self._place.sub(named, text)

    def _in_words(self, match: re.Match[str]) -> str:
        file, line = self._joined.place(int(match[2]))
        return f"{match[1]} {line}" + (f" of {file}" if file != self._joined.file else "")

    def _of_line(
        self, value: SourceLine | Touch | LineCounters
    ) -> SourceLine | Touch | LineCounters:
        """A line of the variant's own file by its number; one of another file with its name."""
        if value.line < 1:
            return value
        file, line = self._joined.place(value.line)
        if isinstance(value, SourceLine):
            words = [] if file == self._joined.file else [f"in {file}"]
            note = ": ".join([*words, *filter(None, [value.note])])
            return dataclasses.replace(value, line=line, note=note)
        if file == self._joined.file:
            return dataclasses.replace(value, line=line)
        if isinstance(value, Touch):
            return dataclasses.replace(value, line=0, does=f"{value.does} at {file}:{line}")
        return dataclasses.replace(value, line=0, kernel=f"{value.kernel} at {file}:{line}")
