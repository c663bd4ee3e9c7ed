"""The site's pages as HTML: MkDocs with its theme Material, in a process and a folder of its own.

Nothing on a page is loaded from elsewhere, so a site works from disk and without a network: fonts
are the system's, and the search index is a script. The same pages give the same bytes, with the
same versions of MkDocs and Material (constraints.txt).
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from grader.mistakes import Mistake
from grader.spec import Exercise

ASSETS = Path(__file__).resolve().parent / "assets"
HANDOUT = "handout.md"
SECONDS = 300
# A map of the site wants its address, and the page for missing ones links from a server's root. The
# rest are stemmers of other languages.
_LEFT_OUT = ("sitemap.xml", "404.html", "assets/javascripts/lunr/")
_TOGGLES = (
    ("(prefers-color-scheme)", None, "brightness-auto", "Switch to light mode"),
    ("(prefers-color-scheme: light)", "default", "brightness-7", "Switch to dark mode"),
    ("(prefers-color-scheme: dark)", "slate", "brightness-4", "Switch to the system's mode"),
)


def build(
    files: Mapping[str, bytes],
    exercises: Mapping[str, Exercise],
    title: str = "",
    due: str = "",
) -> dict[str, bytes]:
    """The site of a release's `files`: of its handout, and the pages and drawings of docs/.

    `title` and `due` are the course's. Raises SiteError where Material isn't installed, and where
    MkDocs finds a mistake, such as a link that leads nowhere.
    """
    if importlib.util.find_spec("material") is None:
        install = f"{sys.executable} -m pip install --constraint constraints.txt '.[site]'"
        raise SiteError(f"The site needs mkdocs-material. To install: {install} (`make site` does)")
    made = pages(files[HANDOUT].decode(), exercises, due)
    with tempfile.TemporaryDirectory() as folder:
        _lay_out(Path(folder), made, files)
        settings = _settings(made, title)
        (Path(folder) / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        _run(Path(folder))
        built = Path(folder) / "site"
        paths = sorted(path for path in built.rglob("*") if path.is_file())
        names = {path.relative_to(built).as_posix(): path for path in paths}
        return {
            name: path.read_bytes()
            for name, path in names.items()
            if not name.startswith(_LEFT_OUT) and path.suffix != ".map"
        }


def _lay_out(folder: Path, made: Sequence[Page], files: Mapping[str, bytes]) -> None:
    """Write what MkDocs reads: the pages, those of docs/, drawings, notebooks, and our assets."""
    source = {page.file: page.text.encode() for page in made}
    source |= {n: data for n, data in files.items() if n.startswith("docs/")}
    source |= {n: data for n, data in files.items() if n.endswith((".svg", ".png", ".ipynb"))}
    source |= {f"assets/{path.name}": path.read_bytes() for path in ASSETS.iterdir()}
    for name, data in source.items():
        path = folder / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _settings(made: Sequence[Page], title: str) -> dict[str, object]:
    """MkDocs's configuration."""
    toggles = [
        {"media": media, "toggle": {"icon": f"material/{icon}", "name": name}}
        | ({"scheme": scheme, "primary": "teal", "accent": "teal"} if scheme else {})
        for media, scheme, icon, name in _TOGGLES
    ]
    parts: dict[str, list[dict[str, str]]] = {}
    for page in made[1:]:
        parts.setdefault(page.part or "Lessons", []).append({page.title: page.file})
    return {
        "site_name": title or made[0].title.partition(":")[0],
        "docs_dir": "pages",
        "site_dir": "site",
        "nav": [{"Overview": FIRST}, *({part: each} for part, each in parts.items())],
        "theme": {
            "name": "material",
            "font": False,
            "palette": toggles,
            "icon": {"logo": "material/chip"},
            "features": [
                *("navigation.sections", "navigation.top", "navigation.footer", "toc.follow"),
                *("content.code.copy", "search.highlight", "search.suggest"),
            ],
        },
        "plugins": ["search", "offline"],
        "extra": {"polyfills": ["assets/iframe-worker.js"], "generator": False},
        "extra_css": ["assets/site.css"],
        "markdown_extensions": [
            *("admonition", "attr_list", "md_in_html", "tables", "pymdownx.superfences"),
            {"pymdownx.highlight": {"pygments_lang_class": True}},  # for assets/site.css
            {"toc": {"permalink": True}},
        ],
        "validation": {"nav": {"omitted_files": "ignore"}, "links": {"anchors": "warn"}},
    }


def _run(folder: Path) -> None:
    """Let MkDocs build the folder's pages; its warnings are mistakes."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800", "PYTHONHASHSEED": "0"}
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    if ran.returncode:
        raise SiteError(f"MkDocs can't build the site:\n{(ran.stdout + ran.stderr).strip()}")


# --- the handout, cut into pages ------------------------------------------------------------------

# The handout cut into pages of Markdown: the text before the first `## `, and one a section.
#
# A comment before a section begins a part of the navigation, which ends where the next one begins:
#
#     <!-- part: Lessons -->
#
# Links to a section (`#gemm`) become links to its page. An exercise's page begins with its points.

FIRST = "index.md"
_HEADING = re.compile(r"(#+) +(.*?) *$")
_COMMENT = re.compile(r"<!--\s*(?:part: (?P<part>.*?)|.*?)\s*-->")
_ANCHOR = re.compile(r"(?<=\]\()#([\w-]+)(?=\))")
_OUTPUT = re.compile(r"```(\w+) (?:output|shown)$")


class SiteError(Mistake, RuntimeError):
    """No site can be made of a handout, or here: the message says why."""


@dataclass(frozen=True)
class Page:
    """One page: its file, its heading, the part of the navigation it belongs to, and its text."""

    file: str
    title: str
    part: str
    text: str = ""


def pages(handout: str, exercises: Mapping[str, Exercise], due: str = "") -> list[Page]:
    """The handout's pages in its order, those of exercises in the order of `exercises`.

    `due` is the due date as text. Raises SiteError for a link to a heading that isn't there, and
    for two sections of one name.
    """
    cut = list(_cut(handout))
    places = {anchor(each.title): each.file for each in cut}
    if twice := [each.title for each in cut if [p.file for p in cut].count(each.file) > 1]:
        raise SiteError(f"handout.md: expected one heading '## {twice[0]}', got {len(twice)}")
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
            raise SiteError(f"handout.md: expected a heading for the link #{match[1]}, found none")
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
