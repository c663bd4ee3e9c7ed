"""Changes of masks in Triton's kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from grader.executors.source_text import Change
from grader.grading.edits.edit_scope import MASK, Call, Edit, Rule, Scope, at_each, axis_of

_OWN_BOUND = "Each index of the pointers needs a bound of its own."


def _masks(scope: Scope) -> Iterator[Edit]:
    """A load or store in Triton without a mask, or with one that lacks a condition."""
    source = scope.text.source
    fill = {"tl.load": ", other=0.0", "tl.store": ""}
    for call in scope.calls:
        if call.name not in fill:
            continue
        arguments = [source[low:high] for low, high in call.arguments]
        keywords = {each.split("=")[0].strip() for each in arguments if re.match(r"\w+\s*=", each)}
        positional = len(arguments) - len(keywords)
        has_mask = "mask" in keywords or positional > (1 if call.name == "tl.load" else 2)
        if not has_mask:
            tried = [*scope.conditions, *_both(scope.conditions), *_synthetic(scope)]
            for place, condition in enumerate(tried):
                added = f", mask={condition}{'' if 'other' in keywords else fill[call.name]}"
                yield scope.edit(
                    "without_mask",
                    [Change(call.end - 1, call.end - 1, added)],
                    f"This `{call.name}` has no mask, and the last block goes past the end",
                    "Pass mask=, which is true only for what is inside, in each dimension.",
                    1 + place // 6,
                )
        elif call.name == "tl.load" and "other" not in keywords:
            for value in ("0.0", 'float("-inf")'):
                what = "This `tl.load` has no `other=`: what is masked can be anything"
                change = Change(call.end - 1, call.end - 1, f", other={value}")
                advice = f"Masked elements have to be {value} here, so that they add nothing."
                yield scope.edit("without_other", [change], what, advice, 2)
    for match in MASK.finditer(source, scope.function.body, scope.function.end):
        for condition in scope.conditions:
            index = re.match(r"\w+", condition)
            if "mask" in condition or (index and re.search(rf"\b{index[0]}\b", match[0])):
                continue
            change = Change(match.start(), match.end(), f"{match[0]}) & ({condition}")
            if source[match.start() - 1] != "(" or source[match.end() : match.end() + 1] != ")":
                change = replace(change, new=f"({match[0]}) & ({condition})")
            what = f"The mask lacks a condition: {scope.quoted(0, 0, condition)}"
            yield scope.edit("mask_lacks", [change], what, _OWN_BOUND, 2)
        whole = re.compile(rf"\(?{re.escape(match[0])}\)?\s*&\s*").match(
            source, max(match.start() - 1, 0)
        )
        if whole:
            what = f"The condition {scope.quoted(0, 0, match[0])} doesn't belong in the mask"
            yield scope.edit(
                "mask_too_strict", [Change(whole.start(), whole.end(), "")], what, "", 5
            )


def _both(conditions: Sequence[str]) -> list[str]:
    plain = [each for each in conditions if "[" in each]
    return [f"({a}) & ({b})" for i, a in enumerate(plain) for b in plain[i + 1 :]][:12]


def _synthetic(scope: Scope) -> list[str]:
    """`offs < n` of every index and size."""
    indices = [each for each in scope.values if re.match(r"offs|cols?$|rows?$|idx|i$", each)]
    return [f"{i} < {n}" for i in indices for n in sorted(scope.function.integers)][:12]


def _mask_of(scope: Scope, call: Call) -> tuple[int, int] | None:
    """Where the expression of an access's mask stands: in the call, or where its name is given."""
    source = scope.text.source
    place = 1 if call.name == "tl.load" else 2
    span = None
    for at, (low, high) in enumerate(call.arguments):
        keyword = re.match(r"mask\s*=\s*", source[low:high])
        if keyword:
            span = low + keyword.end(), high
        elif at == place and not re.match(r"\w+\s*=(?!=)", source[low:high]):
            span = low, high
    if span is None or not source[slice(*span)].isidentifier():
        return span
    given = _definition(scope, source[slice(*span)], call.start)
    return given.span(1) if given else None


