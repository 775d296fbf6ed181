"""The page's style: titles have a line of their own, and names keep their distance from numbers."""

from __future__ import annotations

import re
from importlib import resources

import pytest


@pytest.fixture(scope="module")
def rules() -> dict[str, str]:
    """The declarations of the page by selector, before the rules of narrow screens."""
    page = (resources.files("drt_engine.trace") / "page.html").read_text(encoding="utf-8")
    style = page.split("<style>")[1].split("@media (max-width")[0]
    rules: dict[str, str] = {}
    for selectors, declarations in re.findall(r"([^{}]+)\{([^{}]*)\}", style):
        for selector in selectors.split(","):
            rules[selector.strip()] = rules.get(selector.strip(), "") + declarations
    return rules


def test_a_title_has_the_whole_line_and_is_never_cut(rules: dict[str, str]) -> None:
    assert "grid-column: 2 / -1" in rules[".chunk .place"]
    assert "nowrap" not in rules[".chunk .place"] and "overflow" not in rules[".chunk .place"]


def test_numbers_do_not_collide_with_their_names(rules: dict[str, str]) -> None:
    gap = re.search(r"gap: \S+ (\d+)px", rules[".bar"])
    assert gap is not None and int(gap[1]) >= 6
    columns = re.search(r"grid-template-columns: ([^;]+)", rules[".chunk > summary"])
    assert columns is not None and "px)" not in columns[1].replace("26px", "")
