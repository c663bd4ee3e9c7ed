"""One lexer splits CUDA C++ for the policy and for the emulator, as the compilers do.

Each case of DIFFERENCES was read in two ways when there were two lexers; it is held to the reading
that hides nothing.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.emulator import tokens
from grader.emulator.lexer import lex

DIFFERENCES = {
    "a name goes on behind a spliced line": ("__sha\\\nred__ x", ["__shared__", "x"]),
    "blanks may stand behind the backslash": ("sys\\ \t\ntem", ["system"]),
    "a launch goes on behind a spliced line": ("k<\\\n<< 1 >>>", ["k", "<<<", "1", ">>>"]),
    "a dollar sign is part of a name": ("a$system", ["a$system"]),
    "any character beyond ASCII is part of a name": ("a\u2192b", ["a\u2192b"]),
    "digraphs are brackets": ("<% a<:0:> %>", ["{", "a", "[", "0", "]", "}"]),
    "a digraph begins a directive": ("%:define A\nb", ["b"]),
    "a comment in code that is off hides its #endif": ("#if 0\n/*\n#endif\n*/ a\n#endif\nb", ["b"]),
    "a comment may stand in front of what is off": ("#if /* off */ 0\na\n#endif\nb", ["b"]),
    "only 0 by itself is off": ("#if 0 /**/ + 1\na\n#endif", ["a"]),
    "a splice may stand in front of what is off": ("#if \\\n0\na\n#endif\nb", ["b"]),
    "#elifdef ends what is off": ("#if 0\na\n#elifdef B\nb\n#endif", ["b"]),
    "another system's code is off": (
        "#if defined(_WIN32) || defined __APPLE__\na\n#endif\nb",
        ["b"],
    ),
    "an editor's code is off": ("#ifndef __CUDACC__\na\n#else\nb\n#endif", ["b"]),
    "a system that may be this one isn't": ("#if defined(_WIN32) || A\na\n#endif", ["a"]),
    "a comment may stand behind #": ("# /* */ define A a\nb", ["b"]),
    "a raw string keeps its spliced lines": ('R"(\\\n)" a', ['"\\\n"', "a"]),
    "an unclosed quote takes its line": ("don't a\nb", ["don", "'t a", "b"]),
    "a lone carriage return is no blank": ("a\r#define A\nb", ["a", "\r", "#", "define", "A", "b"]),
    "a lone carriage return ends a comment": ("// a\rb\r\n", ["\r", "b"]),
    "a lone carriage return ends a text": ('"a\rb"', ['"a', "\r", "b", '"']),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_two_lexers_read_differently_is_read_in_one_way(name: str) -> None:
    text, expected = DIFFERENCES[name]
    assert [token.text for token in tokens.read(text).code.tokens] == expected
    in_pieces = [token.text for token in lex(text).tokens]
    assert "".join(in_pieces) == "".join(expected)


@pytest.mark.parametrize(
    ("text", "parameters", "body"),
    [
        ("#define A(x, y) x ## y", ("x", "y"), ["x", "##", "y"]),
        ("#define A(x, ...) x", ("x", "..."), ["x"]),
        ("#define A (x)", (), ["(", "x", ")"]),
        ("#define A/**/(x)", (), ["(", "x", ")"]),
        ("#define A\\\n(x) x", ("x",), ["x"]),  # the policy took it for a macro without parameters
        ("#define A(x", ("x",), []),
    ],
)
def test_a_macro_has_its_parameters_and_its_body(
    text: str, parameters: tuple[str, ...], body: list[str]
) -> None:
    [directive] = lex(text).directives
    assert (directive.macro, directive.parameters) == ("A", parameters)
    assert [token.text for token in directive.body] == body


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_tokens_know_their_offsets_and_lines_with_either_line_break(line_break: str) -> None:
    text = line_break.join(
        ["int a; // b", "#define C \\", " d", "e /* f", "*/ g\\", 'h R"(i\\', ')"']
    )
    lexed = lex(text)
    last = lexed.tokens[-1]
    places = {token.text: (token.line, text[token.start : token.end]) for token in lexed.tokens}
    assert places["gh"] == (5, f"g\\{line_break}h")
    assert (last.line, text[last.start : last.end]) == (6, f'R"(i\\{line_break})"')
    [define] = lexed.directives
    assert text[define.at.start : define.end] == f"#define C \\{line_break} d"
    assert not lexed.problems


PIECES = st.sampled_from(
    [
        *("a", "<", ">", "#", ":", "%", ".", ";", "'", '"', "\\", "\n", "\r", " ", "1'0", "u8"),
        *("<<<", ">>>", "\\\n", "\\ \r\n", "\r\n", "//", "/*", "*/", 'R"(', ')"'),
        *("#if 0\n", "#endif\n", "#define A(x)"),
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_tokens_lie_one_behind_the_other_in_the_text(text: str) -> None:
    behind = 0
    for token in lex(text).tokens:
        assert behind <= token.start < token.end <= len(text)
        assert text.count("\n", 0, token.start) + 1 == token.line
        behind = token.end
