"""Lines of requests: what is read, and what is said of a line that is wrong."""

import json

import pytest

from grader.service.messages import Answer, Request, read

RIGHT = {"schema": 1, "id": "a", "exercise": "silu/triton", "source": "x"}


def _line(**changes: object) -> bytes:
    return json.dumps({**RIGHT, **changes}).encode()


def test_a_request_is_read():
    request = read(_line(limit_s=5), 1)
    assert isinstance(request, Request)
    assert (request.id, request.limit_s, request.seed) == ("a", 5.0, None)


@pytest.mark.parametrize(
    ("line", "said", "named"),
    [
        (b"{nonsense", "line 3: the line: Invalid JSON", None),
        (b'"\xff"', "line 3: the line: Invalid JSON", None),
        (b"[" * 100_000, "line 3: the line: Invalid JSON", None),
        (_line(schema=2), "line 3: schema: ", "a"),
        (_line(id=[]), "line 3: id.", None),
        (_line(limit_s=-1), "line 3: limit_s: ", "a"),
        (
            _line(effort="fast"),
            "line 3: effort: Input should be 'full' or 'quick', got 'fast'",
            "a",
        ),
        (_line(surce="x"), "line 3: surce: ", "a"),
        (json.dumps({"id": 7}).encode(), "line 3: schema: Field required", 7),
    ],
)
def test_a_wrong_line_is_answered_with_its_place_and_its_id(line, said, named):
    answer = read(line, 3)
    assert isinstance(answer, Answer)
    assert answer.outcome == "malformed"
    assert answer.error.startswith(said)
    assert answer.id == named


def test_an_answer_is_one_line_with_its_schema():
    line = Answer(id="a\n", outcome="refused", error="line 1\nand more").line()
    assert line.count("\n") == 1
    assert json.loads(line)["schema"] == 1
