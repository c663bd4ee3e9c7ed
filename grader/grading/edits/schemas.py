"""General changes of either language: what a wrong program's own parts can be put in place of.

No change here is about one exercise or one mistake. A value gives way to another of its kind, two
of a kind change places, something that stands elsewhere in the function is put in, something is
left out. kinds.py says which values are of a kind.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from grader.executors.source_text import Change, Token
from grader.grading.edits.edit_scope import WORDS, Edit, Rule, Scope, are_twins, at_each, axis_of

MOST_FRAGMENTS = 12  # operators with their second operand, that are put in elsewhere
JUST_MADE = 2  # lines above, where a value is made that is likely meant
MOST_OTHERS = 8  # values of a kind that are tried in one place
_OPENING = {"(": ")", "[": "]"}


def _operand_end(tokens: Sequence[Token], index: int) -> int:
    """The index of the last token of an operand: a name or number with members, calls, indices."""
    at = index
    while at + 1 < len(tokens):
        following = tokens[at + 1].text
        if following in (".", "->", "::") and at + 2 < len(tokens):
            at += 2
        elif following in _OPENING:
            closed = _closing(tokens, at + 1)
            if closed is None:
                return at
            at = closed
        else:
            break
    return at


def _closing(tokens: Sequence[Token], index: int) -> int | None:
    """The index of the token that closes a parenthesis or bracket."""
    depth = 0
    for at in range(index, min(len(tokens), index + 200)):
        depth += (tokens[at].text in "([{") - (tokens[at].text in ")]}")
        if not depth:
            return at
    return None


def _operand_starts(scope: Scope) -> Iterator[tuple[int, int]]:
    """First and last token of each operand that is read: no assigned name, callee or keyword."""
    tokens = scope.tokens
    for index, token in enumerate(tokens):
        before = tokens[index - 1].text if index else ""
        if before in (".", "->", "::") or not (token.is_name or token.text[0].isdigit()):
            continue
        if token.text in WORDS - {"tl", "float", "triton", "sizeof"}:
            continue
        last = _operand_end(tokens, index)
        behind = tokens[last + 1].text if last + 1 < len(tokens) else ""
        is_given = behind in ("=", "+=", "-=", "*=", "/=")
        is_type = not scope.is_triton and bool(re.match(r"[A-Za-z_]", behind))
        if not (is_given or is_type):
            yield index, last


def _other_values(scope: Scope) -> Iterator[Edit]:
    """A value in the place of another one of its kind."""
    tokens = scope.tokens
    for index, last in _operand_starts(scope):
        token = tokens[index]
        kind = scope.kinds.get(token.text)
        line = scope.code_line(token.line)
        is_address = kind == "int" and "tl.load(" in line
        if kind is None or not token.is_name or (last > index and tokens[index + 1].text == "("):
            continue
        if [each.text for each in tokens[max(index - 2, 0) : index]] == [token.text, "="]:
            continue  # `BLOCK=BLOCK`: another value would be right by chance alone
        if _is_counter(scope, token):
            continue
        near = sorted(
            (
                each
                for each, other in scope.kinds.items()
                if (other == kind or (is_address and other == "offsets")) and each != token.text
            ),
            key=lambda each: abs(scope.first_use.get(each, 0) - token.start),
        )
        before = [each for each in near if scope.first_use.get(each, token.end) < token.start]
        around = scope.operands(index)
        with_it = _in_other_indices(scope, token)
        for other in (each for each in before if each in with_it):
            yield scope.instead("as_elsewhere", token.start, token.end, other, 1, around)
        if any((token.start, token.end) in each.grid[:1] for each in scope.launches):
            # Blocks of a fixed number are right for few sizes alone.
            before = [each for each in before if not each.isupper()]
        for other in before[:MOST_OTHERS]:
            apart = token.line - scope.text.line_at(scope.first_use.get(other, 0))
            is_used = other in _NAMES.findall(line)
            is_other = token.text.isupper() and not other.isupper()  # a constant gives way to none
            if apart <= JUST_MADE and not is_used and not is_other:
                yield scope.instead("just_made", token.start, token.end, other, 2, around)
            yield scope.instead("name", token.start, token.end, other, 4, around)
        for other in scope.unread:
            if other in near and _looks_like(other, token.text):
                yield scope.instead("unused", token.start, token.end, other, 1, around)
            elif other in before or (other in scope.unused and kind in ("int", "pointer")):
                is_factor = tokens[index - 1].text == "*" and other not in scope.function.integers
                cost = 1 if is_factor else 2
                yield scope.instead("unused", token.start, token.end, other, cost, around)


_COUNTED = re.compile(r"\s*for \(\w+ (\w+) = [^)]*")


def _is_counter(scope: Scope, token: Token) -> bool:
    """Whether a token is its loop's counter in the loop's head: no other value is meant there."""
    head = _COUNTED.match(scope.code_line(token.line))
    at = token.start - scope.text.starts[token.line - 1]
    return head is not None and head[1] == token.text and at < head.end()


_DEFINED = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*([^;=\n]{1,80})")
_CONSTANT_OF = re.compile(
    r"^(?:#define|(?:static )?(?:constexpr|const) \w+) ([A-Z]\w*)\s*=?\s*([^;\n]{1,80})", re.M
)


def _derived(scope: Scope) -> Iterator[Edit]:
    """A value in the place of what is made of it, or a constant for one that it is made of."""
    constants = [
        pair
        for match in _CONSTANT_OF.finditer(scope.text.source)
        for base in _NAMES.findall(match[2])
        for pair in ((match[1], base), (base, match[1]))
    ]
    made: dict[str, dict[str, int]] = {}  # what is made of a name, and from where on
    for base, name in constants:
        made.setdefault(base, {})[name] = 0
    for match in scope.matches(_DEFINED):
        for base in {*_NAMES.findall(match[2])} - {match[1]}:
            made.setdefault(base, {}).setdefault(match[1], match.end())
    tokens = scope.tokens
    for index, token in enumerate(tokens[:-1]):
        before = tokens[index - 1].text if index else ""
        if before in (".", "->") or tokens[index + 1].text in ("=", "("):
            continue
        for name, at in made.get(token.text, {}).items():
            is_alike = scope.kinds.get(token.text) == scope.kinds.get(name) is not None
            if token.start >= at and is_alike:
                around = scope.operands(index)
                yield scope.instead("derived", token.start, token.end, name, 2 if at else 1, around)


_NAMES = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_INDEXED = re.compile(r"(?<![\w.])(\w+)((?:\s*\[[^\[\]]*\])+)")


def _in_other_indices(scope: Scope, token: Token) -> set[str]:
    """Names in the indices of an array that another index of it, with `token`, lacks."""
    accesses = [*scope.matches(_INDEXED)]
    own = next((each for each in accesses if each.start(2) < token.start < each.end(2)), None)
    if own is None:
        return set()
    there = {name for each in accesses if each[1] == own[1] for name in re.findall(r"\w+", each[2])}
    return there - {*re.findall(r"\w+", own[2])}


def _looks_like(one: str, other: str) -> bool:
    """Whether two names share a part: `v_n` and `k_n`, `stride_om` and `stride_xm`."""
    parts = {*one.lower().split("_")} & {*other.lower().split("_")}
    return bool(parts) or are_twins(one, other)


def _exchanged(scope: Scope) -> Iterator[Edit]:
    """Two arguments, elements or operands of a kind that stand in each other's place."""
    source = scope.text.source
    for call in scope.calls:
        for one, other in itertools.pairwise(call.arguments):
            texts = source[slice(*one)], source[slice(*other)]
            if "=" in "".join(texts) or texts[0] == texts[1] or "arange" in call.name:
                continue
            kinds = [scope.kind_of(each) for each in texts]
            if kinds[0] == kinds[1] and kinds[0] is not None:
                yield scope.exchanged(one, other, f"the call of `{call.name}`", 3)
    for one, other in _tuples(scope):
        yield scope.exchanged(one, other, "this line", 2)
    for pattern, where in ((_UNPACKED, "line"), (_EXPONENT, "exponent"), (_INDEX, "index")):
        for given in scope.matches(pattern):
            yield scope.exchanged(given.span(1), given.span(2), f"this {where}", 1)
    for given in scope.matches(_DIFFERENCE):
        if {scope.kinds.get(given[1]), scope.kinds.get(given[2])} == {"int"}:
            yield scope.instead("exchanged", *given.span(), f"{given[2]} - {given[1]}", 1)
    by_line: dict[int, list[Token]] = {}
    for index, last in _operand_starts(scope):
        if index == last and scope.tokens[index].text in scope.kinds:
            by_line.setdefault(scope.tokens[index].line, []).append(scope.tokens[index])
    for tokens in by_line.values():
        for a, b in itertools.combinations(tokens[:8], 2):
            if a.text != b.text and scope.kinds[a.text] == scope.kinds[b.text]:
                yield scope.exchanged((a.start, a.end), (b.start, b.end), "this line", 4)


