"""CUDA C++ to C++ that g++ accepts. Lines never shift: every edit keeps its line breaks.

    kernel<T><<<grid, block>>>(a, b)      ::warpgrade::launcher("kernel<T>", grid, block)
                                              (kernel<T>)(a, b)
    extern __shared__ float s[];          float (&s)[] = *reinterpret_cast<float (*)[]>(...);
    __device__ int counter;               the same, in the section of device variables
    __noinline__                          __attribute__((noinline))
    printf                                the runtime's, which knows device code from host code

Everything else of CUDA's is plain C++ with the headers in include/. Works on tokens (tokens.py), so
comments, texts and whatever no parser knows stay as they are, and macros' bodies are rewritten as
code is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from . import glue, tokens
from .tokens import Run, Source, Token

_NOT_A_CALLEE = frozenset({"if", "while", "for", "switch", "return", "else", "do", "case", "sizeof"})
_ALIGNMENTS = frozenset({"__align__", "alignas", "__attribute__", "__builtin_align__"})
_STORAGE = frozenset({"extern", "__shared__", "static"})
_SPACES = frozenset({"__device__", "__constant__"})
_SPACE_OR_COMMENT = re.compile(r"\\\r?\n|//(?:\\\r?\n|[^\n])*|/\*.*?\*/|\s+", re.DOTALL)


@dataclass(frozen=True)
class Edit:
    """Replaces source[start:end]; the replacement has as many line breaks as what it replaces."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Trouble:
    """A place that can't be rewritten."""

    offset: int
    message: str


@dataclass(frozen=True)
class Rewritten:
    text: str
    troubles: tuple[Trouble, ...]
    launches: tuple[int, ...]  # offsets of `<<<` in the source
    kernels: frozenset[str] = frozenset()  # names declared as __global__


@dataclass
class _Kernel:
    """What is known of a kernel's declarations by name."""

    template_parameters: int = 0
    has_defaults: bool = False
    signatures: set[str] = field(default_factory=set)

    def is_deduced(self, explicit: int) -> bool:
        """Whether its type follows only from the arguments of a launch."""
        overloaded = len(self.signatures) > 1
        return overloaded or self.has_defaults or explicit < self.template_parameters


def rewrite(source: Source) -> Rewritten:
    """The whole file. What it can't rewrite is a Trouble, and stays as it was."""
    edits: list[Edit] = []
    troubles: list[Trouble] = []
    launches: list[int] = []
    kernels = _kernels(source.code.tokens)
    for run in source.runs():
        for i, token in enumerate(run.tokens):
            if token.text == "<<<" and not _is_operator(run.tokens, i):
                launches.append(token.start)
                made = _launch(source.text, run, i, kernels)
                if isinstance(made, Trouble):
                    troubles.append(made)
                else:
                    edits.extend(made)
        edits.extend(_dynamic_shared(source.text, run.tokens))
        edits.extend(_space_variables(run.tokens))
        edits.extend(_single_tokens(run.tokens))
    text = _apply(source.text, edits)
    return Rewritten(text, tuple(troubles), tuple(sorted(launches)), frozenset(kernels))


def _apply(text: str, edits: Sequence[Edit]) -> str:
    parts, position = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            continue  # inside one that is made already: a variable in a dynamic declaration
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])


def _is_operator(run: Sequence[Token], i: int) -> bool:
    return i > 0 and run[i - 1].text == "operator"


# ---- Launches ------------------------------------------------------------------------------------


