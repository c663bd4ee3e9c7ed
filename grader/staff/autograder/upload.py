"""The zip that makes Gradescope grade by itself: on a CPU, in Gradescope's container.

    setup.sh            once, when the image is built: Python packages, a compiler, bubblewrap
    run_autograder      for each submission; whatever happens, results.json is valid
    autograder.json     what to grade, what to hide, how long
    pyproject.toml constraints.txt README.md LICENSE    to install by
    grader/ course.yaml exercises/ reference/oracles.py

It is made of the students' release: no solutions, no known-wrong submissions, no attacks. Formats
and limits are those of Gradescope's autograder documentation: half a CPU, 768 MB and ten minutes
unless the assignment's settings give more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from grader.grading.gradescope import CONFIG, Config
from grader.mistakes import Mistake
from grader.report.gradescope_results import Visibility
from grader.spec import Course, Exercise
from grader.staff import release
from grader.staff.release import Release

TIMEOUT = 600  # seconds that Gradescope gives, unless told otherwise
SPARE = 90  # of these, for starting, for the case under way when time is over, and for the end
# Of each part: somewhat less than `grader grade` spends, so that a class's nightly runs fit.
EFFORT = {
    "edges": 12, "drawn": 6, "seconds": 10.0, "shrink_seconds": 4.0, "probe_seconds": 3.0
}  # fmt: skip

_FOLDER = Path(__file__).parent
_FOLDERS = ("grader/", "exercises/", "reference/")
_PROJECT_FILES = ("LICENSE", "README.md", "constraints.txt", "course.yaml", "pyproject.toml")
_SECRET_UNTIL = ("hidden", "after_published")


@dataclass(frozen=True)
class Settings:
    """How Gradescope grades an assignment.

    `only` names exercises; none means all. What `hidden` names (exercises or variants) is shown to
    students as `visibility` says. A class's `seed` is packed only where what it is used for stays
    hidden until the grades are out; everything else is drawn by the public seed. `lifted` names
    what may break the rules, `order` is the class's. `timeout` is the assignment's, in seconds;
    `thorough` searches as long as `grader grade` does.
    """

    only: Sequence[str] = ()
    hidden: Sequence[str] = ()
    visibility: str = "after_published"
    seed: int | None = None
    lifted: Sequence[str] = ()
    order: Sequence[str] = ()
    timeout: float = TIMEOUT
    thorough: bool = False

    @property
    def shown(self) -> Visibility:
        """`visibility`, checked. Raises Mistake."""
        known = [each for each in get_args(Visibility) if each != "visible"]
        if self.visibility in known:
            return cast(Visibility, self.visibility)
        wanted = ", ".join(known)
        raise Mistake(f"--visibility: expected one of {wanted}, got {self.visibility!r}")


def make(
    project: Path,
    exercises: Mapping[str, Exercise],
    settings: Settings | None = None,
    course: Course | None = None,
) -> Release:
    """The autograder of the checkout `project`.

    Raises Mistake as release.make does, and for settings that can't be.
    """
    settings = settings or Settings()
    if settings.timeout < 2 * SPARE:
        wanted = f"at least {2 * SPARE} seconds"
        raise Mistake(f"--timeout: expected {wanted}, got {settings.timeout:g}")
    visibility = settings.shown
    kept = release.make(project, exercises, settings.only, course).files
    files = {
        name: data
        for name, data in kept.items()
        if name.startswith(_FOLDERS) or name in _PROJECT_FILES
    }
    known = {name for name in exercises if f"exercises/{name}.yaml" in files}
    config = Config(
        seconds=settings.timeout - SPARE,
        hidden=tuple(name for name in settings.hidden if name.partition("/")[0] in known),
        visibility=visibility,
        seed=settings.seed if visibility in _SECRET_UNTIL and settings.hidden else None,
        lifted=tuple(name for name in settings.lifted if name.partition("/")[0] in known),
        effort={} if settings.thorough else EFFORT,
        order=tuple(name for name in settings.order if name in known),
    )
    files[CONFIG] = config.to_json().encode()
    files["run_autograder"] = (_FOLDER / "run_autograder.py").read_bytes()
    setup = (_FOLDER / "setup.sh").read_text(encoding="utf-8")
    for name in ("TRITON", "TRITON_310"):
        setup = setup.replace(f"@{name}@", _version(project, name))
    files["setup.sh"] = setup.encode()
    programs = frozenset({"run_autograder", "setup.sh"})
    return Release(dict(sorted(files.items())), folder="", programs=programs)


def write(made: Release, out: Path) -> None:
    """Write the zip. Raises Mistake as release.write does, and where `out` is no .zip."""
    if out.suffix.lower() != ".zip":
        raise Mistake(f"{out}: expected a name ending in .zip")
    release.write(made, out)


def _version(project: Path, name: str) -> str:
    """Of the triton that the Makefile installs beside the CPU build of torch."""
    text = (project / "Makefile").read_text(encoding="utf-8")
    line = re.search(rf"^{name} := (\S+)$", text, re.MULTILINE)
    if line is None:
        raise Mistake(f"{project / 'Makefile'}: expected a line {name} := VERSION")
    return line[1]