def _definition(scope: Scope, name: str, before: int) -> re.Match[str] | None:
    """The last statement before a place that gives a name its value, as a match with the value."""
    matches = [*scope.matches(rf"(?m)^[ \t]*{name}\s*=\s*([^\n#]+?)[ \t]*$", end=before)]
    return matches[-1] if matches else None


def _turned(scope: Scope) -> Iterator[Edit]:
    """A turned tile that is stored with the mask of the tile before it was turned."""
    source = scope.text.source
    masks = {
        source[slice(*mask)]
        for call in scope.calls
        if call.name == "tl.load" and (mask := _mask_of(scope, call)) is not None
    }
    for call in scope.calls:
        mask = _mask_of(scope, call) if call.name == "tl.store" else None
        turns = "tl.trans(" in source[call.start : call.end]
        if mask is not None and turns and source[slice(*mask)] in masks:
            new = f"tl.trans({source[slice(*mask)]})"
            yield scope.instead("transposed", *mask, new, 2)


@at_each(r"tl\.(?:reshape|view)\((\w+), [(\[]\w+, \w+[)\]]\)")
def _reshaped(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A block that gets another shape, where its rows and columns are to be exchanged."""
    edit = scope.instead("view", *match.span(), f"tl.trans({match[1]})", 1)
    advice = "Another shape keeps the elements in their order: `tl.trans` turns the block."
    yield replace(edit, advice=advice)


_ALONG = (
    r"(?m)^([ \t]*)for (\w+) in range\((?:0, )?"
    r"(?:(?P<n>\w+), (?P<step>\w+)|(?:tl|triton)\.cdiv\((?P<m>\w+), (?P<block>\w+)\))\)"
)


@at_each(_ALONG)
def _unmasked_along(scope: Scope, loop: re.Match[str]) -> Iterator[Edit]:
    """Loads of a loop whose masks all lack the bound of the index that the loop moves along."""
    code = scope.text.code
    size, step = loop["n"] or loop["m"], loop["step"] or loop["block"]
    done = loop[2] if loop["n"] else f"{loop[2]} \\* {step}"
    start = rf"\b(\w+) = \(?{done} \+ tl\.arange"
    made = next(scope.matches(start, loop.end()), None)
    if made is None:  # the pointers are moved on, and the index isn't
        start = rf"\b(\w+) = tl\.arange\(0, {step}\)"
        made = next(scope.matches(start, end=loop.start()), None)
        size = f"{size} - {loop[2]}{'' if loop['n'] else f' * {step}'}"
    changes = []
    for call in scope.calls if made else ():
        mask = _mask_of(scope, call) if call.name == "tl.load" else None
        if mask is None or call.start < loop.end() or not call.arguments:
            continue
        low, high = call.arguments[0]
        pointers = _definition(scope, code[low:high], call.start) if mask else None
        text = pointers[1] if pointers else code[low:high]
        index = re.search(rf"\b{made[1]}(?:\[[:, None]+\])?", text) if made else None
        if index and made and not re.search(rf"\b{made[1]}\b", code[slice(*mask)]):
            bound = f"({code[slice(*mask)]}) & ({index[0]} < {size})"
            changes.append(Change(*mask, bound))
    if len(changes) > 1 and made:
        what = f"The masks of this loop's loads lack a condition: `{made[1]} < {size}`"
        advice = f"The last block along {loop['n'] or loop['m']} reaches past the end."
        yield scope.edit("mask_lacks", changes, what, advice, 0)


_BLOCK_INDEX = re.compile(r"\b(\w+)\[(?::, None|None, :)\]")


def _without_bounds(scope: Scope) -> Iterator[Edit]:
    """An access of a tile without a mask, where bounds of its indices stand elsewhere."""
    code = scope.text.code
    for call in scope.calls:
        if call.name not in ("tl.load", "tl.store") or "mask" in code[call.start : call.end]:
            continue
        low, high = call.arguments[0]
        pointers = _definition(scope, code[low:high], call.start)
        bounds = []
        for index in _BLOCK_INDEX.finditer(pointers[1] if pointers else code[low:high]):
            known = rf"\b{index[1]}(?:\[[:, None]+\])? < (\w+)\b"
            there = sorted(scope.matches(known), key=lambda each: abs(each.start() - call.start))
            bounds += [f"({index[0]} < {bound[1]})" for bound in there[:1]]
        mask = " & ".join(dict.fromkeys(bounds))
        if mask:
            filled = ", other=0.0" if call.name == "tl.load" else ""
            change = Change(call.end - 1, call.end - 1, f", mask={mask}{filled}")
            what = f"This `{call.name}` lacks `mask={mask}`"
            yield scope.edit("without_mask", [change], what, _OWN_BOUND, 1)


def _index_unmasked(scope: Scope) -> Iterator[Edit]:
    """An access whose mask has no bound for one of the indices that its address is made of."""
    code = scope.text.code
    for call in scope.calls:
        mask = _mask_of(scope, call) if call.name in ("tl.load", "tl.store") else None
        if mask is None:
            continue
        low, high = call.arguments[0]
        pointers = _definition(scope, code[low:high], call.start)
        for index in _BLOCK_INDEX.finditer(pointers[1] if pointers else code[low:high]):
            if re.search(rf"\b{index[1]}\b", code[slice(*mask)]):
                continue
            known = rf"\b{index[1]}(?:\[[:, None]+\])?((?: \+ [\w *]+)? < \w+(?: - \w[\w *]*)?)"
            for bound in dict.fromkeys(re.findall(known, scope.code)):
                lacks = f"{index[0]}{bound}"
                what = f"The mask lacks a condition: {scope.quoted(0, 0, lacks)}"
                change = Change(*mask, f"({code[slice(*mask)]}) & ({lacks})")
                yield scope.edit("mask_lacks", [change], what, _OWN_BOUND, 0)


@at_each(_ALONG)
def _same_each_round(scope: Scope, loop: re.Match[str]) -> Iterator[Edit]:
    """Masks of pointers that a loop moves on, which compare with all of a size in each round."""
    code = scope.text.code
    end, _ = scope.end_of(loop)
    size = loop["n"] or loop["m"]
    done = loop[2] if loop["n"] else f"{loop[2]} * {loop['block']}"
    bound = rf"\b(\w+)(?:\[[:, None]+\])? < ({size})\b(?! -)"
    matches = [
        match
        for match in scope.matches(bound, loop.end(), end)
        if scope.first_use.get(match[1], end) < loop.start()
    ]
    if matches and re.search(r"\+=", code[loop.end() : end]):
        index = matches[0][1]
        what = f"`{index} < {size}` is the same in each round, though fewer and fewer are left"
        changes = [Change(*match.span(2), f"{size} - {done}") for match in matches]
        advice = f"Compare with what is left: `{index} < {size} - {done}`."
        yield scope.edit("same_each_round", changes, what, advice, 0)


@at_each(r"(\w+)\[:, None\] < (\w+)\)? & \(?(\w+)\[None, :\] < (\w+)\b")
def _crossed(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A mask of two directions whose bounds are exchanged: each is the other index's elsewhere."""
    one, other = match.group(2, 4)

    def is_bound(index: str, size: str) -> bool:
        again = re.search(rf"\b{index}(?:\[[:, None]+\])? < {size}\b", scope.code)
        return bool(again) or axis_of(index) == axis_of(size) != ""

    if one != other and is_bound(match[1], other) and is_bound(match[3], one):
        changes = [Change(*match.span(2), other), Change(*match.span(4), one)]
        what = f"`{one}` and `{other}` are exchanged in this mask"
        yield scope.edit("crossed", changes, what, "Each index has its own bound.", 0)


_DIRECTION = re.compile(r"\b(\w+)\[(:, None|None, :)\]")


def _turned_indices(scope: Scope) -> Iterator[Edit]:
    """An access whose two indices go along each other's axis of the block."""
    code = scope.text.code
    for call in scope.calls:
        if call.name not in ("tl.load", "tl.store") or not call.arguments:
            continue
        low, high = call.arguments[0]
        is_named = code[low:high].isidentifier()
        pointers = _definition(scope, code[low:high], call.start) if is_named else None
        address = pointers.span(1) if pointers else (low, high)
        mask = _mask_of(scope, call)
        for spans in ([address], [address, mask]) if mask else ([address],):
            matches = [each for span in spans for each in scope.matches(_DIRECTION, *span)]
            names = [f"`{each[1]}`" for each in scope.matches(_DIRECTION, *address)]
            if len({each[2] for each in matches}) < 2 or len(names) != 2:
                continue
            what = f"{names[0]} and {names[1]} go along each other's axis here"
            advice = "`[:, None]` counts down the rows of a block, `[None, :]` across its columns."
            changes = [
                Change(*each.span(2), "None, :" if each[2] == ":, None" else ":, None")
                for each in matches
            ]
            yield scope.edit("subscripts", changes, what, advice, 2)


@at_each(r"(?m)^[ \t]*(\w+) = [^\n]{0,80}?\w - \w[^\n]{0,80}?\btl\.arange\(")
def _below_zero(scope: Scope, made: re.Match[str]) -> Iterator[Edit]:
    """Offsets that may begin below 0, in masks that bound them above alone."""
    bound = rf"\b{made[1]}(?:\[[:, None]+\])? <=? \w+\b"
    matches = [*scope.matches(bound, made.end())]
    first = f"{made[1]} >= 0"
    if matches and f"{made[1]} >=" not in scope.code:
        changes = [
            Change(*each.span(), f"({each[0]}) & ({each[0].partition(' <')[0]} >= 0)")
            for each in matches
        ]
        advice = f"An offset below 0 isn't counted from the end: leave it out by `{first}`."
        what = f"`{made[1]}` begins below 0 where its block is longer than what is left"
        yield scope.edit("mask_lacks", changes, what, advice, 0)


_WIDENED = re.compile(r"\.to\(tl\.float32\)")


def _filled_before_cast(scope: Scope) -> Iterator[Edit]:
    """A load that fills in a number which may be beyond its dtype, and is converted after that."""
    code = scope.text.code
    for call in scope.calls:
        mask = _mask_of(scope, call) if call.name == "tl.load" else None
        cast = _WIDENED.match(code, call.end)
        arguments = [code[low:high] for low, high in call.arguments]
        others = [each.partition("=")[2].strip() for each in arguments if each.startswith("other")]
        if mask is None or cast is None or not others or re.fullmatch(r"0(\.0?)?", others[0]):
            continue
        first = call.start - len("tl.")  # a call begins at its last name
        changes = [
            Change(first, first, f"tl.where({code[slice(*mask)]}, "),
            Change(cast.end(), cast.end(), f", {others[0]})"),
        ]
        what = (
            f"`other={others[0]}` is rounded to the dtype of what is loaded: float16 ends at 65504"
        )
        advice = "Fill it in behind the conversion, with tl.where."
        yield scope.edit("filled_before_cast", changes, what, advice, 1)


RULES: Sequence[Rule] = (
    _masks,
    _unmasked_along,
    _index_unmasked,
    _without_bounds,
    _same_each_round,
    _crossed,
    _turned_indices,
    _below_zero,
    _filled_before_cast,
    _turned,
    _reshaped,
)
