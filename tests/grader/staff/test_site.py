"""The course site: the handout cut into pages, and what MkDocs makes of them."""

from __future__ import annotations

import importlib.util
import posixpath
import re

import pytest

from grader.mistakes import Mistake
from grader.spec import load_all
from grader.staff import release
from grader.staff.site.build import build
from grader.staff.site.pages import pages
from tests.support.small_exercise import ROOT

EXERCISES = load_all()
SMALL = """# Kernels: the assignment

Read [the lesson](#a-lesson-cuda), then do [silu](#silu) as [Traps](#traps) say.

<!-- part: Lessons -->

## A lesson: CUDA

```text output
## no heading, and [no link](#silu)
```

### Traps

<!-- a comment -->
[here](#traps)

<!-- part: Exercises -->

## silu

Task.

## gelu
"""


def test_each_section_is_a_page_in_its_part():
    made = pages(SMALL, EXERCISES)
    assert [(each.file, each.title, each.part) for each in made] == [
        ("index.md", "Kernels: the assignment", ""),
        ("a-lesson-cuda.md", "A lesson: CUDA", "Lessons"),
        ("gelu.md", "gelu", "Exercises"),  # by the order of the exercises
        ("silu.md", "silu", "Exercises"),
    ]


def test_links_lead_to_pages_and_code_stays_as_it_is():
    first, lesson, *_ = pages(SMALL, EXERCISES)
    assert "[the lesson](a-lesson-cuda.md), then do [silu](silu.md)" in first.text
    assert "[Traps](a-lesson-cuda.md#traps)" in first.text
    assert lesson.text.splitlines()[0] == "# A lesson: CUDA"
    assert "\n## Traps\n" in lesson.text
    assert '```text title="output"\n## no heading, and [no link](#silu)\n' in lesson.text
    assert "comment" not in lesson.text


def test_an_exercises_page_begins_with_its_points_and_the_due_date():
    first, _, gelu, silu = pages(SMALL, EXERCISES, "2026-12-01 23:59 +01:00")
    timed = sum(each.points.get("performance", 0) for each in EXERCISES["silu"].variants.values())
    points = f"{EXERCISES['silu'].max_points:g} points · {timed:g} of them for speed, on a GPU"
    points += f" · a bonus of {EXERCISES['silu'].predictions.points:g}"
    assert f"{points} · due 2026-12-01 23:59 +01:00</p>" in silu.text
    assert "0 points · due" in gelu.text
    assert "Due 2026-12-01 23:59 +01:00</p>" in first.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# A\n\n[gone](#nowhere)\n", "expected a heading for the link #nowhere, found none"),
        ("# A\n\n## B\n\n## B\n", "expected one heading '## B', got 2"),
    ],
)
def test_a_handout_that_makes_no_site_is_told_why(text, message):
    with pytest.raises(Mistake, match=re.escape(message)):
        pages(text, EXERCISES)


@pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="needs mkdocs-material: make site"
)
def test_the_site_is_whole_loads_nothing_from_elsewhere_and_is_the_same_each_time():
    files = release.make(ROOT, EXERCISES).files
    site = build(files, EXERCISES, due="2026-12-01 23:59 +01:00")
    assert {f"{name}.html" for name in ("index", *EXERCISES)} <= set(site)
    html = {name: data.decode() for name, data in site.items() if name.endswith(".html")}
    loaded = r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"?([^\" >]+)"
    for name, text in html.items():
        for link in re.findall(loaded, text):
            assert not re.match(r"(\w+:)?//", link), f"{name} loads {link}"
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
            assert not link.endswith((".css", ".js", ".svg", ".png")) or target in site, link
    assert b"@import" not in site["assets/site.css"]
    assert 'class="language-text highlight"' in html["what-a-gpu-is.html"]  # which site.css names
    assert b"coalesced" in site["search/search_index.js"]
    assert build(files, EXERCISES, due="2026-12-01 23:59 +01:00") == site
