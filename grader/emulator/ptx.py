"""Inline assembly (PTX) to C++ with the functions of include/warpgrade/ptx.h, where it is known.

    asm volatile("mov.u32 %0, %%laneid;" : "=r"(x));      { ::warpgrade::ptx::put((x), ...); }

An instruction that isn't in the table below makes the whole statement an unsupported feature. The
semantics are those of NVIDIA's "PTX ISA".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from . import kernels, tokens
from .edits import Edit
from .lexer import Token

WORDS = ("asm", "__asm__", "__asm")
_VOLATILE = ("volatile", "__volatile__")
_OURS = "::warpgrade::ptx::"

_TYPES = {
    "u8": "unsigned char",
    "s8": "signed char",
    "b8": "unsigned char",
    "pred": "bool",
    "u16": "unsigned short",
    "s16": "short",
    "b16": "unsigned short",
    "f32": "float",
    "u32": "unsigned",
    "s32": "int",
    "b32": "unsigned",
    "f64": "double",
    "u64": "unsigned long long",
    "s64": "long long",
    "b64": "unsigned long long",
}
_T = rf"(?P<T>{'|'.join(_TYPES)})"
_SPECIAL = {
    **{f"%tid.{d}": f"threadIdx.{d}" for d in "xyz"},
    **{f"%ntid.{d}": f"blockDim.{d}" for d in "xyz"},
    **{f"%ctaid.{d}": f"blockIdx.{d}" for d in "xyz"},
    **{f"%nctaid.{d}": f"gridDim.{d}" for d in "xyz"},
    "%laneid": f"{_OURS}lane()",
    "%lanemask_eq": f"(1u << {_OURS}lane())",
    "%lanemask_lt": f"((1u << {_OURS}lane()) - 1)",
    "%lanemask_le": f"(((1u << {_OURS}lane()) - 1) | 1u << {_OURS}lane())",
    "%lanemask_gt": f"(~((1u << {_OURS}lane()) - 1) & ~(1u << {_OURS}lane()))",
    "%lanemask_ge": f"(~((1u << {_OURS}lane()) - 1))",
}
_SCOPES = {"cta": "warpgrade_scope_block", "gpu": "warpgrade_scope_device"}
_SCOPES |= {"sys": "warpgrade_scope_system", "": "warpgrade_scope_device"}
_ORDERS = {
    "relaxed": "__ATOMIC_RELAXED",
    "volatile": "__ATOMIC_RELAXED",
    "acquire": "__ATOMIC_ACQUIRE",
    "": "__ATOMIC_RELAXED",
}
_ORDERS |= {"release": "__ATOMIC_RELEASE", "acq_rel": "__ATOMIC_ACQ_REL"}
_ORDER = r"(?:\.(?P<order>relaxed|volatile|acquire|release|acq_rel))?(?:\.(?P<scope>cta|gpu|sys))?"
_SPACE = r"(?:\.(?P<space>global|shared))?(?:::cta)?"
_HINTS = r"(?:\.(?:ca|cg|cs|lu|cv|wb|wt)|\.L1::\w+|\.L2::\w+)*"

_BINARY = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "rem": "{0} % {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "min": _OURS + "least({0}, {1})",
    "max": _OURS + "most({0}, {1})",
    "shl": _OURS + "shifted_left({0}, {1})",
    "shr": _OURS + "shifted_right({0}, {1})",
}
_UNARY = {
    "ex2": "::exp2f({0})",
    "lg2": "::log2f({0})",
    "rcp": "1 / {0}",
    "neg": "-{0}",
    "rsqrt": "1 / ::sqrtf({0})",
    "sqrt": "::sqrtf({0})",
    "sin": "::sinf({0})",
    "cos": "::cosf({0})",
    "tanh": "::tanhf({0})",
    "not": "~{0}",
    "abs": _OURS + "magnitude({0})",
    "popc": "__popc({0})",
    "clz": "__clz({0})",
    "brev": "__brev({0})",
}
_TERNARY = {"fma": _OURS + "fused({0}, {1}, {2})", "mad": "{0} * {1} + {2}"}
_MODIFIERS = r"(?:\.(?:rn|lo|ftz|approx|full))*"
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARISONS |= {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_ATOMICS = {"add": "Add", "min": "Min", "max": "Max", "and": "And", "or": "Or", "xor": "Xor"}


class _Unknown(Exception):
    """Something that isn't in the tables."""


def rewrite(run: tuple[Token, ...], i: int) -> Edit | None:
    """The edit for the statement whose `asm` is token i; None where it isn't known."""
    try:
        return _rewrite(run, i)
    except (_Unknown, IndexError, KeyError):
        return None


