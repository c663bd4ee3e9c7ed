"""Translates inline assembly (PTX) to C++ that calls the functions of include/warpgrade/ptx.h.

    asm volatile("mov.u32 %0, %%laneid;" : "=r"(x));      do { ... ::warpgrade::ptx::put(...); }
                                                          while (0);

An instruction that isn't in the table below makes the whole statement an unsupported feature. The
semantics are those of NVIDIA's "PTX ISA".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence

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
_INTEGER, _BITS, _FLOAT = "[us](?:16|32|64)", "b(?:16|32|64)", "f(?:32|64)"
_MEMORY = rf"(?P<T>[usb](?:8|16|32|64)|{_FLOAT})"  # types of loads and stores
_SPECIAL = {
    **{f"%tid.{d}": f"::threadIdx.{d}" for d in "xyz"},
    **{f"%ntid.{d}": f"::blockDim.{d}" for d in "xyz"},
    **{f"%ctaid.{d}": f"::blockIdx.{d}" for d in "xyz"},
    **{f"%nctaid.{d}": f"::gridDim.{d}" for d in "xyz"},
    "%laneid": f"{_OURS}lane()",
    "%lanemask_eq": f"(1u << {_OURS}lane())",
    "%lanemask_lt": f"((1u << {_OURS}lane()) - 1)",
    "%lanemask_le": f"(((1u << {_OURS}lane()) - 1) | 1u << {_OURS}lane())",
    "%lanemask_gt": f"(~((1u << {_OURS}lane()) - 1) & ~(1u << {_OURS}lane()))",
    "%lanemask_ge": f"(~((1u << {_OURS}lane()) - 1))",
}
_SCOPES = {"cta": "::warpgrade_scope_block", "gpu": "::warpgrade_scope_device"}
_SCOPES |= {"sys": "::warpgrade_scope_system", "": "::warpgrade_scope_device"}
_ORDERS = {
    "relaxed": "__ATOMIC_RELAXED",
    "volatile": "__ATOMIC_RELAXED",
    "acquire": "__ATOMIC_ACQUIRE",
    "": "__ATOMIC_RELAXED",
}
_ORDERS |= {"release": "__ATOMIC_RELEASE", "acq_rel": "__ATOMIC_ACQ_REL"}
_ORDER = r"(?:\.(?P<order>relaxed|volatile|acquire|release|acq_rel))?(?:\.(?P<scope>cta|gpu|sys))?"
_SPACE = r"(?:\.(?P<space>global|shared))?(?:::cta)?"
_PARTS = r"\.x(?P<n>[124])(?P<trans>\.trans)?"  # of a load of matrices
_HINTS = r"(?:\.(?:ca|cg|cs|lu|cv|wb|wt)|\.L1::\w+|\.L2::\d+B)*"

_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}  # of products with all their bits
# By operation and types: the result, from the values of the sources.
_ARITHMETIC = {
    f"add.(?:{_INTEGER})": "{0} + {1}",
    f"sub.(?:{_INTEGER})": "{0} - {1}",
    f"mul.lo.(?:{_INTEGER})": "{0} * {1}",
    f"mad.lo.(?:{_INTEGER})": "{0} * {1} + {2}",
    **{
        f"{name}.wide.{kind}": f"static_cast<{_TYPES[wide]}>({{0}}) * {{1}}{more}"
        for kind, wide in _WIDE.items()
        for name, more in (("mul", ""), ("mad", " + {2}"))
    },
    f"div.(?:{_INTEGER})": "{0} / {1}",
    f"rem.(?:{_INTEGER})": "{0} % {1}",
    f"add(.rn)?(.ftz)?.{_FLOAT}": "{0} + {1}",
    f"sub(.rn)?(.ftz)?.{_FLOAT}": "{0} - {1}",
    f"mul(.rn)?(.ftz)?.{_FLOAT}": "{0} * {1}",
    f"(?:fma|mad).rn(.ftz)?.{_FLOAT}": _OURS + "fused({0}, {1}, {2})",
    f"div.(?:rn|full)(.ftz)?.{_FLOAT}": "{0} / {1}",
    f"and.(?:{_BITS}|pred)": "{0} & {1}",
    f"or.(?:{_BITS}|pred)": "{0} | {1}",
    f"xor.(?:{_BITS}|pred)": "{0} ^ {1}",
    f"not.(?:{_BITS})": "~{0}",
    "not.pred": "!{0}",
    f"min(?:.(?:{_INTEGER})|(.ftz)?.{_FLOAT})": _OURS + "least({0}, {1})",
    f"max(?:.(?:{_INTEGER})|(.ftz)?.{_FLOAT})": _OURS + "most({0}, {1})",
    f"shl.{_BITS}": _OURS + "shifted_left({0}, {1})",
    f"shr.(?:{_BITS}|{_INTEGER})": _OURS + "shifted_right({0}, {1})",
    "neg.(?:s16|s32|s64|f32|f64)": "-{0}",
    "abs.(?:s16|s32|s64|f32|f64)": _OURS + "magnitude({0})",
    "ex2.approx(.ftz)?.f32": "__builtin_exp2f({0})",
    "lg2.approx(.ftz)?.f32": "__builtin_log2f({0})",
    "tanh.approx.f32": "::warpgrade::fast_tanh({0})",
    "cvt.rna.tf32.f32": _OURS + "nearest_tf32({0})",
    **{
        f"cvt.r{to}i(.ftz)?.{kind}32.f32": f"::__float2{name}_r{way}({{0}})"
        for to, way in (("n", "n"), ("z", "z"), ("m", "d"), ("p", "u"))
        for kind, name in (("s", "int"), ("u", "uint"))
    },
    "cvt.rn.f32.s32": "::__int2float_rn({0})",
    "cvt.rn.f32.u32": "::__uint2float_rn({0})",
    **{
        text: made.format(kind=kind, name=name)
        for kind, name in (("f16", "::__half"), ("bf16", "::__nv_bfloat16"))
        for text, made in (
            (f"cvt.rn.{kind}.f32", "{name}({{0}})"),
            (f"cvt.f32.{kind}", _OURS + "half_of<{name}>({{0}}, 0)"),
        )
    },
    "cvt.rn.f16x2.f32": _OURS + "pair<::__half>({0}, {1})",
    "cvt.rn.bf16x2.f32": _OURS + "pair<::__nv_bfloat16>({0}, {1})",
    "sin.approx(.ftz)?.f32": "__builtin_sinf({0})",
    "cos.approx(.ftz)?.f32": "__builtin_cosf({0})",
    "rcp.(?:rn|approx)(.ftz)?.f32": "1 / {0}",
    "rsqrt.approx(.ftz)?.f32": "1 / __builtin_sqrtf({0})",
    "sqrt.(?:rn|approx)(.ftz)?.f32": "__builtin_sqrtf({0})",
    "shf.l.wrap.b32": "::__funnelshift_l({0}, {1}, {2})",
    "shf.r.wrap.b32": "::__funnelshift_r({0}, {1}, {2})",
    "prmt.b32": "::__byte_perm({0}, {1}, {2})",
    "bfe.u32": _OURS + "bit_field({0}, {1}, {2})",
    "bfi.b32": _OURS + "with_bit_field({0}, {1}, {2}, {3})",
    "lop3.b32": _OURS + "looked_up({0}, {1}, {2}, {3})",
    "popc.b32": "__builtin_popcount({0})",
    "clz.b32": _OURS + "leading_zeros({0})",
    "brev.b32": _OURS + "reversed_bits({0})",
}
_COMPARISONS = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARISONS |= {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_ATOMICS = {"add": "Add", "min": "Min", "max": "Max", "and": "And", "or": "Or", "xor": "Xor"}
_ATOMIC_TYPES = {
    "add": "u32|s32|u64|f32|f64",
    **dict.fromkeys(("min", "max"), "[us]32|[us]64"),
    **dict.fromkeys(("and", "or", "xor", "exch", "cas"), "b32|b64"),
}
_REGISTER = "warpgrade_ptx_"
# `&` keeps an output from sharing a register with an input; here none does.
_CONSTRAINTS = re.compile(r'"(?:(?:[=+]&?)?[hrlfd]|n)"')
_MOST_CHARACTERS = 100  # of an opcode


class _Unknown(Exception):
    """Something that isn't in the tables."""


