"""Changes of Triton's kernels and launchers: axes, strides, grids, conversions, order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from grader.executors.source_text import Change
from grader.grading.edits.edit_scope import Call, Edit, Rule, Scope, at_each, axis_of

_GROUPED = re.compile(r"\b(\w+)\s*=\s*\w+\s*//\s*\(\s*(\w+)\s*\*\s*(\w+)\s*\)")
_COUNTED = re.compile(r"\b(\w+)\s*=\s*tl\.cdiv\(")


def _last_group(scope: Scope) -> Iterator[Edit]:
    """A group of tile rows that is taken to be whole, where the last one has fewer."""
    counted = [match[1] for match in scope.matches(_COUNTED)]
    for match in scope.matches(_GROUPED):
        for size, others in (match.group(2, 3), match.group(3, 2)):
            for rows in counted:
                if rows == others:
                    continue
                new = f"min({rows} - {match[1]} * {size}, {size})"
                each = [
                    [(token.start, token.end)]
                    for token in scope.tokens
                    if token.text == size and token.start > match.end()
                ]
                # A tile's row and its column both count in the group.
                both = scope.matches(rf"(?:%|//) ({size})\b", match.end())
                for spans in (*each, [use.span(1) for use in both]):
                    if spans:
                        what = (
                            f"{scope.quoted(*spans[0])} tile rows are taken to be in "
                            "every group, and the last group has fewer"
                        )
                        changes = [Change(*span, new) for span in spans]
                        advice = f"Take the smaller of {size} and the rows that are left."
                        yield scope.edit("last_group", changes, what, advice, 1)
    yield from _groups_by_product(scope)
    yield from _without_group(scope)


_SPLIT = re.compile(r"^[ \t]*\w+ = (\w+) // (\w+)[ \t]*$", re.M)
_HEIGHT = re.compile(r"\b(\w+) = (?:tl\.minimum|min)\((?:\w+, )?\w+ - ([^,()\n]+)(?=[,)])")


def _without_group(scope: Scope) -> Iterator[Edit]:
    """A tile's row, a group's first row, or a program's number that isn't counted in its group."""
    code = scope.text.code
    for match in scope.matches(_SPLIT):
        whole = rf"(?<![\w.]){match[1]}\b(?! - | % {match[2]}\b)"
        rest = f"({match[1]} % {match[2]})"
        later = itertools.islice(scope.matches(whole, match.end()), MOST_OFFSETS)
        changes = [Change(*each.span(), rest) for each in later]
        if changes:
            what = f"`{match[1]}` stands where `{rest}` belongs, its number in the group"
            yield scope.edit("group_start", changes, what, "", 1)
    for match in scope.matches(_HEIGHT):
        first = rf"(?m)^[ \t]*{re.escape(match[2])} = (\w+)[ \t]*$"
        call = match[0] + code[match.end() : code.find("\n", match.end())]
        sizes = re.findall(r"(?:\(|, )([A-Z]\w*)\b", call)[:1]
        begins = scope.matches(first, end=match.start())
        for size, begin in itertools.product(sizes, begins):
            product = f"{begin[1]} * {size}"
            yield scope.instead("group_start", *begin.span(1), product, 1, begin.span())
        row = rf"(?<![+*] )(?<![+*]\()(?<!\w)\(?\w+ % {match[1]}\b"
        for within in scope.matches(row, match.end()):
            at = within.start()
            yield scope.instead("group_start", at, at, f"{match[2]} + ", 1, within.span())


_OF_PRODUCT = re.compile(r"(?m)\b(\w+)\s*=\s*\w+\s*//\s*([a-z]\w*)[ \t]*$")


def _last_of_named_groups(scope: Scope) -> Iterator[Edit]:
    """As _last_group, where the tiles of a group have a name and both places take all its rows."""
    for group in scope.matches(_OF_PRODUCT):
        product = rf"\b{group[2]}\s*=\s*(?:([A-Z]\w*) \* (\w+)|(\w+) \* ([A-Z]\w*))[ \t]*$"
        made = next(scope.matches(rf"(?m){product}"), None)
        size, tiles = (made[1] or made[4], made[2] or made[3]) if made else ("", "")
        divided = [
            token
            for token, before in zip(scope.tokens[1:], scope.tokens, strict=False)
            if token.text == size and before.text in ("%", "//") and token.start > group.end()
        ]
        if len(divided) != 2:
            continue
        counts = [match[1] for match in scope.matches(_COUNTED) if match[1] != tiles]
        blocks = dict.fromkeys(re.findall(r"\* ([A-Z]\w*) \+ tl\.arange", scope.code))
        pairs = itertools.product(sorted(scope.function.integers), blocks)
        for rows in (*counts, *(f"tl.cdiv({length}, {block})" for length, block in pairs)):
            new = f"min({rows} - {group[1]} * {size}, {size})"
            what = (
                f"`{size}` tile rows are taken to be in every group, and the last group has fewer"
            )
            advice = f"Take the smaller of {size} and the rows that are left, at both places."
            changes = [Change(each.start, each.end, new) for each in divided]
            yield scope.edit("last_group", changes, what, advice, 1)


_BEGINNING = re.compile(
    r"\b(\w+)\s*=\s*(?:[\w ()/*]{1,60} \* ([A-Z]\w*)|([A-Z]\w*) \* \w+)[ \t]*$", re.M
)


def _groups_by_product(scope: Scope) -> Iterator[Edit]:
    """A group's size that isn't kept below the rows left behind `first`, the group's first row."""
    # A helper is given the numbers of tiles.
    counted = [match[1] for match in scope.matches(_COUNTED)] or sorted(scope.function.integers)
    for match in scope.matches(_BEGINNING):
        if not {*counted}.isdisjoint(re.findall(r"\w+", match[0])):
            continue  # how many programs a group has
        size = match[2] or match[3]
        for whole in itertools.islice(
            scope.matches(rf"(?m)=[ \t]*({size})[ \t]*$", match.end()), 1
        ):
            for rows in counted:
                new = f"min({rows} - {match[1]}, {size})"
                yield scope.instead("last_group", *whole.span(1), new, 1)


