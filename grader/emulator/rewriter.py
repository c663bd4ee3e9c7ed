"""CUDA C++ to C++ that g++ accepts. Lines never shift: every edit keeps its line breaks.

    kernel<T><<<grid, block>>>(a, b)      ::warpgrade::launcher("kernel<T>", grid, block)
                                              (kernel<T>)(a, b)
    extern __shared__ float s[];          float (&s)[] = *reinterpret_cast<float (*)[]>(...);
    __shared__ alignas(16) int s[4];      alignas(16) __shared__ int s[4];
    __device__ int counter;               the same, in the section of device variables
    cudaLaunchKernel((void*)kernel, ...)  cudaLaunchKernel(kernel, ...)
    __global__ void                       the same, with a mark at the start of the body
        __launch_bounds__(64) k() {...}
    __noinline__                          __attribute__((noinline))
    a library's header                    nothing, where the file doesn't use it

Other CUDA code is plain C++ with the headers in include/. The rewriter works on tokens (tokens.py).
So comments, strings and unknown constructs stay as they are, and macros' bodies are rewritten like
code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import kernels, launches, tokens, unsupported, variables
from .lexer import Token
from .tokens import Edit, Source, Trouble, apply


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
    for run in source.runs():
        for i, token in enumerate(run.tokens):
            if launches.is_launch(run.tokens, i):
                places.append(token.start)
                made = launches.rewrite(source.text, run, i, known)
                if isinstance(made, Trouble):
                    troubles.append(made)
                else:
                    edits.extend(made)
        edits.extend(launches.casts_of_kernels(run.tokens))
        edits.extend(marks(run.tokens))
        edits.extend(variables.dynamic_shared(run.tokens))
        edits.extend(variables.aligned_shared(run.tokens))
        edits.extend(variables.in_sections(run.tokens))
        edits.extend(_single_tokens(run.tokens))
    for unused in unsupported.unused_includes(source):
        edits.append(Edit(unused.at.start, unused.end, ""))
    text = apply(source.text, edits)
    return Rewritten(text, tuple(troubles), tuple(sorted(places)), frozenset(known))


def _single_tokens(run: tuple[Token, ...]) -> Iterator[Edit]:
    for i, token in enumerate(run):
        in_attribute = [t.text for t in run[max(0, i - 2) : i]] == ["(", "("]
        if token.text == "__noinline__" and not in_attribute:
            yield Edit(token.start, token.end, "__attribute__((noinline))")
        elif token.text == "static" and "__shared__" in {
            t.text for t in run[max(0, i - 1) : i + 2]
        }:
            yield Edit(token.start, token.end, "")  # __shared__ includes its own


# --- the bounds of launches -----------------------------------------------------------------------

# Keeps `__launch_bounds__` of kernels: a mark at the start of the body, which the runtime reads.
#
# The compiler computes the number, so that it may be a constant, a macro or a template's parameter.
# A declaration without a body has none: there is no code to mark.

_ATTRIBUTE = "__launch_bounds__"


def marks(run: tuple[Token, ...]) -> Iterator[Edit]:
    """A mark in the body of each kernel with bounds; see include/warpgrade/qualifiers.h."""
    for i, token in enumerate(run):
        declared = kernels.declared_function(run, i) if token.text == "__global__" else None
        if declared is None:
            continue
        body = declared[2] + 1
        while body < len(run) and run[body].text not in ("{", ";", "}", "="):
            body += 1
        if body == len(run) or run[body].text != "{":
            continue
        threads = _threads(run, _start(run, i), body)
        if threads:
            end = run[body].end
            yield Edit(end, end, f" WARPGRADE_LAUNCH_BOUNDS(({threads}))")


def _start(run: tuple[Token, ...], i: int) -> int:
    while i > 0 and run[i - 1].text not in (";", "{", "}"):
        i -= 1
    return i


def _threads(run: tuple[Token, ...], start: int, end: int) -> str:
    """The first argument of the attribute in this part of the run, or ""."""
    for i in range(start, end):
        if run[i].text != _ATTRIBUTE or i + 1 == end or run[i + 1].text != "(":
            continue
        close = tokens.closing(run, i + 1)
        arguments = kernels.split_arguments(run[i + 2 : close]) if close else []
        return " ".join(token.text for token in arguments[0]) if arguments else ""
    return ""
