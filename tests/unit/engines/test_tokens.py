"""Tokens of elements, and the lists of them."""

import pytest

from perdure.engines.tokens import Token, element_lines, index_list, parse_token


@pytest.mark.parametrize(
    "token", [Token(array="0f", index=0), Token(array="ab12", index=31, restarts=4)]
)
def test_tokens_are_read_back(token):
    assert parse_token(str(token)) == token


@pytest.mark.parametrize("text", ["", "ab", "ab-", "ab-1-r0", "ab-1.2", "AB-1", "ab-1-r1x"])
def test_what_is_no_token(text):
    assert parse_token(text) is None


@pytest.mark.parametrize(
    ("indexes", "text"), [([0], "0"), ([0, 1, 2], "0-2"), ([3, 7], "3,7"), ([5], "5")]
)
def test_lists_of_elements(indexes, text):
    assert index_list(indexes) == text


def test_the_next_run_of_an_element():
    assert str(Token(array="ab", index=3).next) == "ab-3-r1"
    assert str(Token(array="ab", index=3, restarts=4).next) == "ab-3-r5"


def test_the_elements_file():
    elements = [("l0", Token(array="ab", index=0)), ("l7", Token(array="ab", index=7, restarts=2))]
    assert element_lines(elements) == "0 l0 ab-0 0\n7 l7 ab-7 2\n"
