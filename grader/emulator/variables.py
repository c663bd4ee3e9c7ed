"""Rewrites variables in CUDA's memory spaces as C++: dynamic shared, device and constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import glue, tokens
from .edits import Edit, Trouble
from .kernels import split_arguments
from .lexer import Token

_ALIGNMENTS = frozenset({"__align__", "alignas", "__attribute__", "__builtin_align__"})
_STORAGE = frozenset({"extern", "__shared__", "static"})
_SPACES = frozenset({"__device__", "__constant__"})


def dynamic_shared(run: tuple[Token, ...]) -> Iterator[Edit]:
    """`extern __shared__ T s[];` becomes a reference to the block's dynamic shared memory."""
    scopes: list[bool] = []  # of the enclosing braces: whether one is a namespace's
    i = 0
    while i < len(run):
        if run[i].text == "{":
            scopes.append(_is_namespace(run, i))
        elif run[i].text == "}" and scopes:
            scopes.pop()
        end = _declaration_end(run, i)
        if end is None:
            i += 1
            continue
        start = _before_alignment(run, i)
        last = run[end].end if end < len(run) else run[-1].end
        yield Edit(run[start].start, last, _references(run[start:end], all(scopes)))
        i = end + 1


def _is_namespace(run: tuple[Token, ...], i: int) -> bool:
    """Whether the brace at `i` opens a namespace or `extern "C"`."""
    while i > 0 and (run[i - 1].kind in ("name", "string") or run[i - 1].text == "::"):
        i -= 1
        if run[i].text in ("namespace", "extern"):
            return True
    return False


def _declaration_end(run: tuple[Token, ...], i: int) -> int | None:
    """The index of the `;` of the `extern __shared__` declaration whose first word is at `i`."""
    if run[i].text not in ("extern", "__shared__"):
        return None
    words: set[str] = set()
    while i < len(run) and run[i].text not in (";", "{", "}", "="):
        words.add(run[i].text)
        if run[i].text in ("(", "["):
            end = tokens.closing(run, i)
            if end is None:
                return None
            i = end
        i += 1
    return i if {"extern", "__shared__"} <= words else None


def _before_alignment(run: tuple[Token, ...], i: int) -> int:
    """The start of the declaration whose alignas(...) is before token `i`."""
    while i > 1 and run[i - 1].text == ")":
        start = tokens.opening(run, i - 1)
        if not start or run[start - 1].text not in _ALIGNMENTS:
            break
        i = start - 1
    return i


def _references(declaration: Sequence[Token], at_file_scope: bool) -> str:
    """The references for the declarators (rarely several) of one `extern __shared__`.

    At file scope the table of entries defines them (glue.py). So the compiler takes them for
    constants, and no hook sees them read.
    """
    groups = filter(None, split_arguments(_without_storage(declaration)))
    made = []
    base = ""
    for group in groups:
        at = next((i for i, token in enumerate(group) if token.text == "["), len(group))
        if not base:
            base = " ".join(token.text for token in group[: max(0, at - 1)])
        name = group[at - 1].text
        shape = "".join(token.text for token in group[at:])
        if at_file_scope:
            made.append(f'extern {base} (&{name}){shape} __asm__("{glue.REFERENCE_SYMBOL}");')
        else:
            cast = f"*reinterpret_cast<{base} (*){shape}>(::warpgrade_dynamic_memory())"
            made.append(f"{base} (&{name}){shape} = {cast};")
    return " ".join(made)


def _without_storage(declaration: Sequence[Token]) -> list[Token]:
    kept: list[Token] = []
    i = 0
    while i < len(declaration):
        if declaration[i].text in _ALIGNMENTS:
            end = tokens.closing(declaration, i + 1)
            i = (end if end is not None else i) + 1
            continue
        if declaration[i].text not in _STORAGE:
            kept.append(declaration[i])
        i += 1
    return kept


def aligned_shared(run: tuple[Token, ...]) -> Iterator[Edit]:
    """`__shared__ alignas(16) T s[4];` with the alignment first: g++ takes it only there."""
    for i, token in enumerate(run):
        end = i
        while [t.text for t in run[end + 1 : end + 3]] == ["alignas", "("]:
            end = tokens.closing(run, end + 2) or len(run)
        is_extern = end + 1 < len(run) and run[end + 1].text == "extern"  # see dynamic_shared
        if token.text == "__shared__" and i < end < len(run) and not is_extern:
            alignment = " ".join(t.text for t in run[i + 1 : end + 1])
            yield Edit(token.start, run[end].end, f"{alignment} __shared__")