def _launch(text: str, run: Run, at: int, kernels: dict[str, _Kernel]) -> list[Edit] | Trouble:
    """The edits for the launch whose `<<<` is token `at`."""
    found = run.tokens
    first = _callee_start(found, at)
    end = _configuration_end(found, at)
    if first is None or end is None or found[end + 1 : end + 2] == () or found[end + 1].text != "(":
        return Trouble(found[at].start, "a launch in a form that the emulator doesn't understand")
    callee = found[first:at]
    source = text[callee[0].start : callee[-1].end]
    kernel = _SPACE_OR_COMMENT.sub(" ", source)
    known = kernels.get(_base_name(callee))
    if known and known.is_deduced(_explicit_arguments(callee)):
        function = f".deduced([&](auto... argument) WARPGRADE_UNSEEN {{ {kernel}(argument...); }})"
    else:
        function = f"({kernel})"
    # The name's line breaks stay where they were; it moves behind the configuration.
    kept = text[callee[0].start : found[at].start]
    before = "::warpgrade::launcher(" + _name(kernel, callee, run) + "," + _line_breaks(kept)
    return [
        Edit(callee[0].start, found[at].end, before),
        Edit(found[end].start, found[end].end, ")" + function),
    ]


def _line_breaks(text: str) -> str:
    """The line breaks of a piece of source, spliced ones still spliced."""
    return "".join(re.findall(r"\\?\r?\n", text))


def _name(kernel: str, callee: Sequence[Token], run: Run) -> str:
    """A string literal: the kernel as the source calls it; in a macro, as its user does."""
    if len(callee) == 1 and callee[0].text in run.parameters:
        return "#" + callee[0].text
    return '"' + re.sub(r"\s+", "", kernel).replace("\\", "").replace('"', "'") + '"'


def _callee_start(run: Sequence[Token], at: int) -> int | None:
    """Where the expression that ends before token `at` starts: a::b<T>, x.y, (*p), p->k[3]."""
    i = at - 1
    while i >= 0:
        text = run[i].text
        if text in (">", ">>", ">>>"):
            start = _angle_start(run, i)
            if start is None or start == 0 or run[start - 1].kind != "name":
                return None
            i = start - 1
        elif text in (")", "]"):
            start = tokens.opening(tuple(run), i)
            if start is None:
                return None
            i = start
            has_base = i > 0 and (run[i - 1].kind == "name" or run[i - 1].text in (")", "]"))
            if text == "]" and has_base:
                i -= 1
                continue
            if text == ")" and i > 0 and run[i - 1].kind == "name":
                if run[i - 1].text not in _NOT_A_CALLEE:
                    i -= 1
                    continue
        elif run[i].kind != "name":
            return None
        elif text in _NOT_A_CALLEE:
            return None
        if i > 0 and run[i - 1].text == "template":
            i -= 1
        before = run[i - 1].text if i > 0 else ""
        if before == "::":
            qualified = i > 1 and (run[i - 2].kind == "name" or run[i - 2].text in (">", ">>"))
            if not qualified or run[i - 2].text in _NOT_A_CALLEE:
                return i - 1
            i -= 2
        elif before in (".", "->") and i > 1:
            i -= 2
        else:
            return i
    return None


def _angle_start(run: Sequence[Token], at: int) -> int | None:
    """The index of the `<` that the `>` at `at` closes, brackets inside it skipped."""
    depth, i = 0, at
    while i >= 0:
        text = run[i].text
        if text in (">", ">>", ">>>"):
            depth += len(text)
        elif text in ("<", "<<"):
            depth -= len(text)
            if depth <= 0:
                return i if depth == 0 else None
        elif text in (")", "]", "}"):
            start = tokens.opening(tuple(run), i)
            if start is None:
                return None
            i = start
        elif text in (";", "{", "("):
            return None
        i -= 1
    return None


def _configuration_end(run: tuple[Token, ...], at: int) -> int | None:
    i = at + 1
    while i < len(run):
        if run[i].text == ">>>":
            return i
        if run[i].text in ("(", "[", "{"):
            end = tokens.closing(run, i)
            if end is None:
                return None
            i = end
        elif run[i].text in (")", "]", "}", ";", "<<<"):
            return None
        i += 1
    return None


def _base_name(callee: Sequence[Token]) -> str:
    """`k` of a::k<T>: the last name outside template arguments."""
    if callee[-1].text in (">", ">>", ">>>"):
        start = _angle_start(callee, len(callee) - 1)
        return callee[start - 1].text if start else ""
    return callee[-1].text


