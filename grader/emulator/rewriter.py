"""CUDA C++ to C++ that g++ accepts. Lines never shift: every edit keeps its line breaks.

    kernel<T><<<grid, block>>>(a, b)      ::warpgrade::launcher("kernel<T>", grid, block)
                                              (kernel<T>)(a, b)
    extern __shared__ float s[];          float (&s)[] = *reinterpret_cast<float (*)[]>(...);
    __shared__ alignas(16) int s[4];      alignas(16) __shared__ int s[4];
    __device__ int counter;               the same, in the section of device variables
    cudaLaunchKernel((void*)kernel, ...)  cudaLaunchKernel(kernel, ...)
    __global__ void                       the same, with a mark at the start of the body
        __launch_bounds__(64) k() {...}
    __noinline__                          nothing: what kernels call is inlined (qualifiers.h)
    asm("mov.u32 %0, %tid.x;" ...)        functions of warpgrade/ptx.h, where ptx.py knows it
    a library's header                    nothing, where isolation.py knows its names

Other CUDA code is plain C++ with the headers in include/. The rewriter works on tokens (tokens.py).
So comments, strings and unknown constructs stay as they are, and macros' bodies are rewritten like
code.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from . import kernels, launches, ptx, tokens, unsupported, variables
from .edits import Edit, Trouble, apply
from .lexer import Token
from .tokens import Source


@dataclass(frozen=True)
class Rewritten:
    """A file for g++."""

    text: str
    troubles: tuple[Trouble, ...]
    launches: tuple[int, ...]  # offsets of `<<<` in the source
    kernels: frozenset[str] = frozenset()  # names declared as __global__


def rewrite(source: Source) -> Rewritten:
    """The rewritten file; what can't be rewritten stays as it was and is a Trouble."""
    edits: list[Edit] = []
    troubles: list[Trouble] = []
    places: list[int] = []
    known = kernels.find(source.code.tokens)
    macros = {each.macro for each in source.directives}
    for run in source.runs():
        for i, token in enumerate(run.tokens):
            if token.text in ptx.WORDS and (translated := ptx.rewrite(run.tokens, i, macros)):
                edits.append(_with_names_kept(translated, run.parameters))
            if launches.is_launch(run.tokens, i):
                places.append(token.start)
                made = launches.rewrite(source.text, run, i, known)
                if isinstance(made, Trouble):
                    troubles.append(made)
                else:
                    edits.extend(_with_names_kept(each, run.parameters) for each in made)
        edits.extend(launches.casts_of_kernels(run.tokens))
        edits.extend(_bounds_marks(run.tokens))
        edits.extend(variables.dynamic_shared(run.tokens))
        edits.extend(variables.aligned_shared(run.tokens))
        for each in variables.in_sections(run.tokens):
            if isinstance(each, Trouble):
                troubles.append(each)
            else:
                edits.append(each)
        edits.extend(_single_tokens(run.tokens))
    for include in unsupported.known_includes(source):
        edits.append(Edit(include.at.start, include.end, ""))
    text = apply(source.text, edits)
    return Rewritten(text, tuple(troubles), tuple(sorted(places)), frozenset(known))


_OF_OURS = re.compile(r"(?:(?<=warpgrade::)|(?<=ptx::))(\w)(\w+)")


def _with_names_kept(edit: Edit, parameters: Container[str]) -> Edit:
    """An edit of a macro's body, where no name of ours is taken for one of these parameters.

    The preprocessor puts arguments in before it joins what stands beside ##.
    """

    def split(match: re.Match[str]) -> str:
        return f"{match[1]}##{match[2]}" if match[0] in parameters else match[0]

    return replace(edit, text=_OF_OURS.sub(split, edit.text))


MOST_BEFORE = 20  # tokens that are read to know whether a name stands in a list of attributes
_IN_ATTRIBUTE = re.compile(r"(?:__attribute__\(\((?:[\w,]|\([\w,]*\))*|gnu::)$")


def _single_tokens(run: tuple[Token, ...]) -> Iterator[Edit]:
    for i, token in enumerate(run):
        if token.text in ("noinline", "__noinline__"):
            before = "".join(t.text for t in run[max(0, i - MOST_BEFORE) : i])
            if _IN_ATTRIBUTE.search(before):
                yield Edit(token.start, token.end, "unused")
            elif token.text == "__noinline__":
                yield Edit(token.start, token.end, "")
        elif token.text == "static" and "__shared__" in {
            t.text for t in run[max(0, i - 1) : i + 2]
        }:
            yield Edit(token.start, token.end, "")  # __shared__ includes its own


_ATTRIBUTE = "__launch_bounds__"


def _bounds_marks(run: tuple[Token, ...]) -> Iterator[Edit]:
    """A mark in the body of each kernel with `__launch_bounds__`, which the runtime reads.

    The compiler computes the number, so that it may be a constant, a macro or a template's
    parameter (include/warpgrade/qualifiers.h). Bounds of a declaration without a body hold for the
    kernel's definition, as they do for nvcc. Those of a template's declaration don't: its
    parameters may have other names there.
    """
    bodies = []
    promised = {}
    for i, token in enumerate(run):
        declared = kernels.declared_function(run, i) if token.text == "__global__" else None
        if declared is None:
            continue
        name, opening, closing = declared
        body = closing + 1
        while body < len(run) and run[body].text not in ("{", ";", "}", "="):
            body += 1
        if body == len(run) or run[body].text not in ("{", ";"):
            continue
        kernel = name, kernels.types(run[opening + 1 : closing])
        start = tokens.statement_start(run, i)
        threads = _threads(run, start, body)
        if run[body].text == "{":
            bodies.append((run[body].end, kernel, threads))
        elif threads and run[start].text != "template":
            promised[kernel] = threads
    for end, kernel, threads in bodies:
        if threads := threads or promised.get(kernel, ""):
            yield Edit(end, end, f" WARPGRADE_LAUNCH_BOUNDS(({threads}))")


def _threads(run: tuple[Token, ...], start: int, end: int) -> str:
    """The first argument of the attribute in this part of the run, or ""."""
    for i in range(start, end):
        if run[i].text != _ATTRIBUTE or i + 1 == end or run[i + 1].text != "(":
            continue
        close = tokens.closing(run, i + 1)
        arguments = kernels.split_arguments(run[i + 2 : close]) if close else []
        return " ".join(token.text for token in arguments[0]) if arguments else ""
    return ""