def _offsets(scope: Scope) -> Iterator[Edit]:
    """A pointer with another offset than that of a like access: a block's part, for instance."""
    code = scope.text.code
    offsets = []
    for call in scope.calls:
        if call.name in ("tl.load", "tl.store") and call.arguments:
            low, high = call.arguments[0]
            pointer, plus, offset = code[low:high].partition(" + ")
            if plus and pointer.isidentifier():
                offsets.append((low + len(pointer) + 3, high, offset))
    known = dict.fromkeys(offset for *_, offset in offsets if "*" not in offset)
    for low, high, offset in offsets:
        for new in itertools.islice(known, MOST_OFFSETS):
            if new != offset and scope.is_known(new, low):
                around = (code.rindex("(", 0, low) + 1, high)
                yield scope.instead("offset", low, high, new, 2, around)


def _one_for_all(scope: Scope) -> Iterator[Edit]:
    """A load of one number for all of a block, where other loads have one for each element."""
    code = scope.text.code
    loads = [each for each in scope.calls if each.name == "tl.load" and each.arguments]
    masked: dict[str, str] = {}  # by a block's offsets, the mask that they are loaded with
    for call in loads:
        low, high = call.arguments[0]
        for name in re.findall(r"\w+", code[low:high]):
            if scope.kinds.get(name) == "offsets":
                masked.setdefault(name, code[high : call.end - 1])
    for call in loads:
        low, high = call.arguments[0]
        pointer, plus, number = code[low:high].partition(" + ")
        if not plus or scope.kinds.get(number) != "int":
            continue
        for offsets, mask in itertools.islice(masked.items(), MOST_OFFSETS):
            new = offsets + mask * (len(call.arguments) == 1)
            edit = scope.instead("per_element", low + len(pointer) + 3, high, new, 1, (low, high))
            advice = f"By {scope.quoted(0, 0, number)} every element of the block gets the same."
            yield replace(edit, advice=advice)