def rewrite(run: tuple[Token, ...], i: int, macros: Container[str] = ()) -> Edit | None:
    """The edit for the statement whose `asm` is token i; None where it isn't known.

    `macros`: names that the file defines. The translation must not use one.
    """
    try:
        return _rewrite(run, i, macros)
    except (_Unknown, IndexError, KeyError, ValueError):
        return None


def unknown_opcode(run: tuple[Token, ...], i: int, macros: Container[str]) -> str:
    """The opcode that `rewrite` doesn't know there; "" where something else keeps it from it."""
    try:
        _rewrite(run, i, macros)
    except _Unknown as unknown:
        return str(unknown)
    except (IndexError, KeyError, ValueError):
        pass
    return ""


def _rewrite(run: tuple[Token, ...], i: int, macros: Container[str]) -> Edit:
    j = i + 1
    while run[j].text in _VOLATILE:
        j += 1
    fields, end = _fields(run, j)
    outputs, inputs, clobbers = (fields[1:4] + [[]] * 3)[:3]
    operands = [_operand(each) for each in (*outputs, *inputs)]
    text = "".join(_string(token) for token in fields[0][0])
    # Without either of these, the compiler may merge, move or delete it as it does arithmetic.
    stays = j > i + 1 or not outputs or any(c[0].text == '"memory"' for c in clobbers)
    statement = _Statement(operands, len(outputs), stays)
    lines = [statement.translated(each) for each in _instructions(text, len(fields) > 1)]
    names = re.findall(r"[A-Za-z_]\w*", " ".join(lines))
    if any(name in macros for name in (*names, "auto", "const", "do", "while")):
        raise _Unknown
    begin, end_of_it = statement.registers_of_operands()
    text = "do { " + " ".join([*begin, *lines, *end_of_it]) + " } while (0)"
    return Edit(run[i].start, run[end].end, text)


