"""The weights by which features make a sentence's score.

Fitted by ``python examples/fit_summary_weights.py`` on documents with summaries that no evaluation
uses: ridge regression of a sentence's share of the summary's words. The same for all models.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, float] = {
    "first": 0.011,
    "early": 0.045,
    "log_number": -0.046,
    "length": -0.073,
    "length_squared": -0.034,
    "short": -0.016,
    "names": 0.024,
    "digits": -0.036,
    "commas": -0.079,
    "brackets": -0.028,
    "quotes": -0.032,
    "question": 0.003,
    "speaker": -0.031,
    "item": -0.034,
    "opens_paragraph": 0.019,
    "opens_section": 0.065,
    "dangling": 0.003,
    "self": 0.142,
    "short_text_place": -0.014,
    "short_text_end": 0.001,
    "short_text_start": 0.014,
    "long_text_place": -0.034,
    "long_text_end": 0.014,
    "long_text_start": 0.054,
    "frequency": 0.094,
    "log_frequency": 0.123,
    "degree": 0.206,
    "keywords": 0.065,
    "keyword_share": 0.161,
    "title": -0.009,
    "heading": 0.007,
    "unique": -0.091,
    "cue_proposes": 0.061,
    "cue_we": 0.049,
    "cue_we_do": 0.152,
    "cue_finds": -0.012,
    "cue_concludes": 0.060,
    "cue_aims": 0.024,
    "cue_needs": -0.031,
    "cue_problem": -0.010,
    "cue_example": -0.034,
    "cue_points": -0.037,
    "cue_i": -0.051,
    "cue_you": -0.041,
    "cue_hedges": -0.017,
    "cue_negates": -0.022,
    "cue_defines": 0.037,
    "cue_url": -0.013,
    "cue_ticks": -0.001,
    "section_abstract": 0.032,
    "section_introduction": 0.042,
    "section_motivation": 0.051,
    "section_conclusion": 0.052,
    "section_proposal": 0.055,
    "section_aside": -0.001,
    "section_abstract_opens": 0.019,
    "section_introduction_opens": 0.006,
    "section_motivation_opens": 0.022,
    "section_conclusion_opens": 0.009,
    "section_proposal_opens": 0.037,
    "section_aside_opens": -0.004,
}


def sentence_score(features: Mapping[str, float]) -> float:
    """Return the weighted sum of a sentence's features."""
    return sum(WEIGHTS.get(name, 0.0) * value for name, value in features.items())