def _rewrite(run: tuple[Token, ...], i: int) -> Edit:
    j = i + 1
    while run[j].text in _VOLATILE:
        j += 1
    end = tokens.closing(run, j) if run[j].text == "(" else None
    if end is None or any(token.text in WORDS for token in run[j:end]):
        raise _Unknown
    fields: list[list[Token]] = [[]]
    depth = 0
    for token in run[j + 1 : end]:
        depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and token.text in (":", "::"):
            fields += [[] for _ in token.text]
        else:
            fields[-1].append(token)
    operands = [_operand(each) for field in fields[1:3] for each in kernels.split_arguments(field)]
    statement = _Statement(operands, len(kernels.split_arguments(fields[1])) if fields[1:] else 0)
    text = "".join(_string(token) for token in fields[0])
    lines = [statement.translated(each) for each in _instructions(text, bool(fields[1:]))]
    return Edit(run[i].start, run[end].end, "{ " + " ".join([*statement.inputs(), *lines]) + " }")


def _string(token: Token) -> str:
    if token.kind != "string" or not token.text.startswith('"'):
        raise _Unknown
    return re.sub(r"\\[nt]", " ", token.text[1:-1])


def _operand(words: Sequence[Token]) -> tuple[str, str]:
    """The constraint, and the expression in its brackets."""
    if len(words) < 4 or words[0].kind != "string" or words[1].text != "(":
        raise _Unknown
    return words[0].text.strip('"'), " ".join(word.text for word in words[2:-1])


def _instructions(text: str, is_extended: bool) -> list[str]:
    if is_extended:
        text = text.replace("%%", "%")
    text = re.sub(r"//.*|/\*.*?\*/", " ", text).strip()
    while text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    return [each.strip() for each in text.split(";") if each.strip()]


class _Statement:
    """The translation of one statement's instructions."""

    def __init__(self, operands: list[tuple[str, str]], outputs: int) -> None:
        self.operands = operands
        self.outputs = outputs
        self.registers: set[str] = set()

    def inputs(self) -> list[str]:
        """Each input's value, taken once."""
        return [
            f"const auto warpgrade_{i} = ({expression});"
            for i, (_, expression) in enumerate(self.operands)
            if i >= self.outputs
        ]

    def translated(self, instruction: str) -> str:
        """The C++ of one instruction."""
        if match := re.fullmatch(r"\.reg\s+\.(\w+)\s+(\w+(?:\s*,\s*\w+)*)", instruction):
            names = [name.strip() for name in match[2].split(",")]
            self.registers.update(names)
            return f"{_TYPES[match[1]]} {', '.join('warpgrade_' + name for name in names)};"
        guard = ""
        if match := re.match(r"@(!?)(\w+)\s+", instruction):
            guard = f"if ({match[1]}{self.value(match[2])}) "
            instruction = instruction[match.end() :]
        opcode, _, rest = instruction.partition(" ")
        arguments = [each.strip() for each in _split(rest)]
        for pattern, make in _INSTRUCTIONS:
            if known := re.fullmatch(pattern, opcode):
                return f"{guard}{{ {make(self, known, arguments)} }}"
        raise _Unknown

    def value(self, argument: str, kind: str = "") -> str:
        """The C++ of a source operand, as a value of the type."""
        if match := re.fullmatch(r"%(\d+)", argument):
            number = int(match[1])
            constraint, expression = self.operands[number]
            if constraint == "n" or number < self.outputs:
                value = f"({expression})"
            else:
                value = f"warpgrade_{number}"
        elif argument in _SPECIAL:
            value = _SPECIAL[argument]
        elif argument in self.registers:
            value = f"warpgrade_{argument}"
        elif re.fullmatch(r"-?(?:\d+|0x[0-9a-fA-F]+)U?", argument):
            value = argument
        elif match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", argument):
            value = f"0x{match[1]}u"
        else:
            raise _Unknown
        return f"{_OURS}as<{_TYPES[kind]}>({value})" if kind else value

    def put(self, argument: str, value: str) -> str:
        """The assignment to a destination."""
        if argument in self.registers:
            target = f"warpgrade_{argument}"
        else:
            match = re.fullmatch(r"%(\d+)", argument)
            if match is None or int(match[1]) >= self.outputs:
                raise _Unknown
            target = f"({self.operands[int(match[1])][1]})"
        return f"{_OURS}put({target}, {value});"

    def address(self, argument: str, space: str | None) -> str:
        """The address in brackets: in shared memory an offset, as in PTX."""
        match = re.fullmatch(r"\[\s*(%?\w+)\s*(?:\+\s*(\d+)\s*)?\]", argument)
        if match is None:
            raise _Unknown
        base = self.value(match[1], "u32" if space == "shared" else "u64")
        return f"{_OURS}{space or 'global'}_at({base} + {match[2] or 0})"