# A thread's index, `block * blockDim.x + thread`, with block and thread in each other's place.
_INDEX = re.compile(r"\b(\w+(?:\.[xy])?) \+ (\w+(?:\.[xy])?) \* blockDim\.[xy]")
_DIFFERENCE = re.compile(r"(?<![\w.])([A-Za-z_]\w*) - ([A-Za-z_]\w*)(?![\w.(\[]| [*/%])")
_EXPONENT = re.compile(r"\bexp2?f?\((\w+) - (\w+)\)")
_UNPACKED = re.compile(r"^[ \t]*(\w+), (\w+)(?:, \w+)* = ", re.M)


def _tuples(scope: Scope) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Neighbours in a tuple: of a grid, of a shape, of what is returned or assigned at once."""
    tokens = scope.tokens
    for index, token in enumerate(tokens):
        begins = token.text == "(" and not (
            tokens[index - 1].is_name or tokens[index - 1].text in ")]>"
        )
        given = scope.code_line(token.line)[: token.end - scope.text.starts[token.line - 1]]
        is_whole = token.text == "return" or bool(re.fullmatch(r"\s*[\w, ]+=", given))
        if scope.is_triton and (begins or is_whole):
            closed = _closing(tokens, index) if begins else None
            end = closed if closed is not None else len(tokens)
            at, first, parts = index + 1, index + 1, []
            while at < end and (begins or tokens[at].line == token.line):
                inner = _closing(tokens, at) if tokens[at].text in "([{" else None
                if tokens[at].text == ",":
                    parts.append((tokens[first].start, tokens[at - 1].end))
                    first = at + 1
                at = (inner or at) + 1
            if parts and first < at:
                parts.append((tokens[first].start, tokens[at - 1].end))
            for one, other in itertools.pairwise(parts):
                if one[0] < one[1] <= other[0] < other[1]:
                    yield one, other


def _fragments(scope: Scope) -> dict[str, str]:
    """Operators with their second operand, and the operand's kind, marked "unused" or "likely".

    First those that are likely, then of names never read, then what stands in the function.
    """
    tokens = scope.tokens
    code = scope.code
    known: dict[str, str] = dict.fromkeys(_TWO_TERMS.findall(code), "likely int")
    known |= {f" * {each}": "likely int" for each in _SHARES.findall(code)}
    known |= {f" * {each}": "likely int" for each in _VECTORS.findall(code)}
    factors = [n for n, kind in scope.kinds.items() if kind == "float" and n.isupper()]
    known |= {f" * {each}": "constant float" for each in factors if len(each) > 1}
    for name in scope.unread:
        kind = scope.kinds[name]
        if kind in _MAY_STAND and name not in scope.function.integers:
            joined = ("*", "+", "/") if kind in ("data", "float") else ("*", "+")
            known |= {f" {each} {name}": f"unused {kind}" for each in joined}
    if not scope.is_triton:  # an array that nothing reads, at an index of another one
        arrays = [each for each in scope.unused if each in scope.pointers]
        one_index = r"(?<![\w.])[a-z]\w*\[([a-z]\w*)\](?!\[)"
        indices = dict.fromkeys(match[1] for match in scope.matches(one_index))
        known |= {f" * {each}[{at}]": "unused float" for each in arrays for at in indices}
    for index, last in _operand_starts(scope):
        before = tokens[index - 1].text if index else ""
        text = scope.text.source[tokens[index].start : tokens[last].end]
        made = scope.kind_of(text)
        if before in ("*", "+", "-", "/", "//", "^") and made is not None and len(text) < 40:
            known.setdefault(f" {before} {text}", made)
            if scope.is_triton and made == "data" and index == last:
                known.setdefault(f" {before} {text}[:, None]", made)
        if before not in ("(", ",") and made in ("data", "float") and index == last:
            known.setdefault(f" * {text}", made)
    return known


def _is_left_out(scope: Scope, text: str, fragment: str) -> bool:
    """Whether a value that nothing reads is likely a factor of this operand, both of numbers."""
    name = fragment.removeprefix(" * ")
    is_number = name.isidentifier() and scope.kinds[name] in ("data", "float")
    return is_number and f"{name}[" not in scope.code and not text[0].isdigit()


# As in a causal mask: `rows + N_KV - N_CTX`.
_TWO_TERMS = re.compile(r" \+ (?:\([A-Z]\w* - [A-Z]\w*\)|[A-Z]\w* - [A-Z]\w*\b)")
_VECTORS = re.compile(r"\b\w+ = \w+ //? (\d+)\b")  # how many elements a vector has
# How much each thread or block takes: the quotient of a size, rounded up.
_SHARES = re.compile(r"\b(\w+) = (?:\w+\.)?(?:\w*[dD]iv\w*\(|\(\w+ \+ [\w.]+ - 1\) /)")
_MAY_STAND = {  # kinds of operands, and of fragments that may be put behind them
    "int": {"int"},
    "offsets": {"int", "offsets"},
    "pointer": {"int", "offsets"},
    "data": {"data", "float"},
    "float": {"data", "float"},
}


def _put_in(scope: Scope) -> Iterator[Edit]:
    """A factor or summand that is missing: one that stands elsewhere, or a value never used."""
    tokens = scope.tokens
    fragments = [*_fragments(scope).items()]
    for index, last in _operand_starts(scope):
        low, high = tokens[index].start, tokens[last].end
        text = scope.text.source[low:high]
        kind = scope.kind_of(text)
        line = scope.code_line(tokens[index].line)
        chosen = 0
        for fragment, other in fragments:
            *mark, other = other.split()
            name = fragment.split(" ", 2)[2]
            fits = other in _MAY_STAND.get(kind or "", ()) and not (
                kind == "pointer" and "*" in fragment[:3]
            )
            is_constant = mark == ["constant"]  # may be a factor of each summand
            at = low - scope.text.starts[tokens[index].line - 1]
            part = line[line.rfind(";", 0, at) + 1 :].partition(";")[0]  # of a loop's head
            is_there = fragment in part and not is_constant and mark != ["unused"]
            if not fits or name in text or is_there:
                continue
            behind = [each.text for each in tokens[last + 1 : last + 3]]
            if "*" in fragment[:3] and behind == ["==", "0"]:
                continue  # a product is 0 where either factor is: the other one was meant alone
            later = [n for n in _NAMES.findall(name) if scope.first_use.get(n, 0) > low]
            if later and not is_constant:
                continue
            chosen += 1
            if chosen > MOST_FRAGMENTS:
                break
            carried = re.match(rf"\s*{re.escape(tokens[index].text)}\s*[-+*]?=", line)
            is_likely = mark == ["likely"] or is_constant
            is_likely |= bool(carried) and scope.in_loop(tokens[index].line)
            if text.isupper() and "*" in fragment[:3] and not scope.function.is_kernel:
                continue  # that takes a launcher's limit away
            what = f"{scope.quoted(low, high)} lacks {scope.quoted(0, 0, fragment)}"
            change = Change(high, high, fragment)
            if mark == ["unused"] and name not in scope.first_use:  # a constant of the file
                yield scope.edit("unused", [change], what, "", 1 if index == last else 2)
            elif mark == ["unused"] and _is_left_out(scope, text, fragment):
                advice = f"Nothing reads `{name}` otherwise."
                yield scope.edit("unread", [change], what, advice, 1)
            else:
                cost = 1 if mark == ["unused"] else 2 if is_likely else 5
                yield scope.edit("missing_term", [change], what, "", cost)


def _whole_argument(scope: Scope) -> Iterator[Edit]:
    """A constant factor that the whole argument of a call lacks: `exp2(x - m)`."""
    constants = [each for each, kind in scope.kinds.items() if kind == "float"]
    for call in scope.calls:
        if len(call.arguments) == 1 and not call.is_launch:
            low, high = call.arguments[0]
            text = scope.text.source[low:high]
            known = [*constants, *(("2.0", "0.5") if _OF_HALVES.fullmatch(call.name) else ())]
            for name in known if scope.kind_of(text) in ("data", "float") else ():
                if name not in text:
                    new = _multiplied(text, name)
                    around, is_named = (call.start, call.end), name in constants
                    rule, cost = ("missing_term", 4) if is_named else ("doubled", 2)
                    yield scope.instead(rule, low, high, new, cost, around)


def _multiplied(text: str, factor: str) -> str:
    """A product with one factor more, which a number that it begins with takes in: `-2 * x`."""
    product = re.fullmatch(r"(-?)(\d+(?:\.\d*)?)f? \* ([\w.]+(?:\([^()]*\))?(?: \* [\w.]+)*)", text)
    if product and not factor.isidentifier():
        number = float(product[2]) * float(factor)
        suffix = "f" * ("f *" in text)
        return f"{product[1]}{f'{number}{suffix} * ' * (number != 1)}{product[3]}"
    return f"{factor} * {text}" if re.fullmatch(r"-?\w+", text) else f"({text}) * {factor}"


_OF_HALVES = re.compile(r"(?:\w+\.)*(?:exp2?|tanh|sigmoid)f?")  # which differ by a factor of 2


@at_each(r"(?<![\w.])([A-Za-z_]\w*)(?: \* \1)+\b(?![\w.(\[])")
def _powers(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A power of a value, written as a product, with one factor more or fewer: `x * x`."""
    if scope.kinds.get(match[1]) in ("data", "float"):
        more = f"{match[0]} * {match[1]}"
        fewer = match[0].removesuffix(f" * {match[1]}")
        for new in (more, fewer):
            yield scope.instead("power", *match.span(), new, 1)


