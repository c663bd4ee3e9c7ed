"""What a worker has printed is read within bounds, whatever it is."""

from __future__ import annotations

import pytest

from grader.sandbox import untrusted
from tests.support import work


@pytest.mark.parametrize(
    ("text", "places"),
    [("7,12,3", [7, 12, 3]), ("7,12,", [7, 12]), ("", []), ("1234567890", [1234567890])],
)
def test_the_places_that_a_process_names_are_read(text: str, places: list[int]) -> None:
    assert untrusted.places_in_log(f"before\n[grader] at {text}\nbehind") == [places]


@pytest.mark.parametrize("text", ["1" * 60 + "x", "1" * 60, "1," * 300, "1,,2"])
def test_a_line_of_endless_digits_names_no_places(text: str) -> None:
    with work.ending():
        assert untrusted.places_in_log(f"[grader] at {text}\n") == []


def test_an_object_s_address_is_left_out_of_a_sentence():
    text = "unsupported index: <tl.core.slice object at 0x7f0daf979590> at 0x10"
    assert untrusted.brief(text) == "unsupported index: <tl.core.slice object> at 0x10"
