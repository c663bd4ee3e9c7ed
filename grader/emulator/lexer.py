"""CUDA C++ source to tokens and preprocessor lines, as both g++ and nvcc split it.

The policy and the emulator read a file through this lexer, so that they see the same code. It is
made for untrusted text: it takes linear time, uses no recursion and never raises. Where two
compilers, or a reader and a compiler, could see different code (a stray backslash, a lone carriage
return, a digraph, a trigraph), the place is listed as a problem.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple


class Token(NamedTuple):
    """One token outside comments. `line` and `column` count from 1.

    `start` and `end` are offsets in the source; `text` has neither spliced lines nor digraphs.
    `is_glued`: only spliced lines are between it and the token before.
    """

    kind: str  # name | number | string | char | punctuation | other
    text: str
    line: int
    column: int
    start: int = 0
    end: int = 0
    is_glued: bool = False


@dataclass(frozen=True)
class Directive:
    """One preprocessor line: `name` is "include" of #include, "" of an empty one.

    `header` is the name in an #include, with its brackets or quotes; "" where it is computed.
    """

    name: str
    tokens: tuple[Token, ...]
    at: Token  # the #
    before: int  # number of the file's tokens before it
    end: int  # offset behind the last token, or behind the header
    header: str = ""

    @property
    def macro(self) -> str:
        """The name that a #define defines; "" for other lines."""
        return self.tokens[0].text if self.name == "define" and self.tokens else ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """A macro's parameters in order, with `...`; their parenthesis follows at once."""
        if not self._has_parameters:
            return ()
        listed = self.tokens[2 : self._end_of_parameters]
        return tuple(token.text for token in listed if token.text != ",")

    @property
    def body(self) -> tuple[Token, ...]:
        """A macro's replacement; nothing where its parameters have no end."""
        return self.tokens[self._end_of_parameters + 1 if self._has_parameters else 1 :]

    @property
    def _has_parameters(self) -> bool:
        return len(self.tokens) > 1 and self.tokens[1].text == "(" and self.tokens[1].is_glued

    @property
    def _end_of_parameters(self) -> int:
        texts = [token.text for token in self.tokens]
        return texts.index(")") if ")" in texts else len(texts)


class Problem(NamedTuple):
    """A place that compilers may read differently."""

    line: int
    column: int
    message: str


@dataclass
class Lexed:
    """A file as tokens, without preprocessor lines and groups behind `#if 0`."""

    tokens: list[Token] = field(default_factory=list)
    directives: list[Directive] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


# Spliced lines are joined. A line break of two characters counts as one. A carriage return that is
# left ends a line, and so a comment, for the compilers; it is a problem wherever it stands.
_SPLICE = re.compile(r"\\(?P<blanks>[ \t\f\v]*)\r?\n|\r(?=\n)")
_NAME_START = r"A-Za-z_$\u0080-\U0010ffff"
_PREFIX = r"(?:u8|u|U|L)?"
_TOKEN = re.compile(
    rf"(?P<space>[ \t\f\v]+)|(?P<newline>\n)|(?P<line_comment>//[^\n\r]*)|(?P<comment>/\*)"
    rf'|(?P<raw>{_PREFIX}R")'
    rf'|(?P<string>{_PREFIX}"[^"\\\n\r]*(?:\\[^\n\r][^"\\\n\r]*)*")'
    rf"|(?P<char>{_PREFIX}'[^'\\\n\r]*(?:\\[^\n\r][^'\\\n\r]*)*')"
    rf"|(?P<unclosed>{_PREFIX}[\"'][^\n\r]*)"
    rf"|(?P<name>[{_NAME_START}][{_NAME_START}0-9]*)"
    rf"|(?P<number>\.?[0-9](?:[eEpP][+-]|'[A-Za-z0-9_]|[{_NAME_START}0-9.])*)"
    rf"|(?P<digraph><:(?!:(?![:>]))|<%|%>|%:|:>)"
    rf"|(?P<punctuation>##|::|->|\.\.\.|<<<|>>>|.)",
    re.DOTALL,
)
_TRIGRAPH = re.compile(r"\?\?[=/'()!<>-]")
_DELIMITER = re.compile(r"([^ ()\\\t\v\f\n\"]{0,16})\(")
_HEADER = re.compile(r'[ \t\f\v]*(<[^>\n\r]*>|"[^"\n\r]*")')
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


def lex(source: str) -> Lexed:
    """The tokens and directives of a file's text."""
    lexer = _Lexer(source)
    lexer.run()
    return lexer.lexed