def _fields(run: tuple[Token, ...], first: int) -> tuple[list[list[list[Token]]], int]:
    """What stands between the colons, each split at its commas; and the index of the last `)`."""
    if run[first].text != "(":
        raise _Unknown
    fields: list[list[list[Token]]] = [[]]
    depth = 1
    is_new = True
    for end in range(first + 1, len(run)):
        token = run[end]
        if token.text in WORDS:
            raise _Unknown
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if depth == 0:
            return fields, end
        if depth == 1 and token.text in (":", "::"):
            fields += [[] for _ in token.text]
            is_new = True
        elif depth == 1 and token.text == ",":
            is_new = True
        else:
            if is_new:
                fields[-1].append([])
            fields[-1][-1].append(token)
            is_new = False
    raise _Unknown


def _string(token: Token) -> str:
    if token.kind != "string" or not token.text.startswith('"'):
        raise _Unknown
    text = token.text[1:-1].replace("\\n", "\n").replace("\\t", " ")
    if "\\" in text:
        raise _Unknown  # an escape may end a comment, or begin one
    return text


def _operand(words: Sequence[Token]) -> tuple[str, str]:
    """The constraint, and the expression in its brackets."""
    if not _CONSTRAINTS.fullmatch(words[0].text) or words[1].text != "(" or len(words) < 4:
        raise _Unknown
    if any(word.kind == "string" for word in words[2:]):
        raise _Unknown  # a raw one would be another
    spelled = "".join(f"{'' if word.is_glued else ' '}{word.text}" for word in words[2:-1])
    return words[0].text.strip('"'), spelled


def _instructions(text: str, is_extended: bool) -> list[str]:
    if "/*" in text:
        raise _Unknown
    if is_extended:
        text = text.replace("%%", "%")
    text = " ".join(re.sub(r"//.*", " ", text).split())
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    return [each.strip() for each in text.split(";") if each.strip()]


