"""Word error rate (VB14)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicebench.wer import Edit, align, normalise, word_error_rate


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("don't 'quote' dogs'", ["don't", "quote", "dogs"]),
        ("don’t", ["don't"]),  # noqa: RUF001
        ("' '' -", []),
        ("half-past 7:30 p.m.", ["half", "past", "7", "30", "p", "m"]),
        ("ﬁne ＡＢＣ", ["fine", "abc"]),  # noqa: RUF001 - NFKC
        ("Zürich\tist\n schön", ["zürich", "ist", "schön"]),
        ("हिन्दी में", ["हिन्दी", "में"]),  # vowel signs belong to their words
        ("", []),
    ],
)
def test_normalise(text: str, words: list[str]) -> None:
    assert normalise(text) == words


@pytest.mark.parametrize(
    ("reference", "hypothesis", "rate"),
    [
        ("book a table", "book a table", 0.0),
        ("Book a table!", "book, a TABLE", 0.0),
        ("book a table", "look a table", 1 / 3),
        ("book a table", "book table", 1 / 3),
        ("book a table", "book a a table", 1 / 3),
        ("book a table", "", 1.0),
        ("yes", "no no no", 3.0),
        ("", "", 0.0),
        ("", "anything at all", 1.0),
        ("...", "anything", 1.0),
    ],
)
def test_word_error_rate(reference: str, hypothesis: str, rate: float) -> None:
    assert word_error_rate(reference, hypothesis) == pytest.approx(rate)


def test_alignment_shows_every_kind_of_edit() -> None:
    edits = align("I want a table for four", "I wand table for four please")
    assert edits == [
        Edit("equal", ("i",), ("i",)),
        Edit("substitute", ("want",), ("wand",)),
        Edit("delete", ("a",), ()),
        Edit("equal", ("table", "for", "four"), ("table", "for", "four")),
        Edit("insert", (), ("please",)),
    ]
    assert " ".join(map(str, edits)) == "i [want > wand] [a > -] table for four [- > please]"


def test_alignment_of_empty_texts() -> None:
    assert align("", "") == []
    assert align("", "so what") == [Edit("insert", (), ("so", "what"))]
    assert align("so what", "") == [Edit("delete", ("so", "what"), ())]


sentences = st.text(alphabet="ab c'.", max_size=30)


@given(sentences, sentences)
def test_the_alignment_explains_the_rate(reference: str, hypothesis: str) -> None:
    edits = align(reference, hypothesis)
    errors = sum(max(len(edit.reference), len(edit.hypothesis)) for edit in edits if edit.kind != "equal")
    words = len(normalise(reference))
    assert word_error_rate(reference, hypothesis) == pytest.approx(errors / words if words else min(errors, 1))
    assert [word for edit in edits for word in edit.reference] == normalise(reference)
    assert [word for edit in edits for word in edit.hypothesis] == normalise(hypothesis)
