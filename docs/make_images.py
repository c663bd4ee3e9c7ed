"""Makes the pictures in docs/images/: one submission's report, in a terminal and as a page.

    python docs/make_images.py             both: report-terminal.svg and report-page.png
    python docs/make_images.py --no-page   the terminal's alone, which needs no browser

The submission is assignment/ with silu solved, and rmsnorm solved but for a mistake, so that the
report has a failure to show. The page needs Chromium and the package playwright.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
SHOWN = ("silu", "rmsnorm/triton")  # what is graded
# The mistake: the mean is taken over the block, not over the columns.
RIGHT, WRONG = "tl.sum(x * x, axis=0) / n_cols", "tl.sum(x * x, axis=0) / BLOCK"
COLUMNS = 88
PAGE_SIZE = {"width": 820, "height": 1000}
MARGIN = 12  # pixels below what is shown of the page
LARGEST = 300_000  # bytes of a picture
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main() -> int:
    """The script: the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--no-page", action="store_true", help="leave the picture of the page")
    wanted = parser.parse_args()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None and not wanted.no_page:
        print(f"expected one of {', '.join(BROWSERS)}; or --no-page", file=sys.stderr)
        return 2
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        printed = grade(Path(folder), page)
        terminal = IMAGES / "report-terminal.svg"
        terminal.write_text(drawn(printed), encoding="utf-8")
        made = [terminal]
        if not wanted.no_page:
            made.append(IMAGES / "report-page.png")
            photograph(browser, page, made[-1])
    for path in made:
        size = path.stat().st_size
        print(f"{path.relative_to(ROOT)}: {size / 1000:.0f} kB")
        if size > LARGEST:
            print(f"{path.name}: expected at most {LARGEST // 1000} kB", file=sys.stderr)
            return 1
    return 0


def grade(folder: Path, page: Path) -> str:
    """Grade the submission in `folder`/assignment: what the terminal gets, colours included."""
    submission = folder / "assignment"
    shutil.copytree(ROOT / "assignment", submission, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "reference" / "silu.py", submission)
    right = (ROOT / "reference" / "rmsnorm.py").read_text(encoding="utf-8")
    if right.count(RIGHT) != 1:
        raise ValueError(f"reference/rmsnorm.py: expected {RIGHT!r} once")
    (submission / "rmsnorm.py").write_text(right.replace(RIGHT, WRONG), encoding="utf-8")
    only = [word for name in SHOWN for word in ("--only", name)]
    command = ["-m", "grader", "grade", submission.name, *only, "--html", str(page)]
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "FORCE_COLOR": "1",
            "COLUMNS": str(COLUMNS),
            "CUDA_VISIBLE_DEVICES": "",  # the same report on every machine
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ran.stdout


def drawn(printed: str) -> str:
    """The terminal's text as SVG. It has an identifier of its own, so that it repeats."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    prompt = " ".join(["$ grader grade", *(f"--only {name}" for name in SHOWN)])
    console.print(Text.from_ansi("\n".join([prompt, *printed.rstrip().splitlines()])))
    svg = console.export_svg(title="warpgrade", unique_id="warpgrade")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S)  # fonts that would be fetched
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def photograph(browser: str | None, page: Path, picture: Path) -> None:
    """The page as PNG, from its top to the end of the first failure."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=FLAGS)
        tab = opened.new_page(viewport=PAGE_SIZE, color_scheme="light", locale="en")
        tab.goto(page.as_uri())
        failure = tab.locator("article.failure").first.bounding_box()
        bottom = failure["y"] + failure["height"] + MARGIN
        clip = {"x": 0, "y": 0, "width": PAGE_SIZE["width"], "height": bottom}
        tab.screenshot(path=str(picture), full_page=True, clip=clip)
        opened.close()


if __name__ == "__main__":
    sys.exit(main())
