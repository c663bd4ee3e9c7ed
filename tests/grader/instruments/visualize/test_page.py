"""The page in a browser: a lecturer clicks through transpose's V1 to V4."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from grader.executors.cuda.joining import Joined
from grader.instruments.visualize import page
from grader.instruments.visualize.tracing import NothingToDraw, Run
from tests.support.browser import chromium


@pytest.fixture(scope="module")
def tab(rungs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page of V1 to V4; what it reports as an error, or asks of the network, fails the test."""
    path = tmp_path_factory.mktemp("visualize") / "page.html"
    path.write_text(page.render(rungs), encoding="utf-8")
    url = path.as_uri()
    trouble: list[str] = []
    with chromium() as browser:
        opened = browser.new_page(viewport={"width": 1280, "height": 900}, locale="en")
        opened.set_default_timeout(10_000)
        opened.on("pageerror", lambda error: trouble.append(str(error)))
        opened.on("console", lambda told: trouble.append(told.text) if told.type == "error" else 0)
        opened.on("request", lambda asked: trouble.append(asked.url) if asked.url != url else 0)
        opened.goto(url)
        yield opened
    assert trouble == []


def choose(tab: Any, variant: str, view: str, line: str) -> dict[str, int]:
    """Click to a variant, a picture and a row of the sums; what the picture shows."""
    tab.select_option("#run", label=f"transpose/{variant}")
    tab.click(f"#views button:has-text('{view}')")
    tab.click(f"#sums button:text-is('{line}')")
    shown = tab.eval_on_selector("#picture", "each => ({...each.dataset})")
    return {name: int(value) for name, value in shown.items()}


def test_the_four_rungs_give_four_right_pictures(tab: Any, rungs: list[Run]):
    def line_of(text: str, nth: int = 0) -> int:
        lines = rungs[0].source.splitlines()
        return [n for n, line in enumerate(lines, 1) if text in line][nth]

    loop, after = line_of("output[at(col, row, rows)] = input"), line_of("= tile[threadIdx.x][i]")
    scattered = choose(tab, "cuda_v1", "Sectors", f"{loop}: store")
    assert scattered == {"sectors": 32, "used": 128, "wasted": 896}
    assert "12.5% used, 896 bytes wasted" in tab.inner_text("#caption")
    assert tab.locator("#picture .waste").count() == 32 * 7
    loop = line_of("output[at(col, row, rows)] = input", 1)
    assert choose(tab, "cuda_v2", "Sectors", f"{loop}: load")["wasted"] == 0
    assert choose(tab, "cuda_v2", "Sectors", f"{loop}: store")["wasted"] == 896
    assert choose(tab, "cuda_v3", "Sectors", f"{after}: store")["wasted"] == 0
    conflicts = choose(tab, "cuda_v3", "Banks", f"{after}: load shared")
    assert conflicts == {"wavefronts": 32, "conflicts": 31}
    after = line_of("= tile[threadIdx.x][i]", 1)
    assert choose(tab, "cuda_v4", "Sectors", f"{after}: store")["wasted"] == 0
    none = choose(tab, "cuda_v4", "Banks", f"{after}: load shared")
    assert none == {"wavefronts": 1, "conflicts": 0}


def test_each_picture_draws_what_was_counted_and_the_sums_are_those_of_the_trace(
    tab: Any, rungs: list[Run]
):
    differs = tab.evaluate(
        """() => RUNS.flatMap((run) => run.launches.flatMap((each) => each.events)).filter((e) => {
          if (spaceOf(e) === GLOBAL) {
            const sectors = sectorsOf(lanesOf(e), bytesOf(e));
            const used = sectors.flatMap((each) => each.owner).filter((l) => l >= 0).length;
            return sectors.length !== movedOf(e) || used !== partOf(e);
          }
          const groups = spaceOf(e) === SHARED ? wavefrontsOf(lanesOf(e), bytesOf(e)) : [];
          const wavefronts = groups.reduce((n, each) => n + each.busiest, 0);
          return wavefronts !== movedOf(e) || wavefronts - groups.length !== partOf(e);
        }).length"""
    )
    assert differs == 0
    for run in rungs:
        tab.select_option("#run", label=str(run.task))
        rows = tab.eval_on_selector_all("#sums tbody tr", "all => all.map((e) => ({...e.dataset}))")
        moved = sum(int(row["moved"]) for row in rows)
        events = run.trace.launches[0].events
        assert moved == sum(each.moved for each in events)
        assert sum(int(row["part"]) for row in rows) == sum(each.part for each in events)


def test_keys_step_and_say_index_and_address_on_a_phone_too(tab: Any):
    tab.select_option("#run", label="transpose/cuda_v3")
    tab.locator("#run").blur()
    tab.keyboard.press("1")
    assert "block 1 of 4" in tab.inner_text("#steps")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowRight")
    assert "view=output&launch=0&block=1&access=1" in tab.url
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")  # before a block's first access is the last of the one before
    assert "block=0&access=31" in tab.url
    tab.focus("#picture")
    tab.keyboard.press("ArrowRight")
    told = r"output\[0, \d\] at 0x[0-9a-f]+: thread \(\d+, 0, 0\) of block \(0, 0, 0\), warp 0"
    assert re.match(told, tab.inner_text("#told"))
    tab.hover("#picture [data-cell='70']")
    assert tab.inner_text("#told").startswith("output[1, 6] at 0x")
    tab.set_viewport_size({"width": 390, "height": 800})
    for view in ("1", "2", "3", "4", "5"):
        tab.locator("#picture").blur()
        tab.keyboard.press(view)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        assert tab.locator("#picture [data-cell]").count() > 0
    tab.set_viewport_size({"width": 1280, "height": 900})


def test_an_untrusted_source_adds_no_script_to_the_page(rungs: list[Run]):
    untrusted = replace(rungs[0], source="</script><script>alert(1)</script>\n" * 200)
    text = page.render([untrusted])
    assert text.count("</script>") == 2 and "alert(1)" in text
    data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert data and "</script>" in json.loads(data[1])[0]["code"].popitem()[1]


def test_a_page_that_is_too_large_is_refused(rungs: list[Run], monkeypatch: pytest.MonkeyPatch):
    assert len(page.render(rungs).encode()) < 400_000
    monkeypatch.setattr(page, "MAX_BYTES", 1000)
    with pytest.raises(NothingToDraw, match="Draw one variant"):
        page.render(rungs)


def test_the_lines_of_a_lab_are_those_of_its_files(rungs: list[Run]):
    drawn = rungs[0]
    assert drawn.place(3) == "transpose.cu:3"
    origins = [("helper.cuh", line + 100) for line in range(1, len(drawn.source.splitlines()) + 1)]
    text = page.render([replace(drawn, lab=Joined("transpose.cu", b"", origins))])
    data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert data
    [shown] = json.loads(data[1])
    assert shown["at"].keys() == shown["code"].keys()
    assert all(at == f"helper.cuh:{int(line) + 100}" for line, at in shown["at"].items())