class _JoinedText:
    """A source's text with its spliced lines joined, and the mapping back to the source."""

    def __init__(self, source: str) -> None:
        self.original = source
        self.spaced: list[int] = []  # places of splices with blanks behind the backslash
        self._line_starts = [0, *(m.end() for m in re.finditer("\n", source))]
        self._cuts = [(0, 0)]  # (place in the text, characters removed before it)
        parts: list[str] = []
        start = gone = length = 0
        for match in _SPLICE.finditer(source):
            parts.append(source[start : match.start()])
            length += match.start() - start
            gone += match.end() - match.start()
            start = match.end()
            self._cuts.append((length, gone))
            if match["blanks"]:
                self.spaced.append(length)
        self.text = "".join([*parts, source[start:]])

    def origin(self, position: int) -> int:
        """The offset in the source of a place in the text."""
        index = bisect_right(self._cuts, (position, len(self.original) + 1)) - 1
        return position + self._cuts[index][1]

    def origin_behind(self, position: int) -> int:
        """The offset in the source behind the character that ends at a place in the text."""
        return self.origin(position - 1) + 1

    def place_of(self, origin: int) -> int:
        """The first place in the text at or behind an offset in the source."""
        low = bisect_left(range(len(self.text) + 1), origin, key=self.origin)
        return min(low, len(self.text))

    def line_and_column(self, position: int) -> tuple[int, int]:
        """Line and column in the source, both from 1, of a place in the text."""
        origin = self.origin(position)
        line = bisect_right(self._line_starts, origin)
        return line, origin - self._line_starts[line - 1] + 1


class _Lexer:
    def __init__(self, source: str) -> None:
        self.lexed = Lexed()
        self.joined = _JoinedText(source)
        self.text = self.joined.text
        self.quiet: list[tuple[int, int]] = []  # comments and raw strings, where splices are fine
        self.position = 0
        self.end = -1  # of the last token in `text`

    def _problem(self, position: int, message: str) -> None:
        self.lexed.problems.append(Problem(*self.joined.line_and_column(position), message))

    def run(self) -> None:
        skipping = _Skipping()
        line: list[Token] = []  # of the current logical line, if it is a directive
        hash_at: Token | None = None
        header = ""
        at_start = True
        while True:
            token = self._next(in_skipped=skipping.now)
            ends = token is None or token.kind == "newline"
            if ends and hash_at is not None:
                self._directive(hash_at, line, header, skipping)
                line, hash_at, header = [], None, ""
            if token is None:
                break
            if token.kind == "newline":
                at_start = True
                continue
            if hash_at is not None:
                line.append(token)
                if len(line) == 1 and token.text in ("include", "include_next", "import", "embed"):
                    header = self._header()
            elif at_start and token.text == "#":
                hash_at = token
            elif not skipping.now:
                self.lexed.tokens.append(token)
            at_start = False
        self._tell_spaced()

    def _tell_spaced(self) -> None:
        """Report splices with blanks behind the backslash: g++ joins them, others may not."""
        for place in self.joined.spaced:
            index = bisect_right(self.quiet, (place, len(self.text) + 1)) - 1
            if index < 0 or not place < self.quiet[index][1]:
                self._problem(place, "blanks stand between a backslash and the line's end")

    def _directive(self, at: Token, line: list[Token], header: str, skipping: _Skipping) -> None:
        name = line[0].text if line else ""
        was_skipping = skipping.now
        skipping.meet(name, line[1:])
        if was_skipping and skipping.now:
            return
        before = len(self.lexed.tokens)
        end = self.joined.origin_behind(self.end)
        self.lexed.directives.append(Directive(name, tuple(line[1:]), at, before, end, header))

    def _header(self) -> str:
        """The header behind #include, in its brackets; "" where none follows."""
        match = _HEADER.match(self.text, self.position)
        if match is None:
            return ""
        self.position = self.end = match.end()
        return match[1]

    def _next(self, in_skipped: bool) -> Token | None:
        """The next token or newline, behind blanks and comments; None at the end."""
        while self.position < len(self.text):
            start = self.position
            match = _TOKEN.match(self.text, start)
            assert match is not None and match.lastgroup is not None  # any character matches
            kind, self.position = match.lastgroup, match.end()
            if kind == "line_comment":
                if match[0].endswith("??/"):
                    self._problem(start, "a comment ends in the trigraph ??/")
            elif kind == "comment":
                self._comment(start)
            elif kind == "newline":
                return Token(kind, "\n", *self.joined.line_and_column(start))
            elif kind != "space":
                text = self._raw(start, in_skipped) if kind == "raw" else match[0]
                return self._token(kind, text, start)
        return None

    def _token(self, kind: str, text: str, start: int) -> Token:
        """The token that ends at the position; its peculiarities are reported."""
        is_glued, self.end = start == self.end, self.position
        line, column = self.joined.line_and_column(start)
        offsets = self.joined.origin(start), self.joined.origin_behind(self.end)
        token = Token(kind, text, line, column, *offsets, is_glued)
        return token._replace(kind="string") if kind == "raw" else self._checked(token, start)

    def _comment(self, start: int) -> None:
        end = self.text.find("*/", self.position)
        if end < 0:
            self._problem(start, "a comment has no end")
            self.position = len(self.text)
        else:
            self.position = end + 2
        self.quiet.append((start, self.position))

    def _raw(self, start: int, in_skipped: bool) -> str:
        """A raw string, which ends by the original text, since nothing in it is joined."""
        quote = self.joined.origin_behind(self.position)
        match = _DELIMITER.match(self.joined.original, quote)
        if match is None:
            # The rest can't be read, and wouldn't compile.
            self._problem(start, "a raw string has no proper beginning")
            return self.text[start : self.position]
        closing = f'){match[1]}"'
        end = self.joined.original.find(closing, match.end())
        if end < 0:
            self._problem(start, "a raw string has no end")
            self.position = len(self.text)
            return ""
        content = self.joined.original[match.end() : end]
        if in_skipped and "\n" in content:
            self._problem(start, "a raw string runs over several lines behind #if 0")
        self.position = self.joined.place_of(end + len(closing))
        self.quiet.append((start, self.position))
        return f'"{content}"'

    def _checked(self, token: Token, start: int) -> Token:
        """The token; its peculiarities are reported."""
        kind, text = token.kind, token.text
        if kind == "digraph":
            self._problem(start, f"{text} is another spelling of a bracket or of #")
            spelled = {"<:": "[", ":>": "]", "<%": "{", "%>": "}", "%:": "#"}[text]
            return token._replace(kind="punctuation", text=spelled)
        if kind == "unclosed":
            if "/*" in text or "*/" in text or 'R"' in text:
                self._problem(start, "a quote isn't closed in its line")
            return token._replace(kind="other")
        if kind == "punctuation":
            if text == "\\":
                self._problem(start, "a backslash stands outside of texts and line ends")
            elif text == "\r":
                self._problem(start, "a line ends in a carriage return alone")
            elif _CONTROL.match(text):
                self._problem(start, f"the control character {ord(text)} is in the code")
        if _TRIGRAPH.match(self.text, start) or (
            kind in ("string", "char") and _TRIGRAPH.search(text)
        ):
            self._problem(start, "?? and a sign may be read as one character, a trigraph")
        return token


