"""Mistakes that the source of a failing submission shows, by patterns and Python's syntax tree.

Arguments passed for each other's parameters, axes that a grid doesn't have, loops that don't end
and locals without a value: each row gives a cause only where the source shows all of it. The source
is untrusted, so what would take long on a contrived one is bounded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from grader.executors.runner import CaseResult
from grader.grading.diagnosis import Cause
from grader.status import Status

MOST_PLACES = 200  # declarations, loops, kernels or launches that are looked at


@dataclass(frozen=True)
class Context:
    """A failure and the source of the submission's file."""

    result: CaseResult
    source: str
    is_triton: bool

    @property
    def words(self) -> str:
        """The failure in the grader's, the compiler's or Python's words."""
        return self.result.verdict.what

    @cached_property
    def lines(self) -> list[str]:
        """The source's lines."""
        return self.source.splitlines()

    @property
    def line(self) -> str:
        """The line of the failure, or ""."""
        number = self.result.line or 0
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    @cached_property
    def code(self) -> str:
        """A CUDA source with blanks in the place of comments, so that offsets stay."""
        return _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), self.source)


_COMMENT = re.compile(r"//[^\n]*|/\*.{0,5000}?\*/", re.DOTALL)


# --- launches ----------------------------------------------------------------------------------


def _exchanged_arguments(context: Context) -> Cause | None:
    """A launch that passes two arguments each for the parameter of the other's name."""
    if context.result.status in (Status.compile_error, Status.import_error):
        return None
    launches = _triton_launches(context) if context.is_triton else _cuda_launches(context)
    for kernel, parameters, arguments in islice(launches, MOST_PLACES):
        if len(arguments) > MOST_PLACES:
            continue
        plain = [_plain(each) for each in parameters]
        given = [_plain(each) for each in arguments]
        for i, name in enumerate(given[: len(plain)]):
            if not name or name == plain[i] or plain.count(name) != 1:
                continue
            j = plain.index(name)
            if j > i and j < len(given) and given[j] != plain[j] and _fits(given[j], plain[i]):
                return Cause(
                    "exchanged_arguments",
                    f"The launch of `{kernel}` passes `{arguments[i]}` for the parameter "
                    f"`{parameters[i]}`, and `{arguments[j]}` for `{parameters[j]}`",
                    "Exchange the two arguments.",
                )
    return None


