"""The cases of a space, for hypothesis to draw."""

from __future__ import annotations

from hypothesis import strategies as st

from grader.cases import Case, Space, drawing


def any_case(space: Space) -> st.SearchStrategy[Case]:
    """As the grader draws them."""
    return drawing._strategy(drawing._choices(space)).map(lambda chosen: space.case(*chosen))
