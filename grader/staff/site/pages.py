"""The handout cut into pages of Markdown: the text before the first `## `, and one a section.

A comment before a section begins a part of the navigation, which ends where the next one begins:

    <!-- part: Lessons -->

Links to a section (`#gemm`) become links to its page. An exercise's page begins with its points.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from grader.mistakes import Mistake
from grader.spec import Exercise

FIRST = "index.md"
_HEADING = re.compile(r"(#+) +(.*?) *$")
_COMMENT = re.compile(r"<!--\s*(?:part: (?P<part>.*?)|.*?)\s*-->")
_ANCHOR = re.compile(r"(?<=\]\()#([\w-]+)(?=\))")
_OUTPUT = re.compile(r"```(\w+) (?:output|shown)$")


@dataclass(frozen=True)
class Page:
    """One page: its file, its heading, the part of the navigation it belongs to, and its text."""

    file: str
    title: str
    part: str
    text: str = ""


def pages(handout: str, exercises: Mapping[str, Exercise], due: str = "") -> list[Page]:
    """The handout's pages in its order, those of exercises in the order of `exercises`.

    `due` is the due date as text. Raises Mistake for a link to a heading that isn't there, and
    for two sections of one name.
    """
    cut = list(_cut(handout))
    places = {anchor(each.title): each.file for each in cut}
    if twice := [each.title for each in cut if [p.file for p in cut].count(each.file) > 1]:
        raise Mistake(f"handout.md: expected one heading '## {twice[0]}', got {len(twice)}")
    for page in cut:
        for title in _headings(page.text):
            places.setdefault(anchor(title), f"{page.file}#{anchor(title)}")
    order = {f"{name}.md": number for number, name in enumerate(exercises)}
    ranks = iter(sorted(order[each.file] for each in cut if each.file in order))
    by_rank = {order[each.file]: each for each in cut if each.file in order}
    ordered = [by_rank[next(ranks)] if each.file in order else each for each in cut]
    return [replace(each, text=_finished(each, places, exercises, due)) for each in ordered]


def anchor(heading: str) -> str:
    """A heading's anchor, as GitHub makes it: lower case, no punctuation, hyphens for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _cut(handout: str) -> Iterator[Page]:
    """The pages with their text as the handout has it, without comments."""
    page, part = Page(FIRST, "", ""), ""
    lines: list[str] = []
    for line, fenced in _lines(handout):
        match = None if fenced else _HEADING.match(line)
        comment = None if fenced else _COMMENT.fullmatch(line.strip())
        if comment:
            part = comment["part"] or part
        elif match and match[1] == "##":
            yield replace(page, text="\n".join(lines))
            page, lines = Page(f"{anchor(match[2])}.md", match[2], part), [line]
        else:
            if match and not page.title:
                page = replace(page, title=match[2])
            lines.append(line)
    yield replace(page, text="\n".join(lines))


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a block of code."""
    fenced = False
    for line in text.splitlines():
        fence = line.startswith("```")
        yield line, fenced or fence
        fenced ^= fence


def _headings(text: str) -> Iterator[str]:
    for line, fenced in _lines(text):
        if not fenced and (match := _HEADING.match(line)):
            yield match[2]


def _finished(
    page: Page, places: Mapping[str, str], exercises: Mapping[str, Exercise], due: str
) -> str:
    """A page's text with headings from level 1 on, links to pages, and what the course adds."""

    def link(match: re.Match[str]) -> str:
        if match[1] not in places:
            raise Mistake(f"handout.md: expected a heading for the link #{match[1]}, found none")
        return places[match[1]]

    made = []
    for line, fenced in _lines(page.text):
        if fenced:
            made.append(_OUTPUT.sub(r'```\1 title="output"', line))
            continue
        if page.file != FIRST and line.startswith("##"):
            line = line[1:]
        made.append(_ANCHOR.sub(link, line))
        if line.startswith("# ") and (facts := _facts(page, exercises, due)):
            made += ["", f'<p class="facts">{facts}</p>']
    # Without headings of its own a page needs no column for them.
    front = [] if len([*_headings(page.text)]) > 1 else ["---", "hide: [toc]", "---", ""]
    return "\n".join([*front, *made]).strip() + "\n"


def _facts(page: Page, exercises: Mapping[str, Exercise], due: str) -> str:
    """The points of an exercise and the due date, on the first page and on those of exercises."""
    exercise = exercises.get(page.title)
    if exercise is None:
        return f"Due {due}" if due and page.file == FIRST else ""
    facts = [f"{exercise.max_points:g} point{'' if exercise.max_points == 1 else 's'}"]
    timed = sum(each.points.get("performance", 0) for each in exercise.variants.values())
    if timed:
        facts.append(f"{timed:g} of them for speed, on a GPU")
    if exercise.max_bonus:
        facts.append(f"a bonus of {exercise.max_bonus:g}")
    return " · ".join([*facts, *([f"due {due}"] if due else [])])