MOST_OFFSETS = 6
_NARROW_FIRST = re.compile(
    r"\b(\w+) = tl\.(?:zeros|full)\([^=\n]*?(?:dtype=|, )(?!tl\.(?:float32|float64|u?int))"
    r"(tl\.b?float16|[\w.]+\.element_ty|\w+\.dtype)\)"
)


def _casts(scope: Scope) -> Iterator[Edit]:
    """A value that isn't converted to float32, or too early to a narrower type."""
    for call in scope.calls:
        if call.name == "tl.load" and not scope.text.code[call.end :].startswith(".to("):
            what = "The loaded values aren't converted to float32, so later steps are in their type"
            change = Change(call.end, call.end, ".to(tl.float32)")
            advice = "Convert right behind the load."
            yield scope.edit("no_cast", [change], what, advice, 3, call.start)
    for match in scope.matches(_NARROW_FIRST):
        what = f"`{match[1]}` is kept in {scope.quoted(*match.span(2))}, so each addition rounds"
        advice = "Keep it in float32, and convert where the result is stored."
        yield scope.edit("cast", [Change(*match.span(2), "tl.float32")], what, advice, 3)
    pattern = re.compile(r"\.to\([\w.]+\)")
    for match in scope.matches(pattern):
        what = f"The conversion {scope.quoted(*match.span())} rounds here, and is too early"
        advice = "Convert where the result is stored."
        yield scope.edit("cast", [Change(*match.span(), "")], what, advice, 3)


def _axes(scope: Scope) -> Iterator[Edit]:
    """Program ids that are taken from each other's axes, or an axis that the grid doesn't have."""
    pattern = re.compile(r"tl\.program_id\(\s*(?:axis\s*=\s*)?(\d)\s*\)")
    matches = list(scope.matches(pattern))
    if len({match[1] for match in matches}) == 2:
        axes = sorted({match[1] for match in matches})
        other = {axes[0]: axes[1], axes[1]: axes[0]}
        changes = [Change(*match.span(1), other[match[1]]) for match in matches]
        what = f"The axes of the program ids in `{scope.function.name}` are exchanged"
        advice = "Exchange the numbers in tl.program_id, or those in the grid."
        yield scope.edit("axes", changes, what, advice, 1)
    for match in matches:
        if match[1] != "0":
            what = f"`tl.program_id({match[1]})` is always 0: the grid doesn't have this axis"
            advice = "Axes count from 0: take one that the grid has."
            yield scope.edit("axes", [Change(*match.span(1), "0")], what, advice, 1)
    for match in scope.matches(r"(\bnum_programs)\([^()]*\)"):
        new = scope.text.source[match.end(1) : match.end()]
        at = *match.span(1), "program_id", 2, match.span()
        advice = (
            f"`num_programs{new}` is how many there are; `program_id{new}` says which one is this."
        )
        yield replace(scope.instead("function", *at), advice=advice)


_REDUCED = re.compile(r"\baxis=([01])\)(\[None, :\]|\[:, None\])")
_REDUCED_BY_NAME = re.compile(r"\b(\w+) = tl\.\w+\([^\n]*\baxis=([01])\)[ \t]*$", re.M)
_BESIDE = r"(?<![\w.]){}(\[None, :\]|\[:, None\])"