class _Statement:
    """The translation of one statement's instructions."""

    def __init__(self, operands: list[tuple[str, str]], outputs: int, stays: bool) -> None:
        self.operands = operands
        self.outputs = outputs
        self.stays = stays  # where it is written
        self.registers: set[str] = set()

    def registers_of_operands(self) -> tuple[list[str], list[str]]:
        """What gives each operand a register, evaluated once, and what stores the outputs'."""
        begin, end = [], []
        for i, (constraint, expression) in enumerate(self.operands):
            register, made = f"{_REGISTER}{i}", f"const auto {_REGISTER}{i} = ({expression});"
            if i < self.outputs:
                place = f"warpgrade_place_{i}"
                value = place if constraint[0] == "+" else f"{_OURS}undefined_as({place})"
                made = f"auto& {place} = ({expression}); auto {register} = {value};"
                end.append(f"{place} = {register};")
            begin.append(f"{made} {_OURS}check<'{constraint[-1]}'>({register});")
        return begin, end

    def translated(self, instruction: str) -> str:
        """The C++ of one instruction."""
        if match := re.fullmatch(r"\.reg\s+\.(\w+)\s+(\w+(?:\s*,\s*\w+)*)", instruction):
            names = [name.strip() for name in match[2].split(",")]
            self.registers.update(names)
            if any(name.isdigit() for name in names):
                raise _Unknown
            kind = _TYPES[match[1]]
            made = (f"{_REGISTER}{name} = {_OURS}undefined<{kind}>" for name in names)
            return f"{kind} {', '.join(made)};"
        guard = ""
        if match := re.match(r"@(!?)(\w+)\s+", instruction):
            guard = f"if ({match[1]}{self.value(match[2])}) "
            instruction = instruction[match.end() :]
        opcode, _, rest = instruction.partition(" ")
        arguments = [each.strip() for each in _split(rest)]
        if len(opcode) > _MOST_CHARACTERS:
            raise _Unknown
        for pattern, make in _INSTRUCTIONS:
            if known := re.fullmatch(pattern, opcode):
                if not self.stays and make not in _PURE and "nc" not in opcode.split("."):
                    raise _Unknown
                return f"{guard}{{ {make(self, known, arguments)} }}"
        raise _Unknown(opcode)

    def value(self, argument: str, kind: str = "") -> str:
        """The C++ of a source operand, as a value of the type."""
        if re.fullmatch(r"%\d+", argument) and int(argument[1:]) < len(self.operands):
            value = f"{_REGISTER}{int(argument[1:])}"
        elif argument in _SPECIAL:
            value = _SPECIAL[argument]
        elif argument in self.registers:
            value = f"{_REGISTER}{argument}"
        elif match := re.fullmatch(r"(-?(?:\d+|0x[0-9a-fA-F]+))(U?)", argument):
            value = f"{match[1]}{match[2].lower()}ll"  # constants have 64 bits
        elif match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", argument):
            value = f"0x{match[1]}u"
        else:
            raise _Unknown
        return f"{_OURS}as<{_TYPES[kind]}>({value})" if kind else value

    def put(self, argument: str, value: str) -> str:
        """The assignment to a destination."""
        match = re.fullmatch(r"%(\d+)", argument)
        if argument not in self.registers and (not match or int(match[1]) >= self.outputs):
            raise _Unknown
        target = _REGISTER + (str(int(match[1])) if match else argument)
        return f"{_OURS}put({target}, {value});"

    def address(self, argument: str, space: str | None) -> str:
        """The address in brackets: in shared memory an offset, as in PTX."""
        match = re.fullmatch(r"\[\s*(%?\w+)\s*(?:\+\s*(\d+)\s*)?\]", argument)
        if match is None:
            raise _Unknown
        base = self.value(match[1], "u32" if space == "shared" else "u64")
        return f"{_OURS}{space or 'generic'}_at({base} + {int(match[2] or 0)})"


def _split(rest: str) -> list[str]:
    """The operands, each a register, a number, [...] or {...}."""
    return re.findall(r"\{[^{}]*\}|\[[^][]*\]|[^,\s][^,]*", rest)


def _vector(argument: str) -> list[str]:
    return [each.strip() for each in argument.strip("{} ").split(",")]


Make = Callable[[_Statement, "re.Match[str]", list[str]], str]


def _gives(text: str, *types: str) -> Make:
    """The first operand gets the text with the values of the others, each of a type.

    A type may be the name of a group of the opcode's pattern, and so may a word in the text.
    """

    def make(s: _Statement, m: re.Match[str], a: list[str]) -> str:
        to, *given = a
        named = m.groupdict()
        values = [
            s.value(each, named.get(kind, kind)) for each, kind in zip(given, types, strict=True)
        ]
        return s.put(to, text.format(*values, **named))

    return make


