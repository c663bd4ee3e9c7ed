"""The site's pages as HTML: MkDocs with its theme Material, in a process and a folder of its own.

Nothing on a page is loaded from elsewhere, so a site works from disk and without a network: fonts
are the system's, and the search index is a script. The same pages give the same bytes, with the
same versions of MkDocs and Material (constraints.txt).
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from grader.mistakes import Mistake
from grader.spec import Exercise
from grader.staff.site.pages import FIRST, Page, pages

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
    files: Mapping[str, bytes], exercises: Mapping[str, Exercise], title: str = "", due: str = ""
) -> dict[str, bytes]:
    """The site of a release's `files`: of its handout, and the pages and drawings of docs/.

    `title` and `due` are the course's. Raises Mistake where Material isn't installed, and where
    MkDocs finds a mistake, such as a link that leads nowhere.
    """
    if importlib.util.find_spec("material") is None:
        install = f"{sys.executable} -m pip install --constraint constraints.txt '.[site]'"
        raise Mistake(f"The site needs mkdocs-material. To install: {install} (`make site` does)")
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
        raise Mistake(f"MkDocs can't build the site:\n{(ran.stdout + ran.stderr).strip()}")
