"""The rules on CUDA source: what a .cu file may ask of the compiler and of the machine.

`check` reads a file's text by the lexer that the emulator reads it by too (emulator/lexer.py);
nothing of it is preprocessed, compiled or run. It sees tokens, the preprocessor's lines, and where
braces open and close, which is enough to tell what is included, which names occur, what ## can put
together, and whether assembly stands in device code. It knows no types and expands no macros: what
it can't tell for certain it refuses only where honest code has no use for it. The sandbox and the
check of an object's symbols don't depend on it.

    findings.py    the rules' names and what to do in place of a violation
    names.py       tables: headers, names, attributes, pragmas
    directives.py  #include, #define, #pragma, ##
    attributes.py  __attribute__, [[...]]
    scopes.py      where a token stands
    functions.py   functions and their bodies, for those who look for empty ones
    placement.py   assembly, replaced functions, what runs before and after the entry
    check.py       names, and all of it together
"""

from __future__ import annotations

from grader.policy.cuda.check import check
from grader.policy.cuda.findings import CUDA_RULES

__all__ = ["CUDA_RULES", "check"]
