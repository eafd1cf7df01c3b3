"""Who misheard whom: word error rate and its evidence (VB14).

Conventions
-----------
- Texts are compared as lists of words: NFKC, lower case, punctuation and symbols taken for spaces. An apostrophe
  stays inside a word ("don't", also with U+2019) and falls at its ends.
- ``rate = (substituted + deleted + inserted) / words of the reference``. It may exceed 1. Against an empty
  reference it is 0 for an empty hypothesis, else 1.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal, cast

import jiwer

EditKind = Literal["equal", "substitute", "delete", "insert"]

_OTHER = re.compile(r"[^\w\s']")
_APOSTROPHES = str.maketrans("’ʼ", "''")  # noqa: RUF001 - these are the characters meant


@dataclass(frozen=True)
class Edit:
    """One step from the reference to the hypothesis; runs of words of one kind are one step."""

    kind: EditKind
    reference: tuple[str, ...]
    hypothesis: tuple[str, ...]

    def __str__(self) -> str:
        """The words themselves where equal, else [reference > hypothesis]."""
        if self.kind == "equal":
            return " ".join(self.reference)
        return f"[{' '.join(self.reference) or '-'} > {' '.join(self.hypothesis) or '-'}]"


def normalise(text: str) -> list[str]:
    """The words that count."""
    text = unicodedata.normalize("NFKC", text).lower().translate(_APOSTROPHES)
    stripped = (word.strip("'") for word in _OTHER.sub(_mark_or_space, text).split())
    return [word for word in stripped if word]


def word_error_rate(reference: str, hypothesis: str) -> float:
    """The word error rate of ``hypothesis``."""
    expected, heard = normalise(reference), normalise(hypothesis)
    if not expected:
        return 1.0 if heard else 0.0
    return float(jiwer.process_words(" ".join(expected), " ".join(heard)).wer)


def align(reference: str, hypothesis: str) -> list[Edit]:
    """The cheapest way from ``reference`` to ``hypothesis``: what a word error rate counted."""
    expected, heard = normalise(reference), normalise(hypothesis)
    if not expected:
        return [Edit("insert", (), tuple(heard))] if heard else []
    (chunks,) = jiwer.process_words(" ".join(expected), " ".join(heard)).alignments
    return [
        Edit(
            cast(EditKind, chunk.type),
            tuple(expected[chunk.ref_start_idx : chunk.ref_end_idx]),
            tuple(heard[chunk.hyp_start_idx : chunk.hyp_end_idx]),
        )
        for chunk in chunks
    ]


def _mark_or_space(match: re.Match[str]) -> str:
    """Vowel signs and accents of many scripts are no word characters to ``re``, but they are parts of words."""
    character = match.group()
    return character if unicodedata.category(character).startswith("M") else " "
