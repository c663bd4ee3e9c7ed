"""Whether a submission's file is still the stub, decided by reading it without running it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence

from grader.emulator.lexer import Token, lex
from grader.policy.cuda.functions import functions
from grader.policy.cuda.scopes import TooInvolved, is_sure


def is_untouched(source: str, entry: str, language: str = "triton") -> str:
    """Why the text `source` is no attempt at the function `entry`, or "" where it is one.

    No attempt is a file without code, or an entry that does nothing. In Python, its body raises
    NotImplementedError, or is `pass`, `...` or `return`; in CUDA, it is comments, `return;` and
    `(void)x;`. A file that reading can't decide (a syntax error, an entry that is missing or bound
    in another way) counts as an attempt: running it tells the student more.
    """
    if not source.strip():
        return "the file is empty"
    if language == "cuda":
        return _is_untouched_cuda(source, entry)
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    if all(map(_is_text, module.body)):
        return "the file holds nothing but comments"
    function = _last_definition(module, entry)
    if function is None or not _is_bare(function):
        return ""
    return _is_stub(entry, [name for name in _kernels_written(module) if name != entry])


def _is_stub(entry: str, written: Sequence[str]) -> str:
    """The sentence on an entry that is the stub; `written` are kernels that nothing launches."""
    listed = f": {', '.join(written)} is written, but not launched" if written else ""
    return f"{entry}() is still the stub{listed}"


def _last_definition(module: ast.Module, entry: str) -> ast.FunctionDef | None:
    """The module-level function that the name `entry` is finally bound to, or None."""
    defined = None
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == entry:
            defined = statement
        elif entry in _names_bound(statement):
            defined = None
    return defined


def _names_bound(statement: ast.stmt) -> set[str]:
    """Every name that `statement`, or a statement of its own block, binds in the module."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
    return names


def _kernels_written(module: ast.Module) -> list[str]:
    """Names of `jit` functions that have a body and that the rest of the file doesn't name.

    A kernel that the file names may be launched there: it belongs to another entry.
    """
    named = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    return [
        statement.name
        for statement in module.body
        if isinstance(statement, ast.FunctionDef)
        and statement.name not in named
        and any("jit" in ast.unparse(decorator) for decorator in statement.decorator_list)
        and not _is_bare(statement)
    ]


def _is_bare(function: ast.FunctionDef) -> bool:
    """Whether the body does nothing: strings, `pass`, `...`, `return`, NotImplementedError."""
    return all(_is_text(each) or _is_idle(each) for each in function.body)


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a string, such as a docstring, or `...`."""
    match statement:
        case ast.Expr(ast.Constant(value)):
            return isinstance(value, str) or value is ...
    return False


def _is_idle(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Return(None) | ast.Return(ast.Constant(None)):
            return True
        case ast.Raise(ast.Name(raised) | ast.Call(ast.Name(raised))):
            return raised == "NotImplementedError"
    return False


# --- CUDA -----------------------------------------------------------------------------------------


def _is_untouched_cuda(source: str, entry: str) -> str:
    lexed = lex(source)
    if not lexed.tokens:
        return "the file holds nothing but comments" if not lexed.problems else ""
    macros = {each.macro for each in lexed.directives}
    if lexed.problems or entry in macros or not is_sure(lexed.tokens, lexed.directives):
        return ""
    try:
        defined = functions(lexed.tokens)
    except TooInvolved:
        return ""
    entries = [each for each in defined if each.name == entry]
    if not entries or not all(_does_nothing(each.body) for each in entries):
        return ""
    named = Counter(token.text for token in lexed.tokens if token.kind == "name")
    # A kernel that the rest of the file names may be launched there: it belongs to another entry.
    written = [
        each.name
        for each in defined
        if each.is_kernel and named[each.name] == 1 and not _does_nothing(each.body)
    ]
    return _is_stub(entry, written)


def _does_nothing(body: Sequence[Token]) -> bool:
    """Whether a body holds only `;`, `return;`, `(void)name;` and blocks of such."""
    statement: list[str] = []
    for token in body:
        if token.text not in (";", "{", "}"):
            statement.append(token.text)
            continue
        match statement:
            case [] | ["return"] | ["(", "void", ")", _]:
                statement = []
            case _:
                return False
    return not statement
