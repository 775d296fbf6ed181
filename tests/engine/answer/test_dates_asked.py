"""Questions about years that no calendar has: an answer or none, and never an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drt_engine.answer.ask import ask
from drt_engine.store import Store
from tests.engine.answer.asking import ANY
from tests.model_folder import library, read_text, runtime

YEARS = ("-1", "0", "0000", "9998", "9999", "10000", "99999999999999999999", "٩٩٩٨", "-44")
TABLE = "year,town,deaths_85_99,deaths_00_14\n" + "".join(
    f"{year},Town {number},{number},{year}\n" for number, year in enumerate(YEARS)
)
LOG = "# Log\n\n" + "".join(
    f"{year}-13-45T25:61:61Z keeper {number} signed the log.\n" for number, year in enumerate(YEARS)
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("dates")
    with library(folder / "library") as opened:
        read_text(opened, folder, name="towns.csv", text=TABLE)
        read_text(opened, folder, name="log.md", text=LOG)
        yield opened


@pytest.mark.parametrize(
    "year",
    [
        *YEARS[:1],
        "10000",
        *(pytest.param(y, marks=pytest.mark.thorough) for y in YEARS[1:] if y != "10000"),
    ],
)
def test_a_year_out_of_range_is_asked_about(store: Store, year: str) -> None:
    for question in (
        f"Which town is of the year {year}?",
        f"How many deaths were there since {year}?",
        f"Who signed the log before 31 December {year}?",
        f"How many rows are from {year}-12-31 to {year}-01-01?",
    ):
        answer = ask(runtime(), store, question, ANY)
        assert answer.state in ("answer", "likely", "none")
