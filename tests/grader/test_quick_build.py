"""Triton's launchers compiled in a hurry: they are made, and only where nobody takes the time."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from grader.worker import host, quick_build

SOURCE = """
#include <Python.h>
#include <math.h>
#include "seven.h"
static PyObject* answer(PyObject* self, PyObject* args) {
    return PyLong_FromLong(6 * (long)cbrt(SEVEN * 49.0));
}
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef made = {PyModuleDef_HEAD_INIT, "made", NULL, -1, methods};
PyMODINIT_FUNC PyInit_made(void) { return PyModule_Create(&made); }
"""

needs_a_compiler = pytest.mark.skipif(
    not shutil.which("gcc") or not Path(sysconfig.get_paths()["include"], "Python.h").exists(),
    reason="needs gcc and Python's headers",
)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "seven.h").write_text("#define SEVEN 7\n")
    path = tmp_path / "made.c"
    path.write_text(SOURCE)
    return path


@needs_a_compiler
def test_an_extension_module_comes_of_it(source, tmp_path):
    made = quick_build.build(
        "made", str(source), str(tmp_path), [], [str(tmp_path / "include")], ["m"]
    )
    spec = importlib.util.spec_from_file_location("made", made)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.answer() == 42


@needs_a_compiler
def test_what_does_not_compile_raises(source, tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        quick_build.build("made", str(source), str(tmp_path), [], [], [])


def test_without_a_compiler_it_says_what_to_install(source, tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="install gcc, or set CC"):
        quick_build.build("made", str(source), str(tmp_path), [], [], [])


@pytest.mark.parametrize(
    ("device", "page", "hurries"),
    [("cuda", None, True), ("cuda", object(), False), ("interpreter", None, False)],
)
def test_only_what_is_not_timed_is_compiled_in_a_hurry(monkeypatch, device, page, hurries):
    done = []
    monkeypatch.setattr(quick_build, "install", lambda: done.append(True))

    class Ended:
        def send(self, data): ...

        def recv(self, size):
            return b""

    host.serve(Ended(), [], "x.py", "x", device, page=page)
    assert done == [True] * hurries