# Neither nvcc on Linux nor its host compilers define these. Other compilers, other systems and
# editors do.
_NOBODYS_TEXT = """
_MSC_VER _WIN32 _WIN64 __MINGW32__ __CYGWIN__ __APPLE__ __HIP__ __HIPCC__ __HIP_PLATFORM_AMD__
__INTELLISENSE__
"""
NOBODYS_MACROS = frozenset(_NOBODYS_TEXT.split())
_DEFINED = re.compile(r"defined (?:\( )?(\w+)(?: \))?")


class _Skipping:
    """Whether the preprocessor skips: behind a condition that is never true, up to its #else, #elif
    or #endif. Such a condition is 0, or asks for an editor or another compiler.
    """

    def __init__(self) -> None:
        self.now = False
        self.depth = 0  # of conditionals inside the skipped group

    def meet(self, name: str, tokens: list[Token]) -> None:
        """Note one directive."""
        opens = name in ("if", "ifdef", "ifndef")
        if not self.now:
            self.now = opens and _is_never_true(name, [token.text for token in tokens])
            return
        if opens:
            self.depth += 1
        elif name == "endif" and self.depth:
            self.depth -= 1
        elif not self.depth and name in ("endif", "else", "elif", "elifdef", "elifndef"):
            self.now = False


def _is_never_true(name: str, words: list[str]) -> bool:
    if name == "ifndef":
        return words in (["__CUDACC__"], ["__NVCC__"])
    if name == "ifdef":
        return len(words) == 1 and words[0] in NOBODYS_MACROS
    if words == ["0"]:
        return True
    asked = [_DEFINED.fullmatch(part) for part in " ".join(words).split(" | | ")]
    return all(each is not None and each[1] in NOBODYS_MACROS for each in asked)
