"""The weights by which features make a sentence's score: fitted ones, and ones for reading.

Fitted by ``python examples/fit_summary_weights.py`` on documents with summaries that no evaluation
uses: ridge regression of a sentence's share of the summary's words. The same for all models.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, float] = {
    "first": 0.012,
    "early": 0.038,
    "log_number": -0.039,
    "length": -0.076,
    "length_squared": -0.032,
    "short": -0.009,
    "names": 0.025,
    "digits": -0.036,
    "commas": -0.077,
    "brackets": -0.028,
    "quotes": -0.032,
    "question": 0.002,
    "speaker": -0.028,
    "item": -0.034,
    "opens_paragraph": 0.019,
    "opens_section": 0.065,
    "dangling": 0.002,
    "self": 0.144,
    "short_text_place": -0.012,
    "short_text_end": -0.001,
    "short_text_start": 0.014,
    "long_text_place": -0.026,
    "long_text_end": 0.014,
    "long_text_start": 0.047,
    "short_text_opening": 0.017,
    "long_text_opening": 0.044,
    "frequency": 0.095,
    "log_frequency": 0.124,
    "degree": 0.209,
    "keywords": 0.063,
    "keyword_share": 0.161,
    "title": -0.010,
    "heading": 0.009,
    "unique": -0.089,
    "cue_proposes": 0.061,
    "cue_we": 0.047,
    "cue_we_do": 0.153,
    "cue_finds": -0.012,
    "cue_concludes": 0.059,
    "cue_aims": 0.023,
    "cue_needs": -0.033,
    "cue_problem": -0.011,
    "cue_example": -0.035,
    "cue_points": -0.036,
    "cue_i": -0.051,
    "cue_you": -0.039,
    "cue_hedges": -0.017,
    "cue_negates": -0.021,
    "cue_defines": 0.036,
    "cue_url": -0.012,
    "cue_ticks": -0.001,
    "section_abstract": 0.032,
    "section_introduction": 0.042,
    "section_motivation": 0.050,
    "section_conclusion": 0.054,
    "section_proposal": 0.056,
    "section_aside": -0.000,
    "section_abstract_opens": 0.019,
    "section_introduction_opens": 0.005,
    "section_motivation_opens": 0.020,
    "section_conclusion_opens": 0.009,
    "section_proposal_opens": 0.039,
    "section_aside_opens": -0.004,
}


# Added so that a summary reads as a text: what opens a document, no questions, no speech, no short
# sentences or items. By the same command this costs no ROUGE.
READING: Mapping[str, float] = {
    "cue_example": -0.1,
    "cue_points": -0.05,
    "cue_ticks": -0.05,
    "cue_url": -0.1,
    "item": -0.25,
    "length": 0.1,
    "long_text_opening": 0.5,
    "question": -0.3,
    "quotes": -0.25,
    "section_abstract": 0.1,
    "section_aside": -0.05,
    "section_introduction": 0.1,
    "self": 0.25,
    "short": -0.4,
    "speaker": -0.1,
}
_TOTAL = {name: weight + READING.get(name, 0.0) for name, weight in WEIGHTS.items()}


def sentence_score(features: Mapping[str, float]) -> float:
    """Return the weighted sum of a sentence's features."""
    return sum(_TOTAL[name] * value for name, value in features.items())