def in_sections(run: tuple[Token, ...]) -> Iterator[Edit | Trouble]:
    """Put `__device__` and `__constant__` variables in sections that the runtime knows."""
    for i, token in enumerate(run):
        if token.text not in _SPACES or not _is_plain_variable(run, i):
            continue
        behind = [each.text for each in run[i + 2 : i + 3]]
        if run[_statement_start(run, i)].text == "template":  # the linker keeps them elsewhere
            yield Trouble(token.start, f"variable templates in {token.text} memory")
        elif i and run[i - 1].text == "}" and behind[0] in (";", "=", "[", ","):
            yield Trouble(token.start, f"{token.text} behind the body of a variable's class")
        else:
            section = "warpgrade_" + token.text.strip("_")
            yield Edit(token.start, token.end, f'__attribute__((section("{section}")))')


def _is_plain_variable(run: tuple[Token, ...], i: int) -> bool:
    """Whether token `i` qualifies a variable, or a template of one, that isn't constant."""
    start = _statement_start(run, i)
    if run[i].text in {t.text for t in run[start:i]}:
        return False
    words = [token.text for token in run[start:i]]
    if words[:1] == ["template"] and ">" in words:  # `class` of its parameters is none
        words = words[len(words) - words[::-1].index(">") :]
    j = _behind_class(run, i + 1)
    names = int(j > i + 1 or (i > 0 and run[i - 1].text == "}"))  # a class of its own
    while j < len(run) and run[j].text not in (";", "=", "[", "{", "(", ","):
        words.append(run[j].text)
        if run[j].text in _ALIGNMENTS:
            j = tokens.closing(run, j + 1) or len(run)
        elif run[j].text == "<":
            j = _end_of_arguments(run, j)
        names += j < len(run) and run[j].kind == "name"
        j += 1
    own = words[-words[::-1].index("*") :] if "*" in words[:-1] else words  # a pointer's own
    forbidden = {"constexpr", "inline", "struct", "class", "operator", "typedef", "using"}
    is_plain = not forbidden & {*words} and "const" not in own
    if _is_pointer_in_parentheses(run, j):  # float (*f)(float), int (*rows)[8]
        return names >= 1 and is_plain
    is_function = run[j : j + 1] and run[j].text == "(" and not _is_value(run[j + 1 : j + 2])
    return j < len(run) and not is_function and names >= 2 and is_plain


def _end_of_arguments(run: tuple[Token, ...], start: int) -> int:
    """The last `>` of the declared type whose first list of template arguments is at `start`.

    Lists may be nested, have comparisons, and stand one behind the other:
    `typename A<B<C>::value == 2>::template D<E>`.
    """
    last = j = start
    while j < len(run) and run[j].text not in (";", "{") and not _is_assignment(run, j):
        if run[j].text in ("(", "["):
            j = tokens.closing(run, j) or len(run)
        elif run[j].text in (">", ">>"):
            last = j
        j += 1
    return last


def _is_assignment(run: tuple[Token, ...], j: int) -> bool:
    around = [each.text for each in run[j - 1 : j + 2]]
    return run[j].text == "=" and around[0] not in ("=", "!", "<", ">") and around[2:] != ["="]


def _statement_start(run: tuple[Token, ...], i: int) -> int:
    while i > 0 and run[i - 1].text not in (";", "}", "{", ")", ":"):
        i -= 1
    return i


def _behind_class(run: tuple[Token, ...], j: int) -> int:
    """Behind `struct Name`, or `struct { ... }`, where that begins at `j`; else `j`."""
    if j + 2 >= len(run) or run[j].text not in ("struct", "class", "union"):
        return j
    j += 1 + (run[j + 1].kind == "name")
    return (tokens.closing(run, j) or len(run)) + 1 if run[j].text == "{" else j


def _is_value(first: tuple[Token, ...]) -> bool:
    """Whether parentheses that begin so hold a variable's first value: `float bias(0.5f);`."""
    return any(each.kind == "number" or each.text in ("-", "nullptr", "{") for each in first)


def _is_pointer_in_parentheses(run: tuple[Token, ...], j: int) -> bool:
    """Whether `(*name)` or `(*name[2])` is at token `j`, and no function that returns a pointer."""
    words = [token.text for token in run[j : j + 4]]
    return words[:2] == ["(", "*"] and words[2:3] != ["const"] and words[3:] in ([")"], ["["])
