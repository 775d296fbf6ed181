"""The weights by which features make a sentence's score: fitted ones, and ones for reading.

Fitted by ``python examples/fit_summary_weights.py`` on documents with summaries that no evaluation
uses: ridge regression of a sentence's share of the summary's words. The same for all models.
"""

from __future__ import annotations

from collections.abc import Mapping

WORD_WEIGHTS: Mapping[str, float] = {
    "count": 0.250,
    "sentences": 0.305,
    "sentences_of_short_text": 0.269,
    "sections": 0.219,
    "headings": 0.134,
    "title": -0.030,
    "first": 0.087,
    "opens_section": 0.064,
    "self": 0.105,
    "cue_proposes": 0.033,
    "section_abstract": 0.044,
    "section_introduction": 0.038,
}

WEIGHTS: Mapping[str, float] = {
    "first": -0.007,
    "early": 0.009,
    "log_number": -0.021,
    "length": -0.084,
    "length_squared": -0.042,
    "short": -0.006,
    "names": 0.021,
    "digits": -0.031,
    "commas": -0.056,
    "brackets": -0.021,
    "quotes": -0.021,
    "question": 0.003,
    "speaker": -0.025,
    "item": -0.029,
    "opens_paragraph": 0.016,
    "opens_section": 0.033,
    "dangling": 0.011,
    "refers": 0.014,
    "self": 0.093,
    "short_text_place": -0.007,
    "short_text_end": 0.002,
    "short_text_start": 0.009,
    "long_text_place": -0.019,
    "long_text_end": 0.015,
    "long_text_start": 0.036,
    "short_text_opening": 0.009,
    "long_text_opening": 0.023,
    "book_opening": 0.000,
    "frequency": 0.028,
    "log_frequency": 0.028,
    "degree": 0.028,
    "keywords": 0.054,
    "keyword_share": 0.077,
    "title": -0.008,
    "heading": -0.009,
    "unique": -0.022,
    "worth": 0.239,
    "worth_sum": 0.155,
    "worth_best": 0.087,
    "content": -0.021,
    "function_the": 0.072,
    "function_of": 0.046,
    "function_a": 0.053,
    "function_in": 0.030,
    "function_and": 0.005,
    "function_has": -0.032,
    "cue_proposes": 0.028,
    "cue_we_do": 0.142,
    "cue_finds": -0.005,
    "cue_concludes": 0.038,
    "cue_aims": 0.023,
    "cue_problem": -0.008,
    "cue_example": -0.024,
    "cue_points": -0.038,
    "cue_defines": 0.020,
    "cue_url": -0.007,
    "cue_ticks": -0.005,
    "cue_markup": -0.020,
    "cue_speech": -0.036,
    "cue_we": 0.055,
    "cue_needs": -0.026,
    "cue_i": -0.042,
    "cue_you": -0.026,
    "cue_hedges": -0.006,
    "cue_negates": -0.006,
    "section_abstract": 0.018,
    "section_introduction": 0.030,
    "section_motivation": 0.055,
    "section_conclusion": 0.047,
    "section_proposal": 0.051,
    "section_aside": 0.004,
    "section_abstract_opens": 0.013,
    "section_introduction_opens": 0.003,
    "section_motivation_opens": 0.016,
    "section_conclusion_opens": 0.008,
    "section_proposal_opens": 0.035,
    "section_aside_opens": -0.003,
}


# Added so that a summary reads as a text: what opens a document, no questions, no speech, no short
# sentences or items. By the same command this costs no ROUGE.
READING: Mapping[str, float] = {
    "book_opening": 0.2,
    "cue_example": -0.05,
    "cue_points": -0.05,
    "cue_ticks": -0.025,
    "cue_url": -0.05,
    "cue_markup": -0.1,
    "cue_speech": -0.15,
    "item": -0.125,
    "length": 0.05,
    "long_text_opening": 0.45,
    "question": -0.15,
    "quotes": -0.125,
    "refers": -0.05,
    "section_abstract": 0.05,
    "section_aside": -0.025,
    "section_introduction": 0.05,
    "self": 0.2,
    "short": -0.4,
    "speaker": -0.1,
}
_TOTAL = {name: weight + READING.get(name, 0.0) for name, weight in WEIGHTS.items()}


def sentence_score(features: Mapping[str, float]) -> float:
    """Return the weighted sum of a sentence's features."""
    return sum(_TOTAL[name] * value for name, value in features.items())
