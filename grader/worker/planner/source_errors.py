"""Describes files that Python can't read: bytes that are no text, and code nested too deeply."""

from __future__ import annotations

import codecs
import io
import tokenize
from pathlib import Path

from .errors import SourceError

_UTF_8 = ("utf-8", "utf-8-sig")


def check_encoding(name: str, data: bytes) -> None:
    """Raise SourceError for a file that isn't text in its declared encoding, or in UTF-8.

    Python ignores such a byte in a comment, but Triton then can't read the kernels. Other errors in
    a declaration are left to Python.
    """
    if _is_utf_16(data):
        raise SourceError(f"{name} is saved as UTF-16: save it as UTF-8")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        encoding = "utf-8"
        if _declares(data):
            return
    try:
        codecs.decode(data, encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{data[error.start]:02x} in line {line}"
        if encoding in _UTF_8:
            instead = "Save it as UTF-8, or name its encoding in its first line."
            raise SourceError(f"{name} is not UTF-8: {byte}", instead, line) from None
        instead = "Save it in the encoding that its first lines name."
        raise SourceError(f"{name} is not {encoding}: {byte}", instead, line) from None
    except (LookupError, ValueError):
        return


def _is_utf_16(data: bytes) -> bool:
    """Whether it begins as UTF-16: with its mark, or with every other byte zero."""
    even, odd = data[0:8:2].strip(b"\0"), data[1:8:2].strip(b"\0")
    has_mark = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return has_mark or (len(data) > 1 and bool(even) != bool(odd))


def _declares(data: bytes) -> bool:
    """Whether one of the first two lines declares an encoding (PEP 263)."""
    return any(tokenize.cookie_re.match(line.decode("latin-1")) for line in data.split(b"\n")[:2])


def check_encodings(error: BaseException, folder: str) -> None:
    """Raise SourceError for a file in an error's traceback that isn't text."""
    traceback = error.__traceback__
    while traceback is not None:
        file = Path(traceback.tb_frame.f_code.co_filename)
        if file.parent == Path(folder) and file.is_file():
            check_encoding(file.name, file.read_bytes())
        traceback = traceback.tb_next


def too_deep(name: str, data: bytes) -> SourceError:
    """The error for a file with deeper expressions than Python compiles.

    Python doesn't report the place, so the statement with the most symbols is named.
    """
    most, line, start, count = 0, 0, 0, 0
    try:
        for token in tokenize.tokenize(io.BytesIO(data).readline):
            if token.type == tokenize.NEWLINE:
                start = count = 0
            elif token.type not in (tokenize.INDENT, tokenize.DEDENT, tokenize.NL):
                start, count = start or token.start[0], count + 1
                if count > most:
                    most, line = count, start
    except (tokenize.TokenError, SyntaxError, ValueError):
        line = 0
    message = f"an expression in {name} is nested too deeply for Python to compile"
    return SourceError(message, "Write it as several statements, or as a loop.", line)