def _reduced_axes(scope: Scope) -> Iterator[Edit]:
    """All reductions of a block along its other axis, with what puts the results beside it.

    Or one of them, whose result has a name.
    """
    reductions = list[tuple[str, list[tuple[int, int]]]]()
    at_once = [*scope.matches(_REDUCED)]
    if len({match[1] for match in at_once}) == 1:
        places = [place for match in at_once for place in (match.span(1), match.span(2))]
        reductions.append((at_once[0][1], places))
    for match in scope.matches(_REDUCED_BY_NAME):
        uses = scope.matches(_BESIDE.format(match[1]), match.end())
        reductions.append((match[2], [match.span(2), *(use.span(1) for use in uses)]))
    for axis, places in reductions:
        other, beside = ("1", "[:, None]") if axis == "0" else ("0", "[None, :]")
        changes = [Change(*each, other if each[1] - each[0] == 1 else beside) for each in places]
        if len(changes) < 2:
            continue
        what = f"`axis={axis}` stands where `axis={other}` belongs, and `{beside}` behind it"
        along = "columns: a result for each row" if other == "1" else "rows: one for each column"
        yield scope.edit("axis", changes, what, f"Axis {other} goes along the {along}.", 1)


_STRIDE = re.compile(r"\b(\w+)\.stride\((\d)\)")


def _strides(scope: Scope) -> Iterator[Edit]:
    """A size that is passed for a stride, a stride for a size, or another tensor's stride."""
    source = scope.text.source
    launches = scope.launches
    for match in scope.matches(_STRIDE):
        is_passed = any(each.start < match.start() < each.end for each in launches)
        new = f"{match[1]}.shape[{int(match[2]) + 1}]"
        advice = "A stride says how far rows lie apart, which can be more than their length."
        cost = 2 if is_passed else 0  # most strides that are passed are right
        yield replace(scope.instead("stride", *match.span(), new, cost), advice=advice)
    for call in launches:
        callee = scope.callee_of(call)
        passed = [*zip(call.arguments, callee.parameters if callee else (), strict=False)]
        for (low, high), parameter in passed:
            given = source[low:high]
            is_named = "stride" in parameter
            may_be_one = is_named or given.isidentifier()
            if "=" in given or given in scope.function.parameters or not may_be_one:
                continue
            for tensor in scope.function.parameters:
                for axis in range(2):
                    new = f"{tensor}.stride({axis})"
                    if new != given and (".stride" not in given or tensor in given):
                        what = (
                            f"The launch of `{call.name}` passes {scope.quoted(low, high)} for "
                            f"`{parameter}`, where `{new}` belongs"
                        )
                        advice = "Rows can lie further apart than they are long."
                        cost = 0 if is_named and ".stride" not in given else 2
                        yield scope.edit("stride", [Change(low, high, new)], what, advice, cost)
        spans = [
            span
            for span, parameter in passed
            if "=" not in (text := source[slice(*span)]) and "stride" in parameter + text
        ]
        yield from _several_strides(scope, call, spans)


def _several_strides(scope: Scope, call: Call, spans: Sequence[tuple[int, int]]) -> Iterator[Edit]:
    """Strides of one tensor that are passed twice, or sizes that are passed for several strides."""
    texts = [scope.text.source[slice(*span)] for span in spans]
    again = [(low, text) for n, ((low, _), text) in enumerate(zip(spans, texts, strict=True))
             if ".stride(" in text and text in texts[:n]]  # fmt: skip
    twice = {text.partition(".")[0] for _, text in again}
    passed = {text.partition(".")[0] for text in texts}
    for tensor in scope.function.parameters if len(twice) == 1 else ():
        if tensor not in passed:
            [name] = twice
            changes = [Change(low, low + len(name), tensor) for low, _ in again]
            what = f"The launch of `{call.name}` passes strides of `{name}` twice"
            yield scope.edit("stride", changes, what, f"Pass those of `{tensor}` as well.", 0)
    plain = [scope.text.source[slice(*each)] for each in call.arguments]
    tensors = [each for each in plain if each in scope.function.parameters]
    axes, left = divmod(len(spans), max(len(tensors), 1))
    if left or sum(map(str.isidentifier, texts)) < 2:
        return  # a single one is a change of its own
    own = [f"{tensor}.stride({axis})" for tensor in tensors for axis in range(axes)]
    changes = [
        Change(*span, new)
        for span, text, new in zip(spans, texts, own, strict=True)
        if text.isidentifier()
    ]
    what = f"The launch of `{call.name}` passes sizes for strides"
    advice = f"Pass {' and '.join(f'`{each.new}`' for each in changes)}."
    yield scope.edit("stride", changes, what, advice, 0)