def _explicit_arguments(callee: Sequence[Token]) -> int:
    if callee[-1].text not in (">", ">>", ">>>"):
        return 0
    start = _angle_start(callee, len(callee) - 1)
    return _count_arguments(callee[(start or 0) + 1 : -1])


def _count_arguments(inside: Sequence[Token]) -> int:
    """How many arguments a list has, given what stands between its brackets."""
    depth, count = 0, 1 if inside else 0
    for token in inside:
        if token.text in ("(", "[", "{", "<"):
            depth += 1
        elif token.text in (")", "]", "}", ">", ">>"):
            depth -= len(token.text)
        elif token.text == "," and depth == 0:
            count += 1
    return count


def _kernels(run: tuple[Token, ...]) -> dict[str, _Kernel]:
    """The kernels that the file declares, by name."""
    kernels: dict[str, _Kernel] = {}
    for i, token in enumerate(run):
        if token.text != "__global__":
            continue
        found = _declared_function(run, i)
        if not found:
            continue
        name, start, end = found
        kernel = kernels.setdefault(name, _Kernel())
        inside = run[start + 1 : end]
        kernel.has_defaults |= any(token.text == "=" for token in inside)
        kernel.signatures.add(" ".join(t.text for t in inside if t.text != "const")[:2000])
        kernel.template_parameters = max(kernel.template_parameters, _template_parameters(run, i))
    for kernel in kernels.values():
        if kernel.template_parameters == 0 and len(kernel.signatures) == 2:
            # A declaration and its definition name parameters differently: not overloads.
            counts = {_count_commas(signature) for signature in kernel.signatures}
            if len(counts) == 1 and _same_types(kernel.signatures):
                kernel.signatures.pop()
    return kernels


def _count_commas(signature: str) -> int:
    return signature.count(",")


def _same_types(signatures: set[str]) -> bool:
    """Whether parameter lists agree but for the parameters' names."""

    def types(signature: str) -> list[str]:
        stripped = [re.sub(r"=.*", "", part).strip() for part in signature.split(",")]
        return [re.sub(r"(?<=[\s*&])[^\W\d]\w*$", "", part).strip() for part in stripped]

    first, *others = [types(signature) for signature in signatures]
    return all(other == first for other in others)


def _declared_function(run: tuple[Token, ...], i: int) -> tuple[str, int, int] | None:
    """Name and parameter list (indices of its brackets) of the function declared from `i` on."""
    while i + 1 < len(run) and run[i].text not in (";", "{", "}", "="):
        is_list = run[i].kind == "name" and run[i + 1].text == "("
        end = tokens.closing(run, i + 1) if is_list else None
        if is_list and end is None:
            return None
        if is_list and end is not None:
            attribute = run[i].text.startswith("__") or run[i].text == "alignas"
            if not attribute:
                return run[i].text, i + 1, end
            i = end
        i += 1
    return None


def _template_parameters(run: tuple[Token, ...], i: int) -> int:
    """Template parameters without a default of the declaration that token `i` belongs to."""
    while i > 0 and run[i - 1].text not in (";", "}", "{", ":"):
        i -= 1
        if run[i].text == "template" and run[i + 1].text == "<":
            depth = 0
            for j in range(i + 1, len(run)):
                depth += {"<": 1, ">": -1, ">>": -2}.get(run[j].text, 0)
                if depth <= 0:
                    inside = run[i + 2 : j]
                    if any(t.text == "." for t in inside):  # a parameter pack
                        return 1000
                    return _count_arguments(inside)
    return 0


# ---- Variables -----------------------------------------------------------------------------------


def _dynamic_shared(text: str, run: tuple[Token, ...]) -> Iterator[Edit]:
    """`extern __shared__ T s[];` becomes a reference to the block's dynamic shared memory."""
    scopes: list[bool] = []  # of the braces around: is it a namespace's?
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
        made = _references(run[start:end], all(scopes))
        yield Edit(run[start].start, last, made + _line_breaks(text[run[start].start : last]))
        i = end + 1