def _plain(name: str) -> str:
    """A name as arguments and parameters share it: `n_cols` and `cols`, `x_ptr` and `x`."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return name
    return re.sub(r"^(?:n|num|d)_|_(?:ptr|pointer|size)$", "", name.lower())


def _fits(argument: str, parameter: str) -> bool:
    return argument == parameter or argument in parameter or parameter in argument


_Launch = tuple[str, list[str], list[str]]


def _triton_launches(context: Context) -> Iterator[_Launch]:
    tree = _tree(context.source)
    if tree is None:
        return
    functions: Mapping[str, list[str]] = {
        node.name: [each.arg for each in node.args.args]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    chosen: dict[str, str] = {}  # `kernel = one_kernel if ... else other_kernel`
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names = [each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)]
            for name in names:
                if name in functions:
                    chosen.setdefault(node.targets[0].id, name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            name = ast.unparse(node.func.value)
            name = chosen.get(name, name)
            if name in functions:
                yield name, functions[name], [ast.unparse(each) for each in node.args]


_KERNEL = re.compile(r"__global__[^({;]{0,200}?\b(\w+)\s*\(([^)]{0,1000})\)\s*\{")
_LAUNCH = re.compile(r"\b(\w{1,80})\s*<<<[^;]{0,300}?>>>\s*\(([^;]{0,1000})\)\s*;")


def _cuda_launches(context: Context) -> Iterator[_Launch]:
    functions = {
        match[1]: [re.findall(r"\w+", each)[-1] for each in match[2].split(",") if each.strip()]
        for match in islice(_KERNEL.finditer(context.code), MOST_PLACES)
    }
    for match in islice(_LAUNCH.finditer(context.code), MOST_PLACES):
        if match[1] in functions and "(" not in match[2]:
            yield match[1], functions[match[1]], [each.strip() for each in match[2].split(",")]


# --- grids -------------------------------------------------------------------------------------

_GENERAL = frozenset({"pid", "program", "id", "block", "tile", "idx", "index"})


def _axes(context: Context) -> Cause | None:
    """A program id of an axis that the grid doesn't have, or of the axis meant for another."""
    if not context.is_triton or context.result.status in (
        Status.compile_error,
        Status.import_error,
    ):
        return None
    tree = _tree(context.source)
    if tree is None:
        return None
    ids = {
        node.name: dict(_program_ids(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    for kernel, grid in _grids(tree, ids.keys()):
        for name, axis in ids[kernel].items():
            if axis >= len(grid):
                axes = "one axis" if len(grid) == 1 else f"{len(grid)} axes"
                return Cause(
                    "missing_axis",
                    f"`tl.program_id({axis})` is always 0: the grid of `{kernel}` has {axes}",
                    "Axes count from 0: take one that the grid has.",
                )
            own, others = grid[axis], [each for at, each in enumerate(grid) if at != axis]
            words = set(name.lower().split("_")) - _GENERAL
            if words and not words & own and any(words & each for each in others):
                return Cause(
                    "exchanged_axes",
                    f"`{name}` is taken from axis {axis} of the grid, and the programs along it "
                    "are counted on another axis",
                    "Exchange the axes in tl.program_id, or the numbers in the grid.",
                )
    return None


def _tree(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _program_ids(kernel: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    """The names of a kernel's program ids, with their axes."""
    for node in ast.walk(kernel):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        for call in ast.walk(node.value):
            if (
                isinstance(call, ast.Call)
                and ast.unparse(call.func) == "tl.program_id"
                and len(call.args) == 1
                and isinstance(call.args[0], ast.Constant)
                and isinstance(call.args[0].value, int)
            ):
                yield node.targets[0].id, call.args[0].value


def _grids(tree: ast.Module, kernels: Set[str]) -> Iterator[tuple[str, list[set[str]]]]:
    """Each launched kernel with its grid: the words in the names of each axis' number."""
    for kernel, grid in _launches(tree):
        if kernel in kernels:
            yield kernel, [_words_in(each) for each in grid.elts]


def _launches(tree: ast.Module) -> Iterator[tuple[str, ast.Tuple]]:
    """What is launched, with the expression of its grid."""
    values = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            grid = node.func.slice
            if isinstance(grid, ast.Name):
                grid = values.get(grid.id, grid)
            if isinstance(grid, ast.Lambda):
                grid = grid.body
            if isinstance(grid, ast.Tuple):
                yield ast.unparse(node.func.value), grid


def _words_in(node: ast.expr) -> set[str]:
    names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    names += [str(each.value) for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return {word for name in names for word in name.lower().split("_")}


# --- strides -----------------------------------------------------------------------------------

_BY_STRIDES = frozenset(
    {
        Status.invalid_read,
        Status.wrote_out_of_bounds,
        Status.data_race,
        Status.not_written,
        Status.not_finite,
        Status.wrong_values,
    }
)


def _strides(context: Context) -> Cause | None:
    """A kernel that never uses a stride, or a launch that passes something else for one."""
    laid_out = context.result.case is not None and bool(context.result.case.layouts)
    is_likely = context.is_triton and laid_out and context.result.status in _BY_STRIDES
    tree = _tree(context.source) if is_likely else None
    if tree is None:
        return None
    launched = {name: arguments for name, _, arguments in _triton_launches(context)}
    for kernel in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        if kernel.name not in launched:
            continue
        parameters = [each.arg for each in kernel.args.args]
        used = {node.id for node in ast.walk(kernel) if isinstance(node, ast.Name)}
        for parameter in parameters:
            if parameter.startswith("stride") and parameter not in used:
                return Cause(
                    "unused_stride",
                    f"`{kernel.name}` never uses its parameter `{parameter}`",
                    "Each tensor is reached by its own strides: they differ where rows are padded.",
                )
        for parameter, argument in zip(parameters, launched[kernel.name], strict=False):
            is_size = argument.isidentifier() and "stride" not in argument
            if parameter.startswith("stride") and is_size:
                if re.search(
                    rf"\b{argument}\b[^=\n]{{0,80}}=[^=\n]{{0,200}}stride", context.source
                ):
                    continue
                return Cause(
                    "no_stride",
                    f"The launch of `{kernel.name}` passes `{argument}` for `{parameter}`",
                    "Pass the tensor's own stride, as in out.stride(0): rows can lie further apart "
                    "than they are long.",
                )
    return None


# --- masks and numbers of blocks ---------------------------------------------------------------

_OUTSIDE = (Status.invalid_read, Status.wrote_out_of_bounds)
_MASK_AT = {"tl.load": 1, "tl.store": 2}  # the place of the mask among the arguments


def _without_mask(context: Context) -> Cause | None:
    """A load or store past the end that has no mask."""
    if not context.is_triton or context.result.status not in _OUTSIDE:
        return None
    tree = _tree(context.source)
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.Call) or node.lineno != context.result.line:
            continue
        name = ast.unparse(node.func)
        masked = any(each.arg in ("mask", "boundary_check", None) for each in node.keywords)
        if name in _MASK_AT and not masked and len(node.args) <= _MASK_AT[name]:
            return Cause(
                "without_mask",
                f"This `{name}` has no mask, and the last block goes past the end",
                "Pass mask=, which is true only for what is inside, in each dimension.",
            )
    return None


def _rounded_down(context: Context) -> Cause | None:
    """A number of programs or blocks that is divided and rounded down."""
    if context.result.status is not Status.not_written:
        return None
    number = _rounded_in_triton(context) if context.is_triton else _rounded_in_cuda(context)
    if not number:
        return None
    up = "triton.cdiv" if context.is_triton else "(n + size - 1) / size"
    return Cause(
        "rounded_down",
        f"The grid is rounded down: with `{number}` the last, partly filled block has no "
        + ("program" if context.is_triton else "block"),
        f"Round up: {up}.",
    )


def _rounded_in_triton(context: Context) -> str:
    tree = _tree(context.source)
    if tree is None:
        return ""
    for _, grid in _launches(tree):
        for node in grid.elts:
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv):
                continue
            # `(n + BLOCK - 1) // BLOCK` rounds up.
            if isinstance(node.left, (ast.Name, ast.Call, ast.Attribute)):
                return ast.unparse(node)
    return ""


_QUOTIENT = r"(\w{1,60}\s*/\s*\w{1,60})"
_DIVIDED = re.compile(rf"\b(\w{{1,60}})\s*[=({{]\s*{_QUOTIENT}\s*[;)}}]")
_FIRST_OF_LAUNCH = re.compile(rf"<<<\s*(?:{_QUOTIENT}|(\w{{1,60}}))\s*,")


def _rounded_in_cuda(context: Context) -> str:
    divided = {match[1]: match[2] for match in islice(_DIVIDED.finditer(context.code), MOST_PLACES)}
    for match in islice(_FIRST_OF_LAUNCH.finditer(context.code), MOST_PLACES):
        if number := match[1] or divided.get(match[2], ""):
            return number
    return ""


# --- loops -------------------------------------------------------------------------------------

_LOOP = re.compile(
    r"\b(?:while\s*\(|for\s*\([^;(){}]{0,200};)(?P<condition>[^;{}]{0,200}?)(?:;\s*\)|\))\s*\{"
)


_CHANGES = r"\b{0}\b\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--|&)\s*{0}\b|\b{0}\b\s*(?:\+\+|--)"


def _endless(context: Context) -> Cause | None:
    """A loop in CUDA C++ that changes nothing of its condition."""
    if context.is_triton or context.result.status is not Status.timed_out:
        return None
    for match in islice(_LOOP.finditer(context.code), MOST_PLACES):
        names = set(re.findall(r"\b[A-Za-z_]\w*\b(?!\s*[(.])", match["condition"]))
        body = _body(context.code, match.end())
        leaves = re.search(r"\b(?:break|return|goto)\b|asm|volatile", body)
        if names and not leaves and not any(re.search(_CHANGES.format(n), body) for n in names):
            line = context.code.count("\n", 0, match.start()) + 1
            return Cause(
                "endless",
                f"The loop at line {line} never ends: nothing in it changes "
                f"`{match['condition'].strip()}`",
                "Advance the index in the loop.",
            )
    return None


def _body(code: str, start: int) -> str:
    """The text from `start`, just after an opening brace, to the brace that closes it."""
    depth = 1
    for at in range(start, len(code)):
        depth += (code[at] == "{") - (code[at] == "}")
        if not depth:
            return code[start:at]
    return code[start:]


# --- locals ------------------------------------------------------------------------------------

_OF_VALUES = frozenset(
    {Status.wrong_values, Status.not_finite, Status.nondeterministic, Status.uninitialised_read}
)
_DECLARED = re.compile(r"\b(?:float|double|int|unsigned|long|size_t)\s+(\w+)\s*;")


def _uninitialised(context: Context) -> Cause | None:
    """A local variable without a value, to which its first use adds."""
    if context.is_triton or context.result.status not in _OF_VALUES:
        return None
    for match in islice(_DECLARED.finditer(context.code), MOST_PLACES):
        name = match[1]
        if context.code[: match.start()].rstrip().endswith(("__shared__", "extern", "struct")):
            continue
        use = re.compile(rf"\b{name}\b").search(context.code, match.end())
        if use is None:
            continue
        behind = context.code[use.end() :]
        is_added_to = re.match(r"\s*(?:\+=|-=|\*=|\+\+)", behind)
        is_own = re.match(rf"\s*=(?!=)[^;]*\b{name}\b", behind)
        if is_added_to or is_own:
            declared, used = (
                context.code.count("\n", 0, at) + 1 for at in (match.start(), use.end())
            )
            return Cause(
                "uninitialised",
                f"`{name}` has no initial value at line {declared}, and line {used} adds to it",
                f"Write `{match[0].rstrip(';').strip()} = 0;`, or what the reduction begins with.",
            )
    return None


_SUM_IN_INT = re.compile(r"\bint\s+(\w{1,60})\s*=\s*0\s*;")
_OF_INTS = re.compile(r"\bint\s*\*|\bint\s+\w+\s*\[")


def _whole_number(context: Context) -> Cause | None:
    """A sum of floats that is kept in an int."""
    if (
        context.is_triton
        or context.result.status is not Status.wrong_values
        or _OF_INTS.search(context.code)
    ):
        return None
    for match in islice(_SUM_IN_INT.finditer(context.code), MOST_PLACES):
        if context.code[: match.start()].rstrip().endswith("("):
            continue  # of a for loop
        added = re.search(rf"\b{match[1]}\s*\+=\s*[^;\n]{{0,200}}\[", context.code)
        if added:
            return Cause(
                "whole_number",
                f"`{match[1]}` is an int, so each addition cuts off what is behind the point",
                "Declare it as a float.",
            )
    return None


TABLE: Sequence[Callable[[Context], Cause | None]] = (
    _exchanged_arguments,
    _axes,
    _without_mask,
    _rounded_down,
    _endless,
)
# What may be harmless: told only where no hypothesis explains the outputs.
SUSPECTS: Sequence[Callable[[Context], Cause | None]] = (
    _strides,
    _uninitialised,
    _whole_number,
)
