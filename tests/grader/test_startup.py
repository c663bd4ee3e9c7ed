"""What a command imports, and that the collector is back when that is done."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from grader.startup import importing
from tests.support import warm_python
from tests.support.small_exercise import ROOT


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_is_afterwards_as_it_was(is_on, fails):
    was_on = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        with pytest.raises(ImportError) if fails else importing(), importing():
            assert not gc.isenabled()
            kept = [[] for _ in range(100)]
            if fails:
                raise ImportError
        assert gc.isenabled() is is_on
        assert gc.get_freeze_count() > len(kept)
    finally:
        (gc.enable if was_on else gc.disable)()


def test_what_few_commands_need_is_imported_where_it_is_needed():
    program = """
import sys
import grader.cli.app
print(sorted({"hypothesis", "jinja2", "torch"} & {*sys.modules}))
"""
    line = [sys.executable, "-c", program]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout == "['torch']\n"


def test_what_only_failures_and_timings_need_is_not_imported_by_the_students_tests():
    program = """
import sys
import tests.test_assignment
of_few = {"rich", "grader.grading.edits.likely_edits", "grader.timing.submission"}
print(sorted(of_few & {*sys.modules}))
"""
    assert warm_python.run(["-c", program], cwd=ROOT).stdout == "[]\n"


def test_ctrl_c_in_the_middle_of_numpys_import_is_not_lost():
    program = """
import sys
from importlib.abc import MetaPathFinder

class Interrupting(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "numpy.linalg":
            sys.meta_path.remove(self)
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from grader.startup import importing
try:
    with importing():
        import torch
except KeyboardInterrupt:
    print("interrupted")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "interrupted\n"