_STARRED = re.compile(r"\*(\w+)\.stride\(\)")


def _starred_strides(scope: Scope) -> Iterator[Edit]:
    """All strides of one tensor, `*x.stride()`, that a launch passes for those of others too."""
    source = scope.text.source
    for call in scope.launches:
        passed = [*scope.matches(_STARRED, call.start, call.end)]
        plain = [source[low:high] for low, high in call.arguments]
        tensors = [each for each in plain if each in scope.function.parameters]
        names = [each[1] for each in passed]
        if len({*names}) == len(names) or not {*names} <= {*tensors}:
            continue
        changes = [
            Change(*each.span(1), tensor)
            for each, tensor in zip(passed, tensors, strict=False)
            if each[1] != tensor
        ]
        again = next(each for each in names if names.count(each) > 1)
        what = f"The launch of `{call.name}` passes strides of `{again}` for those of other tensors"
        advice = "Each tensor has strides of its own: pass them in the order of the parameters."
        if changes:
            yield scope.edit("stride", changes, what, advice, 0)


def _other_strides(scope: Scope) -> Iterator[Edit]:
    """Strides of axis 1 that are passed for those of axis 0, or the other way round: one or all."""
    advice = "`x.stride(0)` leads from a row to the next, and is 1 in a turned view, as `x.T`."
    spans = [(each.start, each.end) for each in scope.launches]
    for axis, other in ("01", "10"):
        passed = [
            match
            for match in scope.matches(rf"\b\w+\.stride\(({axis})\)")
            if any(low < match.start() < high for low, high in spans)
        ]
        for match in passed:
            edit = scope.instead("stride", *match.span(1), other, 2, match.span())
            yield replace(edit, advice=advice)
        if len(passed) > 1:
            changes = [Change(*match.span(1), other) for match in passed]
            what = f"`stride({axis})` is passed where `stride({other})` belongs, in each place"
            yield scope.edit("stride", changes, what, advice, 2)


_TURNED = r"(\w+) = \w+(?:\.T|\.mT|\.t\(\)|\.(?:transpose|permute)\([^()\n]*\))[ \t]*$"


def _turned_views(scope: Scope) -> Iterator[Edit]:
    """A transposed view that a kernel reads as if the elements of its rows lay side by side."""
    source = scope.text.source
    views = [match[1] for match in scope.matches(rf"(?m)^[ \t]*{_TURNED}")]
    for view, call in itertools.product(views, scope.launches):
        callee = scope.callee_of(call)
        for (low, high), stride in zip(
            call.arguments, callee.parameters if callee else (), strict=False
        ):
            if callee is None or source[low:high] != f"{view}.stride(0)":
                continue
            index = r"(\w+(?:\[[:, None]+\])?)"
            sums = scope.matches(rf"{index} \* {stride} \+ {index}", callee.body, callee.end)
            changes = [Change(*each.span(), f"{each[1]} + {each[2]} * {stride}") for each in sums]
            if changes:
                what = f"The elements of a row of `{view}`, a view, lie `{view}.stride(1)` apart"
                advice = f"Read `{changes[0].new}` there, and pass that stride."
                changes.append(Change(low, high, f"{view}.stride(1)"))
                yield scope.edit("view", changes, what, advice, 1)