def _convert(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    (to, value) = a
    return s.put(to, f"{_OURS}as<{_TYPES[m['T']]}>({s.value(value, m['of'])})")


def _address(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    (to, value) = a
    address = s.value(value, "u64")
    if m["space"] == "shared":
        return s.put(to, f"::warpgrade_shared_offset({_OURS}generic_at({address}))")
    return s.put(to, address)


def _arithmetic(text: str) -> Make:
    def make(s: _Statement, m: re.Match[str], a: list[str]) -> str:
        kind = m[0].rpartition(".")[2]
        kind = {"f16": "b16", "bf16": "b16"}.get(kind, kind)
        values = [s.value(each, kind) for each in a[1:]]
        if m[0].startswith("sh"):
            values[1] = s.value(a[2], "u32")
        if m[0].startswith("mad.wide"):
            values[2] = s.value(a[3], _WIDE[kind])
        if len(values) != text.count("{"):
            raise _Unknown
        return s.put(a[0], text.format(*values))

    return make


def _compare(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    to, first, second = a
    first, second = s.value(first, m["T"]), s.value(second, m["T"])
    if m["op"] == "ne":
        return s.put(to, f"{_OURS}differ({first}, {second})")
    return s.put(to, f"{first} {_COMPARISONS[m['op']]} {second}")


def _load(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    into, kind, number = _vector(a[0]), _TYPES[m["T"]], int(m["n"] or 1)
    if len(into) != number or len(a) != 2 or number * int(m["T"][1:]) > 128:
        raise _Unknown
    at = s.address(a[1], m["space"])
    function = "load_read_only" if m["nc"] else "load"
    loaded = "warpgrade_loaded"
    values = f"const auto {loaded} = {_OURS}{function}<{kind}, {number}>({at});"
    return values + "".join(s.put(each, f"{loaded}[{i}]") for i, each in enumerate(into))


def _store(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    values = [s.value(each, m["T"]) for each in _vector(a[1])]
    number = int(m["n"] or 1)
    if len(values) != number or len(a) != 2 or number * int(m["T"][1:]) > 128:
        raise _Unknown
    at = s.address(a[0], m["space"])
    return f"{_OURS}store<{_TYPES[m['T']]}, {len(values)}>({at}, {', '.join(values)});"


_PLACE = "warpgrade_place"


def _place(m: re.Match[str], at: str) -> str:
    return f"auto* {_PLACE} = static_cast<{_TYPES[m['T']]}*>({at});"


def _order_and_scope(m: re.Match[str]) -> tuple[str, str]:
    return _ORDERS[m["order"] or ""], _SCOPES[m["scope"] or ""]


def _ordered(m: re.Match[str], parts: str, at: str) -> str:
    order, scope = _order_and_scope(m)
    observed = f"{_PLACE}, sizeof *{_PLACE}, {parts}, {order}, {scope}"
    return f"{_place(m, at)}::warpgrade_ordered_atomic({observed});"


def _ordered_load(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    to, place = a
    if m["order"] in ("release", "acq_rel"):
        raise _Unknown
    ordered = _ordered(m, "::warpgrade_loads", s.address(place, m["space"]))
    return ordered + s.put(to, f"::warpgrade::atomic_load({_PLACE})")


def _ordered_store(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    place, value = a
    if m["order"] in ("acquire", "acq_rel"):
        raise _Unknown
    ordered = _ordered(m, "::warpgrade_stores", s.address(place, m["space"]))
    return f"{ordered} ::warpgrade::atomic_exchange({_PLACE}, {s.value(value, m['T'])});"


def _atomic(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    into = a[0] if m["name"] == "atom" else ""
    place, *values = a[1:] if into else a
    if not re.fullmatch(_ATOMIC_TYPES[m["op"]], m["T"]) or len(values) != 1 + (m["op"] == "cas"):
        raise _Unknown
    at = s.address(place, m["space"])
    given = ", ".join([_PLACE, *(s.value(each, m["T"]) for each in values)])
    if m["op"] == "cas":
        begin, (order, scope) = _place(m, at), _order_and_scope(m)
        done = f"::warpgrade::compare_and_swap({given}, {order}, {order}, {scope})"
    else:
        begin = _ordered(m, "::warpgrade_loads | ::warpgrade_stores", at)
        operation = f"apply<::warpgrade::Atomic{_ATOMICS.get(m['op'])}>"
        done = f"::warpgrade::atomic_{'exchange' if m['op'] == 'exch' else operation}({given})"
    return begin + (s.put(into, done) if into else f"{done};")


def _copy(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    to, source, size, *rest = a
    if len(rest) > 1 or any(each in s.registers for each in rest):
        raise _Unknown  # a predicate instead of a size
    if ".cg." in m[0] and size != "16" and not size.startswith("%"):
        raise _Unknown
    size = s.value(size, "u32")
    zeros = f"{size} - {s.value(rest[0], 'u32')}" if rest else "0"
    at = f"{s.address(to, 'shared')}, {s.address(source, 'global')}"
    return f"::warpgrade_copy_async({at}, {size}, {zeros});"


def _wait(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    if m["all"]:
        return "::warpgrade_commit_copies(); ::warpgrade_wait_for_copies(0);"
    (newest,) = a
    return f"::warpgrade_wait_for_copies({s.value(newest)});"


def _barrier(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    waits, (number, *count) = m["how"] == "sync", a
    if a == ["0"] and waits:
        return "::__syncthreads();"
    if len(count) != 1 and not (waits and not count):
        raise _Unknown
    threads = s.value(count[0], "u32") if count else "::blockDim.x * ::blockDim.y * ::blockDim.z"
    given = f"{s.value(number, 'u32')}, {threads}, {'true' if waits else 'false'}"
    return f"::warpgrade_named_barrier({given});"


def _fence(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    return f"::warpgrade_{'block_' if 'cta' in (m['scope'], m['s']) else ''}fence();"


def _shuffle(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    to, value, lane, clamp, mask = a
    if int(clamp, 0) != (0 if m["op"] == "up" else 31):
        raise _Unknown
    name = {"idx": "", "bfly": "_xor"}.get(m["op"], f"_{m['op']}")
    given = f"{s.value(mask, 'u32')}, {s.value(value, 'b32')}, {s.value(lane, 'u32')} & 31"
    return s.put(to, f"::warpgrade::exchange(::warpgrade_shuffle{name}, {given}, 32)")


def _matrices(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    into = _vector(a[0])
    if len(into) != int(m["n"]):
        raise _Unknown
    at = s.address(a[1], "shared")
    is_transposed = "true" if m["trans"] else "false"
    loads = (
        s.put(each, f"{_OURS}matrix_part<{is_transposed}>(warpgrade_row, {i})")
        for i, each in enumerate(into)
    )
    return f"const void* warpgrade_row = {at};" + "".join(loads)


def _multiply(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    d, first, second, c = map(_vector, a)
    left = [s.value(each, "b32") for each in first]
    right = [s.value(each, "b32") for each in second]
    addends = [s.value(each, "b32" if m["sums"] else "f32") for each in c]
    shape = ((2, 1) if m["short"] else (4, 2)) + ((2, 2) if m["sums"] else (4, 4))
    if (len(left), len(right), len(d), len(c)) != shape:
        raise _Unknown
    # A product over half of k is one whose other half is zero.
    words = [*left, "0", "0", *right, "0"] if m["short"] else left + right
    kinds = {"f16": "::__half", "bf16": "::__nv_bfloat16", "tf32": f"{_OURS}Tf32"}
    sums = [f"warpgrade_sums[{i}]" for i in range(4)]
    if m["sums"]:  # two of half precision in a register
        addends = [f"{_OURS}half_of<::__half>({each}, {i})" for each in addends for i in (0, 1)]
        sums = [f"{_OURS}pair<::__half>({sums[i + 1]}, {sums[i]})" for i in (0, 2)]
    made = (
        f"float warpgrade_sums[4] = {{{', '.join(addends)}}};"
        f"const unsigned warpgrade_given[6] = {{{', '.join(words)}}};"
        f"{_OURS}multiply<{kinds[m['ab'] or m['whole'] or m['sums']]}>"
        "(warpgrade_sums, warpgrade_given);"
    )
    return made + "".join(map(s.put, d, sums))


def _prefetch(s: _Statement, m: re.Match[str], a: list[str]) -> str:
    (place,) = a
    s.address(place, "global")  # has to be one, but nothing is read there, and nothing counted
    return ";"


def _says(text: str) -> Make:
    return lambda s, m, a: text


_INSTRUCTIONS: tuple[tuple[str, Make], ...] = (
    (rf"mov\.{_T}", _gives("{0}", "T")),
    (r"cvt\.(?P<T>[us](?:32|64))\.(?P<of>[us](?:32|64))", _convert),
    (r"cvta\.to\.(?P<space>global|shared)\.u64", _address),
    *((opcode.replace(".", r"\."), _arithmetic(text)) for opcode, text in _ARITHMETIC.items()),
    (rf"setp\.(?P<op>eq|ne)\.(?P<T>{_INTEGER}|{_BITS}|{_FLOAT})", _compare),
    (rf"setp\.(?P<op>l[te]|g[te])\.(?P<T>{_INTEGER}|{_FLOAT})", _compare),
    (r"setp\.(?P<op>l[os]|h[is])\.(?P<T>u(?:16|32|64))", _compare),
    (rf"selp\.{_T}", _gives("{2} ? {0} : {1}", "T", "T", "")),
    (rf"ld{_SPACE}{_HINTS}(?P<nc>\.nc)?{_HINTS}(?:\.v(?P<n>[24]))?\.{_MEMORY}", _load),
    (rf"st{_SPACE}{_HINTS}(?:\.v(?P<n>[24]))?\.{_MEMORY}", _store),
    (r"prefetch(?:\.global)?\.L[12]|prefetch\.global\.L2::evict_(?:last|normal)", _prefetch),
    (rf"ld{_ORDER}{_SPACE}{_HINTS}\.{_MEMORY}", _ordered_load),
    (rf"st{_ORDER}{_SPACE}{_HINTS}\.{_MEMORY}", _ordered_store),
    (rf"(?P<name>atom|red){_ORDER}{_SPACE}\.(?P<op>\w+)\.{_T}", _atomic),
    (r"cp\.async\.c[ag]\.shared\.global(?:\.L2::\d+B)?", _copy),
    (r"cp\.async\.commit_group", _says("::warpgrade_commit_copies();")),
    (r"cp\.async\.wait_(?:group|(?P<all>all))", _wait),
    (r"(?:bar|barrier)(?:\.cta)?\.(?P<how>sync|arrive)(?:\.aligned)?", _barrier),
    (r"membar\.(?P<scope>cta|gl|sys)|fence\.(?:acq_rel|sc)\.(?P<s>cta|gpu|sys)", _fence),
    (r"shfl\.sync\.(?P<op>bfly|up|down|idx)\.b32", _shuffle),
    (r"vote\.sync\.ballot\.b32", _gives(f"{_OURS}ballot({{1}}, {{0}})", "", "u32")),
    (r"vote\.sync\.(?P<op>any|all)\.pred", _gives(f"{_OURS}{{op}}({{1}}, {{0}})", "", "u32")),
    (
        r"redux\.sync\.(?P<op>(?:add|min|max)(?=\.[us])|(?:and|or|xor)(?=\.b))\.(?P<T>[usb]32)",
        _gives("::__reduce_{op}_sync({1}, {0})", "T", "u32"),
    ),
    (r"match\.any\.sync\.(?P<T>b32|b64)", _gives("::__match_any_sync({1}, {0})", "T", "u32")),
    (r"activemask\.b32", _gives("::__activemask()")),
    (rf"ldmatrix\.sync\.aligned\.m8n8{_PARTS}\.shared(?:::cta)?\.b16", _matrices),
    (rf"ldmatrix\.sync\.aligned{_PARTS}\.m8n8\.shared(?:::cta)?\.b16", _matrices),
    (
        r"mma\.sync\.aligned\."
        r"(?:m16n8k(?:16|(?P<short>8))\.row\.col"
        r"\.(?:f32\.(?P<ab>b?f16)\.(?P=ab)\.f32|(?P<sums>f16)\.f16\.f16\.f16)"
        r"|m16n8k8\.row\.col\.f32\.(?P<whole>tf32)\.tf32\.f32)",
        _multiply,
    ),
)
# Those whose results follow from their operands alone: they may be merged, moved and deleted.
_FIRST_IMPURE = next(i for i, (_, make) in enumerate(_INSTRUCTIONS) if make is _load)
_PURE = frozenset(make for _, make in _INSTRUCTIONS[:_FIRST_IMPURE])
