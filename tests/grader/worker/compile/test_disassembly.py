"""The disassembler's answer, and why there is none."""

from __future__ import annotations

import pytest
import triton

from grader.worker.compile import disassembly


def test_what_is_no_cubin_is_told_in_the_tools_words():
    answer = disassembly.disassembled(b"no cubin")
    assert answer["no_sass"].startswith("nvdisasm can't read the cubin: ")


def test_a_missing_tool_is_told_with_where_it_comes_from(monkeypatch: pytest.MonkeyPatch):
    class Nothing:
        @property
        def nvdisasm(self):
            raise RuntimeError("Cannot find nvdisasm")

    monkeypatch.setattr(triton.knobs, "nvidia", Nothing())
    answer = disassembly.disassembled(b"")
    assert answer == {"no_sass": "nvdisasm isn't installed: it comes with Triton's package"}


def test_a_tool_that_can_not_be_started_is_told(monkeypatch: pytest.MonkeyPatch):
    class Elsewhere:
        class nvdisasm:
            path = "/nowhere/nvdisasm"

    monkeypatch.setattr(triton.knobs, "nvidia", Elsewhere())
    assert disassembly.disassembled(b"")["no_sass"].startswith("nvdisasm gave no answer: ")