def _is_namespace(run: tuple[Token, ...], i: int) -> bool:
    """Whether the brace at `i` opens a namespace or `extern "C"`."""
    while i > 0 and (run[i - 1].kind in ("name", "text") or run[i - 1].text == "::"):
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
    """Where the declaration starts that an alignas(...) before token `i` belongs to."""
    while i > 1 and run[i - 1].text == ")":
        start = tokens.opening(run, i - 1)
        if not start or run[start - 1].text not in _ALIGNMENTS:
            break
        i = start - 1
    return i


def _references(declaration: Sequence[Token], at_file_scope: bool) -> str:
    """The references for the declarators (rarely several) of one `extern __shared__`.

    At file scope it is one that the table of entries defines (glue.py): the compiler then takes it
    for a constant, and no hook sees it read.
    """
    groups = _split_declarators(_without_storage(declaration))
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
            cast = f"*reinterpret_cast<{base} (*){shape}>(::warpgrade_dynamic_shared)"
            made.append(f"{base} (&{name}){shape} = {cast};")
    return " ".join(made)


def _without_storage(declaration: Sequence[Token]) -> list[Token]:
    kept: list[Token] = []
    i = 0
    while i < len(declaration):
        if declaration[i].text in _ALIGNMENTS:
            end = tokens.closing(tuple(declaration), i + 1)
            i = (end if end is not None else i) + 1
            continue
        if declaration[i].text not in _STORAGE:
            kept.append(declaration[i])
        i += 1
    return kept


def _split_declarators(kept: Sequence[Token]) -> list[list[Token]]:
    groups: list[list[Token]] = [[]]
    depth = 0
    for token in kept:
        depth += {"<": 1, "(": 1, "{": 1, ">": -1, ")": -1, "}": -1, ">>": -2}.get(token.text, 0)
        if token.text == "," and depth == 0:
            groups.append([])
        else:
            groups[-1].append(token)
    return [group for group in groups if group]


def _space_variables(run: tuple[Token, ...]) -> Iterator[Edit]:
    """Puts `__device__` and `__constant__` variables in sections, where the runtime knows them."""
    for i, token in enumerate(run):
        if token.text in _SPACES and _is_plain_variable(run, i):
            section = "warpgrade_" + token.text.strip("_")
            yield Edit(token.start, token.end, f'__attribute__((section("{section}")))')


def _is_plain_variable(run: tuple[Token, ...], i: int) -> bool:
    """Whether token `i` qualifies a variable that may lie in a section: no constant, no template
    (the linker keeps those in sections of their own kind)."""
    start = i
    while start > 0 and run[start - 1].text not in (";", "}", "{", ")", ":"):
        start -= 1
    if run[start].text == "template" or run[i].text in {t.text for t in run[start:i]}:
        return False
    words = {token.text for token in run[start:i]}
    names, j = 0, i + 1
    while j < len(run) and run[j].text not in (";", "=", "[", "{", "(", ","):
        words.add(run[j].text)
        if run[j].text in _ALIGNMENTS:
            j = tokens.closing(run, j + 1) or len(run)
        elif run[j].text == "<":
            while j < len(run) and run[j].text not in (">", ";"):
                j += 1
        names += j < len(run) and run[j].kind == "name"
        j += 1
    forbidden = {"const", "constexpr", "inline", "struct", "class", "operator", "typedef", "using"}
    return j < len(run) and run[j].text != "(" and names >= 2 and not words & forbidden


def _single_tokens(run: tuple[Token, ...]) -> Iterator[Edit]:
    for i, token in enumerate(run):
        before = run[i - 1].text if i else ""
        if token.text == "__noinline__" and not (before == "(" and i > 1 and run[i - 2].text == "("):
            yield Edit(token.start, token.end, "__attribute__((noinline))")
        elif token.text == "static" and i + 1 < len(run) and run[i + 1].text == "__shared__":
            yield Edit(token.start, token.end, "")