def _one_block(scope: Scope) -> Iterator[Edit]:
    """A block of a fixed size for rows that may be longer."""
    bodies = "\n".join(scope.text.code[each.body : each.end] for each in scope.kernels)
    if re.search(r"\*\s*BLOCK|BLOCK\w*\s*\*|\brange\([^)\n]*BLOCK", bodies):
        return  # several programs, or rounds of a loop, share the row
    shared = {each[2] for each in _PLAIN_SUM.finditer(bodies)}  # see _program_offset
    sizes = [each for each in scope.values if each not in scope.function.parameters]
    pattern = re.compile(r"\b(BLOCK\w*)\s*=\s*(\d+)\b")
    for match in scope.matches(pattern):
        for size in sizes if match[1] not in shared else ():
            if not (size.islower() or len(size) == 1):
                continue
            what = f"`{match[0]}` is all that a program covers: what lies past it is left out"
            advice = "Loop over blocks, or take a block as long as the row, with a mask."
            change = Change(*match.span(2), f"triton.next_power_of_2({size})")
            yield scope.edit("one_block", [change], what, advice, 2)


_PLAIN_SUM = re.compile(r"\b(\w+)\s*\+\s*tl\.arange\(0,\s*(\w+)\)")
_NUMBER = re.compile(r"\b(\w+)\s*=\s*tl\.program_id\([^()\n]*\)(?!.*\*)")


def _program_offset(scope: Scope) -> Iterator[Edit]:
    """A program's number that is added to `tl.arange` without the block's length."""
    numbers = {match[1] for match in scope.matches(_NUMBER)}
    for match in scope.matches(_PLAIN_SUM):
        if match[1] in numbers:
            what = (
                f"{scope.quoted(*match.span(1))} counts programs, and a program has {match[2]} "
                "elements: blocks overlap"
            )
            advice = f"A program's first element is {match[1]} * {match[2]}."
            change = Change(*match.span(1), f"{match[1]} * {match[2]}")
            yield scope.edit("program_offset", [change], what, advice, 0)


