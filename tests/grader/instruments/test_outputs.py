"""lecture/outputs.py: programs of the handout are run, and what they print stands below them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lecture import outputs
from lecture.outputs import Output, Place

HANDOUT = """# A handout

```python
# Needs a GPU.
print("one")
```

<!-- shown: one, on a GPU -->
<!-- /shown -->

```sh
ls assignment/silu.py broken
cat try_it.py
```

<!-- shown: two, here, from two, first 2 lines -->

```text shown
of before
```

*Printed before.*

<!-- /shown -->
"""


def test_a_place_has_the_block_above_it_and_the_python_above_that():
    one, two = outputs.places(HANDOUT)
    assert one == Place("one", True, "python", one.block, one.block)
    assert one.block.endswith('print("one")\n')
    assert (two.on_gpu, two.kind, two.script) == (False, "sh", one.block)


def test_a_place_without_a_program_is_told():
    with pytest.raises(ValueError, match="no block stands above the place 'three'"):
        list(outputs.places("<!-- shown: three, here -->\n<!-- /shown -->\n"))


def test_outputs_go_to_their_places_and_nothing_else_changes():
    made = outputs.filled(HANDOUT, {"two": Output("one\ntwo\nthree\nfour\n", "Printed now.")})
    assert "```text shown\ntwo\nthree\n…\n```\n\n*Printed now.*\n\n<!-- /shown -->" in made
    assert "of before" not in made
    assert outputs.filled(made, {}) == made
    logged = "W1125 09:47:32.931000 4347 torch/_inductor/utils.py:1479] [0/0] on error, a folder\n"
    warned = "/lib/a.py:3: UserWarning: slow\n  warn()\n"
    noisy = Output(f"one\n{logged}two\n{warned}three\nfour\n", "Printed now.")
    assert outputs.filled(HANDOUT, {"two": noisy}) == made
    assert made.partition("<!-- shown: two")[0] == HANDOUT.partition("<!-- shown: two")[0]


def test_programs_run_beside_the_students_files_and_errors_are_kept(tmp_path: Path):
    _, two = outputs.places(HANDOUT)
    output = outputs.run(two, "Printed now.")
    assert output.status == 0  # of the last command
    assert "assignment/silu.py" in output.text and "broken" in output.text
    assert output.text.endswith('print("one")')
    failing = Place("x", False, "python", "", "import sys\nsys.exit('it failed')\n")
    assert outputs.run(failing, "") == Output("it failed", "", 1)


def test_the_command_saves_and_puts_in_what_was_saved(tmp_path: Path, capsys, monkeypatch):
    file, saved = tmp_path / "handout.md", tmp_path / "saved.json"
    file.write_text(HANDOUT, encoding="utf-8")
    monkeypatch.setattr(outputs, "made_on", lambda on_gpu: "Printed on a GPU.")
    monkeypatch.setattr(outputs, "run", lambda place, made: Output(f"of {place.name}", made))
    assert outputs.main(["--gpu", "--save", str(saved), "--handout", str(file)]) == 0
    assert capsys.readouterr().out == "one: status 0\n"
    assert list(json.loads(saved.read_text())) == ["one"]
    assert file.read_text() == HANDOUT
    assert outputs.main(["--stored", str(saved), "--handout", str(file)]) == 0
    assert re.search(r"shown: one.*\n\n```text shown\nof one\n```\n\n\*Printed ", file.read_text())


def test_the_graders_commands_get_our_solutions_where_students_have_none():
    ours = outputs.with_solutions("grader check gemm/triton_v3\ngrader inspect gelu\n")
    assert ours == "grader check --submission reference gemm/triton_v3\ngrader inspect gelu\n"
    own = "grader check silu --submission broken\n"
    assert outputs.with_solutions(own) == own