@at_each(r"(?:[\w.]+\([^()\n]*\)|\w+\[\w+\]|\w+) / ([A-Z]\w*|blockDim\.x)\b(?!\()")
def _means(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A sum over a row that is divided by a block's length, or the threads of one."""
    kind = scope.kind_of(match[0].rpartition(" / ")[0])
    if scope.function.is_kernel and kind in ("data", "float"):
        for size in sorted(scope.function.integers):
            yield scope.instead("divisor", *match.span(1), size, 1, match.span())


@at_each(r"(?<![\w.])(1(?:\.0?f?)?|[A-Za-z_]\w*) / \((1[^()\n]*)\)")
def _numerators(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A quotient of 1 where a part of its divisor is divided, or the other way: `e / (1 + e)`."""
    names = [n for n in _NAMES.findall(match[2]) if scope.kinds.get(n) in ("data", "float")]
    for new in ["1.0", *names] if names else ():
        if new != match[1]:
            yield scope.instead("numerator", *match.span(1), new, 1, match.span())


_OF_SUMS = re.compile(r"(?:r?sqrt|exp2?|log2?|tanh|f?abs|sum)f?")


def _regrouped(scope: Scope) -> Iterator[Edit]:
    """A summand on the wrong side of a parenthesis: `sqrt(x) + eps`, `(l + p) * alpha`."""
    tokens, source = scope.tokens, scope.text.source
    for opening in (at for at, token in enumerate(tokens[:-1]) if at and token.text == "("):
        closing = _closing(tokens, opening)
        if closing is None or closing + 2 >= len(tokens):
            continue
        signs = [at for at in _outermost(tokens, opening, closing) if tokens[at].text in "+-"]
        callee, behind = tokens[opening - 1], tokens[closing + 1]
        end, last = tokens[closing].end, tokens[_operand_end(tokens, closing + 2)].end
        if _OF_SUMS.fullmatch(callee.text):
            for sign in signs[-1:]:
                low = tokens[sign].start
                new = f") {source[low : end - 1]}"
                yield scope.instead("parentheses", low - 1, end, new, 2, (callee.start, end))
            if behind.text in ("+", "-") and not any(
                tokens[at].text == "," for at in _outermost(tokens, opening, closing)
            ):
                new, around = f"{source[end:last]})", (callee.start, last)
                yield scope.instead("parentheses", end - 1, last, new, 2, around)
        elif not callee.is_name and behind.text == "*" and len(signs) == 1:
            [sign] = signs
            factor = source[tokens[closing + 2].start : last]
            first = source[tokens[opening].end : tokens[sign].start].strip()
            rest = source[tokens[sign].start : end - 1]
            change = Change(tokens[opening].start, last, f"{first} * {factor} {rest}")
            what = f"{scope.quoted(0, 0, factor)} multiplies the whole sum, and not `{first}` alone"
            yield scope.edit("parentheses", [change], what, f"Only `{first}` has this factor.", 1)


def _outermost(tokens: Sequence[Token], opening: int, closing: int) -> Iterator[int]:
    """The tokens between two parentheses that are in no others."""
    at = opening + 1
    while at < closing:
        if tokens[at].text in _OPENING:
            at = _closing(tokens, at) or closing
        elif at > opening + 1:
            yield at
        at += 1


_PRODUCT = re.compile(r"(\w+) \* (\w+)")


@at_each(r"\b((?:triton\.)?\w*[dD]iv\w*|DIV_UP|CEIL_DIV)\(([^(),]+), ([^(),]+)\)")
def _counted_blocks(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A grid that counts blocks of what has a block for each element, or of a product.

    In each direction the last tile may be filled in part, so tiles aren't counted by elements.
    """
    if scope.function.is_kernel:
        return
    div, counted, size = match.groups()
    # With so many programs a wrong order of tiles seems right: they reach each tile in the end.
    by = f"{re.findall(r'[A-Za-z0-9_]+', size)[-1]}|blockDim"
    takes_block = re.compile(rf"(?:pid|program|blockIdx)\w*[^\n]*\*\s*(?:{by})\b")
    launched = re.search(r"(\w+)(?:<[^<>;]*>)?(?:<<<|\[)[^;\n]*$", scope.text.code[: match.start()])
    reached = [each for each in scope.reached if each.is_kernel]
    kernels = [each for each in reached if not launched or each.name == launched[1]]
    if not any(takes_block.search(scope.text.code, each.body, each.end) for each in kernels):
        yield scope.instead("grid", *match.span(), counted, 2)
    if scope.is_triton and size.isdigit():
        known = [e for e, kind in scope.kinds.items() if kind == "int" and e.isupper()]
        for name in known:
            is_block = axis_of(name) == axis_of(counted) or "BLOCK" in name
            if is_block and scope.first_use.get(name, 0) < match.start():
                yield scope.instead("grid", *match.span(3), name, 1, match.span())
    both, tiles = _PRODUCT.fullmatch(counted), _PRODUCT.fullmatch(size)
    if both and tiles:
        new = f"{div}({both[1]}, {tiles[1]}) * {div}({both[2]}, {tiles[2]})"
        yield scope.instead("grid", *match.span(), new, 1)
    elif both:
        for one, other in (both.groups(), both.groups()[::-1]):
            new = f"{one} * {div}({other}, {size})"
            yield scope.instead("grid", *match.span(), new, 1)


def _left_out(scope: Scope) -> Iterator[Edit]:
    """An operand with its operator, a sign, or a call around a value that is too much."""
    tokens = scope.tokens
    for index, last in _operand_starts(scope):
        before = tokens[index - 1] if index else None
        behind = tokens[last + 1].text if last + 1 < len(tokens) else ""
        low, high = tokens[index].start, tokens[last].end
        earlier = tokens[index - 2].text if index > 1 else "("
        is_binary = earlier[-1] in ")]" or earlier[0].isalnum() or earlier[0] == "_"
        if before and before.text in ("*", "+", "-", "%") and is_binary:
            around = scope.operands(index - 1)
            if _is_twice(scope, index):
                what = f"The factor {scope.quoted(low, high)} is there once too often"
                change = Change(before.start, high, "")
                yield scope.edit("twice", [change], what, "Another product has it, too.", 1)
            else:
                yield scope.instead("term", before.start, high, "", 4, around)
        elif before and before.text in ("-", "&", "!") and earlier not in WORDS:
            around = (before.start, high)
            yield scope.instead("sign", before.start, before.end, "", 3, around)
        if behind in ("*", "+") and (before is None or before.text in ("(", "=", ",", "[", "+")):
            around = scope.operands(last + 1)
            yield scope.instead("term", low, tokens[last + 2].start, "", 4, around)
        if behind == "*" and index == last and last + 3 < len(tokens):
            yield from _product_left_out(scope, index)
        inner = _single_argument(scope, index, last)
        if inner is not None:
            cost = 2 if "abs" in scope.text.source[low : inner[0]] else 4
            yield scope.instead("call", low, high, scope.text.source[slice(*inner)], cost)


def _is_twice(scope: Scope, index: int) -> bool:
    """Whether a token is a number that a kernel is passed and that several products have."""
    name = scope.tokens[index].text
    if scope.tokens[index - 1].text != "*" or name not in scope.function.parameters:
        return False
    products = re.findall(rf"\* {name}\b|\b{name} \*", scope.code)
    return scope.kinds.get(name) == "float" and len(products) > 1


def _product_left_out(scope: Scope, index: int) -> Iterator[Edit]:
    """A product of two values that is a summand too much: `x + row * cols`."""
    tokens = scope.tokens
    before, last = tokens[index - 1] if index else None, index + 2
    if not (tokens[last].is_name or tokens[last].text[0].isdigit()):
        return
    behind = tokens[last + 1].text
    if before and before.text == "+" and behind not in ("*", "/", "[", "(", "."):
        around = scope.operands(index - 1)
        yield scope.instead("term", before.start, tokens[last].end, "", 3, around)
    elif behind == "+" and (before is None or before.text in ("(", "=", ",", "[", "+")):
        around = scope.operands(last + 1)
        yield scope.instead("term", tokens[index].start, tokens[last + 2].start, "", 3, around)


def _single_argument(scope: Scope, index: int, last: int) -> tuple[int, int] | None:
    """The first argument of a call of the library, that may stand for the whole call."""
    tokens = scope.tokens
    opening = next((at for at in range(index, last) if tokens[at].text == "("), None)
    if opening is None or _closing(tokens, opening) != last or opening + 1 == last:
        return None
    if scope.is_triton and not scope.function.is_kernel:
        return None  # host code without a call is right by accident, mostly
    name = tokens[opening - 1].text
    if name in scope.text.functions or name in ("load", "arange", "program_id", "range", "cdiv"):
        return None
    depth, at = 0, opening + 1
    while at < last and (depth or tokens[at].text != ","):
        depth += (tokens[at].text in "([") - (tokens[at].text in ")]")
        at += 1
    return tokens[opening + 1].start, tokens[at - 1].end


def _wrapped(scope: Scope) -> Iterator[Edit]:
    """A value without its sign or conversion, or a mask that isn't turned as its values are."""
    for index, last in _operand_starts(scope):
        token = scope.tokens[index]
        low, high = token.start, scope.tokens[last].end
        text = scope.text.source[low:high]
        kind = scope.kind_of(text)
        before = scope.tokens[index - 1].text if index else ""
        if kind in ("data", "float") and index == last and before in ("(", ",", "="):
            yield scope.instead("sign", low, high, f"-{text}", 4, (low, high))
        if kind in ("data", "float") and index == last and before == "-":
            size = f"tl.abs({text})" if scope.is_triton else f"fabsf({text})"
            yield scope.instead("sign", low, high, size, 3, (low, high))
        if scope.is_triton and kind in ("data", "mask") and index == last:
            if kind == "data" and before not in ("(", ","):
                yield scope.instead("no_cast", low, high, f"{text}.to(tl.float32)", 4, (low, high))
            if "tl.trans" in scope.text.code or ".T" in scope.text.code:
                yield scope.instead("transposed", low, high, f"tl.trans({text})", 4, (low, high))


_KEYWORD = re.compile(
    r"\b(axis|other|mask|input_precision|keep_dims)\s*=\s*([^,()\n]+(?:\([^()\n]*\))?)"
)
# By a call: how its axis is named, what it takes without one, and whether the axis may be kept.
_ALONG = {
    **dict.fromkeys(
        ("tl.sum", "tl.max", "tl.min"),
        ("axis", "in all of the block", ("", ", keep_dims=True")),
    ),
    "tl.cumsum": ("axis", "axis 0: down the columns", ("",)),
    "tl.softmax": ("dim", "axis 0: down the columns", ("",)),
}


def _keywords(scope: Scope) -> Iterator[Edit]:
    """An argument by its name that like calls have, or a reduction's axis, that a call lacks."""
    if not scope.is_triton or not scope.function.is_kernel:
        return
    source = scope.text.source
    body = source[scope.function.body : scope.function.end]
    known = dict.fromkeys(match.group(1, 2) for match in _KEYWORD.finditer(body))
    two_axes = "[None, :]" in body or "[:, None]" in body
    for call in scope.calls:
        given = source[call.start : call.end]
        if call.name in _ALONG and len(call.arguments) == 1 and two_axes:
            word, taken, shapes = _ALONG[call.name]
            for axis, kept in itertools.product((1, 0), shapes):
                what = f"`{call.name}` has no `{word}`, so it takes {taken}"
                change = Change(call.end - 1, call.end - 1, f", {word}={axis}{kept}")
                advice = f"Say along which axis, here {word}={axis}{kept}: 1 is along a row."
                yield scope.edit("axis", [change], what, advice, 1)
        for name, value in known if call.name in ("tl.load", "tl.store") else ():
            if name not in ("mask", "other") or (name == "other" and call.name == "tl.store"):
                continue
            if f"{name}=" not in given:
                what = f"This `{call.name}` lacks `{name}={value}`"
                change = Change(call.end - 1, call.end - 1, f", {name}={value}")
                yield scope.edit("keyword", [change], what, "", 2)
            elif name == "mask":
                match = re.search(r"\bmask\s*=\s*([^,()\n]+)", given)
                if match and match[1].strip() != value.strip():
                    low = call.start + match.start(1)
                    around = (call.start + match.start(), low + len(match[1]))
                    yield scope.instead("mask", low, low + len(match[1]), value, 3, around)


def _changes_in_a_loop(code: str, name: str) -> bool:
    """Whether a loop of the text changes a variable, in its head or behind it."""
    loop = re.search(r"\b(?:for|while)\b", code)
    change = rf"\b{name}\s*(?:[-+*/|&]|<<|>>)?=(?!=)|\b{name}\s*(?:\+\+|--)|(?:\+\+|--)\s*{name}\b"
    return loop is not None and re.search(change, code[loop.end() :]) is not None


@at_each(
    r"(?m)^([ \t]*)([A-Za-z_][\w.\[\]() ,:*&<>+-]*?"
    r"(?:[-+*/]?=(?!=)[^;{}\n]+|\([^;{}\n]*\)));?[ \t]*$"
)
def _statements(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A statement that is too much, or that has to be repeated before a later loop."""
    code = scope.text.code
    text = match[2]
    is_open = text.count("(") != text.count(")") or text.rstrip().endswith(",")
    if is_open or re.match(r"(?:return|def|for|if|while|else|elif|assert)\b", text):
        return
    quoted = scope.quoted(*match.span(2))
    semicolon = "" if scope.is_triton else ";"
    if "launch" not in text and "<<<" not in text and not re.match(r"\w+\[", text):
        nothing = "pass" if scope.is_triton else ""
        is_declared = re.match(
            r"(?:const |constexpr |__shared__ |float|int|size_t|auto|dim3)", text
        )
        if not is_declared:
            change = Change(*match.span(2), nothing)
            yield scope.edit("too_much", [change], f"{quoted} is too much", "Leave it out.", 5)
    first = re.match(
        r"(?:(?:const|int|float|size_t|unsigned)\s+)*(\w+)\s*=\s*(-?[\w.\"()-]+)$", text
    )
    if first is None:
        return
    again = rf"(?m)^([ \t]*)(?:while|for)\b[^\n]*\b{first[1]}\b[^\n]*$"
    loops = [*scope.matches(again, match.end())]
    for loop in loops[1:] if scope.is_triton else loops:
        if not _changes_in_a_loop(code[match.end() : loop.start()], first[1]):
            continue
        new = f"{loop[1]}{first[1]} = {first[2]}{semicolon}\n"
        what = f"`{first[1]} = {first[2]}` is missing before this loop"
        advice = "An earlier loop has left another value in it."
        yield scope.edit("not_reset", [Change(loop.start(), loop.start(), new)], what, advice, 2)


@at_each(r"(?m)^([ \t]*)(\w+) (?:\+=|= \2 \+) ([^;\n]+?);?$")
def _like_statements(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A statement that another value of a loop lacks: `a += step * one`, but nothing moves b."""
    code = scope.text.code
    kind = scope.kinds.get(match[2])
    if kind is None or not scope.in_loop(scope.text.line_at(match.start(2))):
        return
    for other, known in scope.kinds.items():
        is_moved = re.compile(rf"^[ \t]*{other}\s*(?:\+=|= {other} )", re.M)
        if known != kind or other == match[2] or is_moved.search(code, scope.function.body):
            continue
        if scope.first_use.get(other, match.end()) > match.start():
            continue
        for step in _steps_like(match[3], scope):
            new = f"\n{match[1]}{other} += {step}{'' if scope.is_triton else ';'}"
            what = f"Nothing in the loop moves `{other}` on, as `{match[2]}` is moved"
            advice = f"Add {new.strip()}."
            is_alike = kind == "pointer" and step == match[3]
            yield scope.edit(
                *("not_moved", [Change(match.end(), match.end(), new)], what, advice),
                1 if is_alike else 2,
            )


def _steps_like(step: str, scope: Scope) -> Iterator[str]:
    """A step, and those in which one name is another of its kind that looks like it."""
    yield step
    yield from step.split(" * ")[:-1]
    for name in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", step)):
        for other, kind in scope.kinds.items():
            if are_twins(name, other) and kind == scope.kinds.get(name):
                yield re.sub(rf"\b{name}\b", other, step)


_CONSTANT = re.compile(
    r"^(?:(?:static )?(?:constexpr|const) \w+ |#define )?([A-Z][A-Z_\d]*)(?:: tl\.constexpr)?[ =]+"
    r"(?:tl\.constexpr\()?(\d[\d.]*)f?\)?;?[ \t]*$",
    re.M,
)
_KNOWN = (math.log2(math.e), math.log(2), math.sqrt(2 / math.pi), 0.044715, 0.5)


def _constants(scope: Scope) -> Iterator[Edit]:
    """A constant of the file that has another value: a block's length, a factor of a formula."""
    if scope.function is not scope.reached[-1]:
        return  # once is enough, for all functions
    tokens = [token for each in scope.reached for token in scope.text.tokens(each)]
    for match in _CONSTANT.finditer(scope.text.source):
        if re.fullmatch(r"WARP(?:_?SIZE)?", match[1]) and match[2] == "32":
            continue  # the hardware's
        uses = [token for token in tokens if token.text == match[1]]
        for new, cost in _other_numbers(match[2]) if 0 < len(uses) <= MOST_USES else ():
            what = f"`{match[1]}` is {match[2]}, where {new} belongs"
            changes = [Change(t.start, t.end, new) for t in uses]
            yield scope.edit("constant", changes, what, "", cost, match.start(1))


MOST_USES = 30  # of a constant


def _other_numbers(text: str) -> Iterator[tuple[str, int]]:
    """Numbers that a constant may stand for: powers of two, or factors that formulas have."""
    if not text.isdigit():
        for each in (*_KNOWN, float(text) * 10, float(text) / 10):
            if f"{each:.6g}" != f"{float(text):.6g}":
                yield f"{each:.10g}", 2
        return
    number = int(text)
    power = 1 << max(number.bit_length() - 1, 0)
    if number != power:
        yield from ((str(power), 1), (str(2 * power), 1))
    elif number > 1:
        yield from ((str(number // 2), 2), (str(2 * number), 2))


_FRACTION = re.compile(r"(\d*\.\d+)[fF]?")


def _factors(scope: Scope) -> Iterator[Edit]:
    """A number with a fraction that has another value: a factor of a formula, or ten times one."""
    for token in scope.tokens:
        match = _FRACTION.fullmatch(token.text)
        if match and float(match[1]) not in (0.0, 1.0, 2.0):
            suffix = "" if scope.is_triton else "f"
            for new, cost in _other_numbers(match[1]):
                yield scope.instead("number", token.start, token.end, new + suffix, cost)


_ASSIGNMENT = re.compile(r"^[ \t]*(?:(?:const|int|size_t|float) )*(\w+) = ([^;\n]+);?$", re.M)


def _pasted(scope: Scope) -> Iterator[Edit]:
    """A value that is computed from the parts of another one: of rows where columns belong."""
    matches = [*scope.matches(_ASSIGNMENT)]
    times = Counter(match[2] for match in matches)
    for one in matches:
        instead = {
            name: [
                each
                for each, kind in scope.kinds.items()
                if kind == scope.kinds[name] and each != one[1] and _is_twin(each, name)
            ]
            for name in dict.fromkeys(re.findall(r"(?<![\w.])[A-Za-z_]\w*", one[2]))
            if name in scope.kinds
        }
        swap = {name: others[0] for name, others in instead.items() if len(others) == 1}
        if len(swap) > 1 or (swap and times[one[2]] > 1 and len(one[2]) > 5):
            new = re.sub(r"\w+", lambda name, swap=swap: swap.get(name[0], name[0]), one[2])
            yield scope.instead("pasted", *one.span(2), new, 1 if times[one[2]] > 1 else 2)


def _is_twin(one: str, other: str) -> bool:
    """Whether two names differ in one letter or one part: `BLOCK_M` and `BLOCK_N`, `M` and `N`."""
    parts = [*zip(one.split("_"), other.split("_"), strict=False)]
    if one.count("_") != other.count("_") or one.isupper() != other.isupper():
        return False
    differing = [(a, b) for a, b in parts if a != b]
    return len(differing) == 1 and len(differing[0][0]) == len(differing[0][1]) < 3


_CONJUNCT = re.compile(r"\s*(?:&&|&(?!&)|\band\b)\s*")


def _conditions(scope: Scope) -> Iterator[Edit]:
    """A condition that lacks a bound on an index, of any index and size of the function."""
    code = scope.text.code
    sizes = [each for each, kind in scope.kinds.items() if kind == "int"]
    sizes = [each for each in sizes if each in scope.function.integers]
    bounds = {each for each in sizes if re.search(rf"<\s*{each}\b", code)}
    sizes.sort(key=lambda each: (each not in scope.unread, each not in bounds))
    kinds = ("offsets",) if scope.is_triton else ("int",)
    indices = [each for each, kind in scope.kinds.items() if kind in kinds and each not in sizes]
    if not scope.function.is_kernel:
        return
    masks = re.compile(
        r"(?:\bmask\s*=\s*|^[ \t]*\w*(?:mask|ok|valid|inside|keep)\w*\s*=\s*)"
        r"((?:[^,()\[\]\n=]|\[[^\]\n]*\]|\([^()\n]*\))+?)\s*(?=[,)\n])",
        re.M,
    )
    guards = re.compile(r"\bif\s*\(([^(){};]{1,120})\)")
    for match in scope.matches(masks if scope.is_triton else guards):
        low, high = match.span(1)
        text = code[low:high]
        both = "&" if scope.is_triton else "&&"
        if text in scope.first_use:
            continue  # its definition is changed
        for index in indices:
            if re.search(rf"\b{index}\b", text) or scope.first_use.get(index, 0) > low:
                continue
            shapes = ("",)
            if scope.is_triton and "[None, :]" in text:
                shapes = ("[:, None]",)
            elif scope.is_triton and "[:, None]" in text:
                shapes = ("[None, :]",)
            for size, shape in itertools.product(sizes[:4], shapes):
                bound = f"{index}{shape} < {size}"
                new = f"({text}) {both} ({bound})"
                what = f"The condition {scope.quoted(low, high)} lacks a part: `{bound}`"
                advice = "Each index of the pointers needs a bound of its own."
                cost = 1 if size in scope.unread else 3
                yield scope.edit("mask_lacks", [Change(low, high, new)], what, advice, cost)
        parts = _CONJUNCT.split(text)
        if len(parts) > 1:
            for part in parts:
                rest = f" {both} ".join(each for each in parts if each is not part)
                if rest.count("(") == rest.count(")"):
                    what = f"The condition {scope.quoted(0, 0, part)} is too much"
                    yield scope.edit("mask_too_strict", [Change(low, high, rest)], what, "", 4)


def _counts(scope: Scope, name: str) -> bool:
    """Whether a variable is an index, a size or a counter, by what is done with it."""
    code = scope.code
    word = rf"\b{re.escape(name)}\b"
    return bool(
        re.search(
            rf"\[[^\[\]]*{word}|{word}\s*(?:%|\+\+|--|[<>&|]|\+=|/=|>>)|[%<>]=?\s*{word}", code
        )
        or re.search(rf"{word}\s*=[^;=]*(?:threadIdx|blockIdx|blockDim|gridDim)", code)
    )


_TYPE = re.compile(r"\bint(?=\s+\w+\s*(?:[,)=;]))")


def _types(scope: Scope) -> Iterator[Edit]:
    """A whole number where a number with a fraction belongs; memory that nothing has set to 0."""
    code = scope.text.code
    if not scope.is_triton and scope.function.is_kernel | (
        "__device__" in code[scope.function.start : scope.function.body]
    ):
        for match in scope.matches(_TYPE, scope.function.start):
            name = re.match(r"\s+(\w+)", code[match.end() :])
            assert name is not None
            if _counts(scope, name[1]):
                continue
            what = f"`{name[1]}` is an int, so what is behind the point is cut off"
            change = Change(*match.span(), "float")
            yield scope.edit("whole_number", [change], what, "Declare it as a float.", 1)
        for match in scope.matches(r"(?<![\w.])1 / (?=[a-z_]\w*\b(?!\s*\())"):
            what = "`1 / n` of whole numbers is 0 for every n above 1"
            change = Change(match.start(), match.start() + 1, "1.0f")
            yield scope.edit("whole_number", [change], what, "Divide 1.0f, or a float, by it.", 1)
        for match in scope.matches(r"(?:\(int\)|\bint(?=\())\s*\(?(\w+)"):
            declared = rf"\bfloat\s[^;(){{}}]*\b{match[1]}\b"
            if re.search(declared, scope.code):
                cast = match[0][: match[0].index("int") + 3] + ")" * match[0].startswith("(")
                what = f"`{cast}` drops the fraction of `{match[1]}`"
                change = Change(match.start(), match.start() + len(cast), "")
                yield scope.edit("whole_number", [change], what, "Leave it out.", 0)
        for match in scope.matches(r"(?m)^[ \t]*float (\w+(?:\[\w+\])+)\s*;"):
            what = f"Nothing sets the elements of `{match[1]}` before they are added to"
            change = Change(match.end() - 1, match.end() - 1, " = {}")
            advice = f"Write `float {match[1]} = {{}};`, or set each to 0 first."
            yield scope.edit("uninitialised", [change], what, advice, 1)
    for match in scope.matches(r"\b(?:torch\.|\w+\.new_)(empty(?:_like)?)\("):
        new = match[1].replace("empty", "zeros")
        of = match[0][: match.start(1) - match.start()]
        what = f"Nothing sets the memory of `{of}{match[1]}` before the kernel adds to it"
        yield scope.edit("cleared", [Change(*match.span(1), new)], what, f"Take {of}{new}.", 1)
    if scope.is_triton and scope.function.is_kernel:
        for match in scope.matches(r"(?m)= (0)$"):
            yield scope.instead("number", *match.span(1), "0.0", 2, match.span(1))


RULES: Sequence[Rule] = (
    _types,
    _constants,
    _factors,
    _pasted,
    _keywords,
    _exchanged,
    _like_statements,
    _statements,
    _put_in,
    _whole_argument,
    _powers,
    _means,
    _numerators,
    _regrouped,
    _counted_blocks,
    _left_out,
    _wrapped,
    _conditions,
    _derived,
    _other_values,
)