@at_each(r"(\w+)\.(?:contiguous|clone|flatten|ravel)\(\)|(\w+)\.reshape\([^()]*\)")
def _copies(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A copy that a launcher makes of a tensor, to which the kernel then writes."""
    tensor = match[1] or match[2]
    what = f"{scope.quoted(*match.span())} may be a copy, and what is written to it is lost"
    advice = f"Pass `{tensor}` itself and its strides: rows can lie further apart than they are."
    yield scope.edit("copy", [Change(*match.span(), tensor)], what, advice, 1)


@at_each(r"(?m)^([ \t]*)(\w+) = ([^\n]+)$")
def _rebound(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """An output that a launcher gives another tensor by its name, instead of writing into it."""
    if match[2] in scope.function.parameters:
        what = f"`{match[2]} = ...` gives the name another tensor; the one passed stays as it is"
        change = Change(match.start(2), match.end(), f"{match[2]}.copy_({match[3]})")
        advice = f"Write into it: {match[2]}.copy_(...), or pass out={match[2]}."
        yield scope.edit("rebound", [change], what, advice, 0)


def _grid_axes(scope: Scope) -> Iterator[Edit]:
    """A grid with more or fewer axes than the kernel takes its ids from."""
    ids = {
        int(match[1])
        for each in scope.kernels
        for match in scope.matches(r"program_id\((?:axis=)?(\d)\)", each.body, each.end)
    }
    pattern = re.compile(
        r"(?<=[\[=:] )?\((\w[^()]*\([^()]*\)|\w+)\s*(,|\*)\s*(\w[^()]*\([^()]*\)|\w+),?\)"
    )
    for match in scope.matches(pattern):
        one, sign, other = match.groups()
        if sign == "," and ids == {0}:
            what = "The grid has two axes, and the kernel takes its id from one: `tl.program_id(0)`"
            advice = "Multiply the two numbers, so that one axis counts all tiles."
            change = Change(*match.span(), f"({one} * {other},)")
            yield scope.edit("grid", [change], what, advice, 0)
        if sign == "*" and 1 in ids:
            what = "`tl.program_id(1)` is always 0: the grid has one axis"
            advice = "Give the grid two axes, in the order of the kernel's ids."
            for first, second in ((one, other), (other, one)):
                change = Change(*match.span(), f"({first}, {second})")
                yield scope.edit("grid", [change], what, advice, 0)


_GRID = re.compile(r"(?: = |\w\[)(\([^\[\]\n]*\bcdiv\([^\[\]\n]*\))(?:[ \t]*$|\]\()", re.M)


def _grids_by_numbers(scope: Scope) -> Iterator[Edit]:
    """A grid that is counted with numbers before a configuration of the kernel is chosen."""
    parameters = [p for each in scope.kernels for p in each.parameters]
    blocks = [each for each in parameters if len(each) > 1 and each.isupper()]
    is_tuned = "autotune" in scope.text.code
    for match in scope.matches(_GRID):
        chosen: dict[str, str] = {}  # by the size that is divided, the block's length

        def taken(quotient: re.Match[str], chosen: dict[str, str] = chosen) -> str:
            axis = axis_of(quotient[1])
            name = next((each for each in blocks if axis and axis_of(each) == axis), "")
            chosen[quotient[1]] = name
            return f'cdiv({quotient[1]}, META["{name}"])'

        made = re.sub(r"\bcdiv\((\w+), \d+\)", taken, scope.text.source[slice(*match.span(1))])
        if is_tuned and chosen and all(chosen.values()):
            names = " and ".join(f"`{each}`" for each in chosen.values())
            what = f"The grid is counted with numbers, whatever {names} the kernel gets"
            advice = f"Take them from the configuration: lambda META: {made}."
            change = Change(*match.span(1), f"lambda META: {made}")
            yield scope.edit("grid", [change], what, advice, 1)


# A function of a configuration's constants, which counts with them.
_OF_META = re.compile(r"lambda (\w+):(?=[^\n]*\bcdiv|\s*\(\s*\n[^\n]*\bcdiv)|def \w+\((\w+)\):")
_OF_AXIS = re.compile(r"""cdiv\((\w+), \w+\[["'](\w+)["']\]\)""")


def _grids(scope: Scope) -> Iterator[Edit]:
    """A grid that is counted with numbers, where configurations choose the blocks' sizes."""
    given = next(scope.matches(_OF_META), None)
    if given is None:
        yield from _grids_by_numbers(scope)
        return
    matches = [*scope.matches(r"triton\.cdiv\([^,()]+,\s*([\w.]+)\)", given.end())][:2]
    parameters = dict.fromkeys(p for each in scope.kernels for p in each.parameters)
    names = [each for each in parameters if re.search("BLOCK|TILE", each)]
    for match in _OF_AXIS.finditer(scope.text.source, given.end(), scope.function.end):
        other = match[2][:-1] + match[1][-1].upper()
        if "" != axis_of(match[1]) != axis_of(match[2]) != "" and other in parameters:
            yield scope.instead("axis_of", *match.span(2), other, 0, match.span())
    for chosen in itertools.islice(itertools.permutations(names, len(matches)), 12):
        new = [f'{given[1] or given[2]}["{name}"]' for name in chosen]
        changes = [Change(*each.span(1), text) for each, text in zip(matches, new, strict=True)]
        counted = " and ".join(dict.fromkeys(f"`{each[1]}`" for each in matches))
        what = f"The grid is counted with {counted}, whatever {', '.join(chosen)} the kernel gets"
        if changes:
            advice = f"Take them from the configuration: {new[0]}."
            yield scope.edit("grid", changes, what, advice, 1)


_STRIDES = re.compile(r"\b(\w+)\.stride\((\d)\),\s*\1\.stride\((\d)\)")
_COUNTED_TILES = re.compile(r"\bcdiv\((\w+), (\w+)\)")


def _odd_strides(scope: Scope) -> Iterator[Edit]:
    """Two strides of a tensor in the other order than those of the call's other tensors."""
    pairs = [*scope.matches(_STRIDES)]
    for match in pairs:
        others = {each.group(2, 3) for each in pairs if each[1] != match[1]}
        if match[2] != match[3] and others == {(match[3], match[2])}:
            changes = [Change(*match.span(2), match[3]), Change(*match.span(3), match[2])]
            what = f"The strides of `{match[1]}` are passed in the other order than those beside"
            yield scope.edit("odd_strides", changes, what, "", 0)


def _other_axis(scope: Scope) -> Iterator[Edit]:
    """A number of tiles along the other axis than the one that tiles are counted by."""
    sizes = sorted(scope.function.integers)
    given = (n for n in scope.function.parameters if n.isupper() and n not in sizes)
    blocks = [each for each in given if scope.kinds[each] == "int"]
    for match in scope.matches(_COUNTED_TILES):
        for size, block in itertools.product(sizes, blocks):
            if size != match[1] and block != match[2] and {match[1]} <= {*sizes}:
                new = f"cdiv({size}, {block})"
                yield scope.instead("other_axis", *match.span(), new, 1)


@at_each(r"(?m)^[ \t]*(\w+) \+= (\w+)(?: \* (\w+))?[ \t]*$")
def _advance(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A pointer that a loop moves on by another stride than that of the axis it goes along."""
    start = rf"(?m)^[ \t]*{match[1]} = ([^\n]+)$"
    made = next(scope.matches(start, end=match.start()), None)
    if made is None or scope.kinds.get(match[1]) != "pointer":
        return
    factors = {*re.findall(r"\* (\w+)", made[1])} & {*scope.function.parameters}
    along = axis_of(match[2])
    for stride in sorted(factors - {match[3] or ""}):
        if along == stride[-1] or not match[3] or not along:
            line = match.start(1), match.end()
            new = f"{match[2]} * {stride}"
            yield scope.instead("advance", match.start(2), match.end(), new, 1, line)


@at_each(r"(?m)^[ \t]*\w+ = ((\w)\w*_ptr \+ [^\n]+)$")
def _odd_tensor(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """An address of one tensor with several strides of another one: a line that was copied."""
    known = {*scope.function.parameters}

    def own(stride: re.Match[str]) -> str:
        name = f"stride_{match[2]}{stride[1]}"
        return name if name in known else stride[0]

    new = re.sub(r"\bstride_\w(\w)\b", own, match[1])
    if new != match[1]:
        yield scope.instead("odd_tensor", *match.span(1), new, 1)


def _launch_numbers(scope: Scope) -> Iterator[Edit]:
    """A number that a launch passes for a block whose length the grid has by a name."""
    code = scope.text.code
    counted = re.findall(r"\bcdiv\([^,()]+, (\w+)\)", scope.code)
    names = [each for each in dict.fromkeys(counted) if not each.isdigit()]
    for call in scope.launches:
        for low, high in call.arguments:
            given = re.match(r"\w*(?:BLOCK|TILE)\w*=\d+$", code[low:high])
            for name in names if given else ():
                start = code.index("=", low) + 1
                yield scope.instead("launch_number", start, high, name, 1, (low, high))


OF_KERNELS: Sequence[Rule] = (
    _program_offset,
    _odd_tensor,
    _advance,
    _other_axis,
    _axes,
    _reduced_axes,
    _offsets,
    _one_for_all,
    _last_group,
    _last_of_named_groups,
    _casts,
)
OF_LAUNCHERS: Sequence[Rule] = (
    _launch_numbers,
    _odd_strides,
    _other_axis,
    _one_block,
    _copies,
    _rebound,
    _strides,
    _starred_strides,
    _other_strides,
    _turned_views,
    _grids,
    _grid_axes,
    _casts,
)
