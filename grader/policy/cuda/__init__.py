"""The rules on CUDA source: what a .cu file may ask of the compiler and of the machine.

`check` uses the emulator's lexer (emulator/lexer.py). Nothing is preprocessed, compiled or run. It
sees tokens, preprocessor lines and braces. They show what is included, which names occur, what ##
can build, and whether assembly is in device code. It knows no types and expands no macros. What it
can't decide it refuses only where honest code has no use for it. The sandbox and the check of an
object's symbols don't depend on it.

    findings.py    the rules' names and advice
    names.py       tables: headers, names, attributes, pragmas
    directives.py  #include, #define, #pragma, ##
    attributes.py  __attribute__, [[...]]
    scopes.py      the function and class of a token
    functions.py   functions and their bodies
    placement.py   assembly, replaced functions, code that runs before and after the entry
    check.py       names, and all checks together
"""

from __future__ import annotations

from grader.policy.cuda.check import check
from grader.policy.cuda.findings import CUDA_RULES

__all__ = ["CUDA_RULES", "check"]