def _split(rest: str) -> list[str]:
    """The operands, each a register, a number, [...] or {...}."""
    return re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", rest)


def _vector(argument: str) -> list[str]:
    return [each.strip() for each in argument.strip("{} ").split(",")]


Make = Callable[[_Statement, "re.Match[str]", list[str]], str]


def _move(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    return s.put(a[0], s.value(a[1], m["T"] or "u64"))


def _offset(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    address = s.value(a[1], "u64")
    return s.put(a[0], f"__cvta_generic_to_shared({_OURS}global_at({address}))")


def _arithmetic(table: dict[str, str]) -> Make:
    def make(s: _Statement, m: re.Match[str], a: list[str]) -> str:
        values = [s.value(each, m["T"]) for each in a[1:]]
        text = table[m["op"]]
        if len(values) != text.count("{"):
            raise _Unknown
        return s.put(a[0], text.format(*values))

    return make


def _compare(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    return s.put(a[0], f"{s.value(a[1], m['T'])} {_COMPARISONS[m['op']]} {s.value(a[2], m['T'])}")


def _select(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    return s.put(a[0], f"{s.value(a[3])} ? {s.value(a[1], m['T'])} : {s.value(a[2], m['T'])}")


def _load(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    into, kind, number = _vector(a[0]), _TYPES[m["T"]], int(m["n"] or 1)
    if len(into) != number:
        raise _Unknown
    at = s.address(a[1], m["space"])
    function = "load_read_only" if m["nc"] else "load"
    values = f"const auto loaded = {_OURS}{function}<{kind}, {number}>({at});"
    return values + "".join(s.put(each, f"loaded[{i}]") for i, each in enumerate(into))


def _store(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    values = [s.value(each, m["T"]) for each in _vector(a[1])]
    if len(values) != int(m["n"] or 1):
        raise _Unknown
    at = s.address(a[0], m["space"])
    return f"{_OURS}store<{_TYPES[m['T']]}, {len(values)}>({at}, {', '.join(values)});"


def _ordered(s: _Statement, m: re.Match[str], parts: str, at: str) -> str:
    order, scope = _ORDERS[m["order"] or ""], _SCOPES[m["scope"] or ""]
    return (
        f"auto* place = static_cast<{_TYPES[m['T']]}*>({at});"
        f"warpgrade_ordered_atomic(place, sizeof *place, {parts}, {order}, {scope});"
    )


def _ordered_load(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    seen = _ordered(s, m, "warpgrade_loads", s.address(a[1], m["space"]))
    return seen + s.put(a[0], "::warpgrade::atomic_load(place)")


def _ordered_store(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    seen = _ordered(s, m, "warpgrade_stores", s.address(a[0], m["space"]))
    return f"{seen} ::warpgrade::atomic_exchange(place, {s.value(a[1], m['T'])});"


def _atomic(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    into = a[0] if m["name"] == "atom" else ""
    place, *values = a[1:] if into else a
    seen = _ordered(
        s, m, "warpgrade_loads | warpgrade_stores", s.address(place, m["space"])
    )  # fmt: skip
    given = ", ".join(s.value(each, m["T"]) for each in values)
    if m["op"] == "exch":
        done = f"::warpgrade::atomic_exchange(place, {given})"
    elif m["op"] == "cas":
        done = f"::warpgrade::atomic_compare_and_swap(place, {given})"
    else:
        operation = f"::warpgrade::Atomic{_ATOMICS[m['op']]}"
        done = f"::warpgrade::atomic_apply<{operation}>(place, {given})"
    return seen + (s.put(into, done) if into else f"{done};")


def _copy(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    size = s.value(a[2])
    zeros = f"{size} - {s.value(a[3], 'u32')}" if len(a) > 3 else "0"
    to, source = s.address(a[0], "shared"), s.address(a[1], "global")
    return f"warpgrade_copy_async({to}, {source}, {size}, {zeros});"


def _wait(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    if m["all"]:
        return "warpgrade_commit_copies(); warpgrade_wait_for_copies(0);"
    return f"warpgrade_wait_for_copies({s.value(a[0])});"


def _barrier(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    if a != ["0"]:
        raise _Unknown  # a named barrier, or one of some warps
    return "__syncthreads();"


def _fence(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    return "__threadfence_block();" if "cta" in (m["scope"], m["s"]) else "__threadfence();"


def _shuffle(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    wanted = "0" if m["op"] == "up" else "31"
    if len(a) != 5 or "|" in a[0] or str(int(a[3], 0)) != wanted:
        raise _Unknown
    name = {"idx": "", "bfly": "_xor"}.get(m["op"], f"_{m['op']}")
    given = f"{s.value(a[4], 'u32')}, {s.value(a[1], 'b32')}, {s.value(a[2], 'u32')}"
    return s.put(a[0], f"__shfl{name}_sync({given})")


def _vote(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    return s.put(a[0], f"__{m['op'] or m['o']}_sync({s.value(a[2], 'u32')}, {s.value(a[1])})")


def _matrices(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    into = _vector(a[0])
    if len(into) != int(m["n"]):
        raise _Unknown
    at = s.address(a[1], "shared")
    is_transposed = "true" if m["trans"] else "false"
    loads = (
        s.put(each, f"{_OURS}matrix_part<{is_transposed}>(row, {i})") for i, each in enumerate(into)
    )
    return f"const void* row = {at};" + "".join(loads)


def _multiply(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    d, first, second, c = map(_vector, a)
    words = [s.value(each, "b32") for each in (*first, *second)]
    addends = [s.value(each, "f32") for each in c]
    if (len(d), len(first), len(second), len(c)) != (4, 4, 2, 4):
        raise _Unknown
    kind = {"f16": "__half", "bf16": "__nv_bfloat16"}[m["ab"]]
    made = (
        f"float sums[4] = {{{', '.join(addends)}}};"
        f"const unsigned given[6] = {{{', '.join(words)}}};"
        f"{_OURS}multiply<{kind}>(sums, given);"
    )
    return made + "".join(s.put(each, f"sums[{i}]") for i, each in enumerate(d))


def _says(text: str) -> Make:
    return lambda s, m, a: text


_INSTRUCTIONS: tuple[tuple[str, Make], ...] = (
    (rf"mov\.{_T}", _move),
    (rf"cvt\.{_T}\.(?:u32|u64)|cvta\.to\.global\.(?P<U>u64)", _move),
    (r"cvta\.to\.shared\.u64", _offset),
    (rf"(?P<op>{'|'.join(_BINARY)}){_MODIFIERS}\.{_T}", _arithmetic(_BINARY)),
    (rf"(?P<op>{'|'.join(_UNARY)}){_MODIFIERS}\.{_T}", _arithmetic(_UNARY)),
    (rf"(?P<op>{'|'.join(_TERNARY)}){_MODIFIERS}\.{_T}", _arithmetic(_TERNARY)),
    (rf"setp\.(?P<op>{'|'.join(_COMPARISONS)})\.{_T}", _compare),
    (rf"selp\.{_T}", _select),
    (rf"ld{_SPACE}{_HINTS}(?P<nc>\.nc)?{_HINTS}(?:\.v(?P<n>[24]))?\.{_T}", _load),
    (rf"st{_SPACE}{_HINTS}(?:\.v(?P<n>[24]))?\.{_T}", _store),
    (rf"ld{_ORDER}{_SPACE}{_HINTS}\.{_T}", _ordered_load),
    (rf"st{_ORDER}{_SPACE}{_HINTS}\.{_T}", _ordered_store),
    (rf"(?P<name>atom|red){_ORDER}{_SPACE}\.(?P<op>\w+)\.{_T}", _atomic),
    (r"cp\.async\.c[ag]\.shared\.global(?:\.L2::\w+)?", _copy),
    (r"cp\.async\.commit_group", _says("warpgrade_commit_copies();")),
    (r"cp\.async\.wait_(?:group|(?P<all>all))", _wait),
    (r"(?:bar|barrier)(?:\.cta)?\.sync(?:\.aligned)?", _barrier),
    (r"membar\.(?P<scope>cta|gl|sys)|fence\.(?:acq_rel|sc)\.(?P<s>cta|gpu|sys)", _fence),
    (r"shfl\.sync\.(?P<op>bfly|up|down|idx)\.b32", _shuffle),
    (r"vote\.sync\.(?P<op>ballot)\.b32|vote\.sync\.(?P<o>any|all)\.pred", _vote),
    (r"activemask\.b32", lambda s, m, a: s.put(a[0], "__activemask()")),
    (r"ldmatrix\.sync\.aligned\.m8n8\.x(?P<n>[124])(?P<trans>\.trans)?\.shared\.b16", _matrices),
    (r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.(?P<ab>b?f16)\.(?P=ab)\.f32", _multiply),
)
