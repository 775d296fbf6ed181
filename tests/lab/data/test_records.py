"""Rows of records: what follows a name's first record is a copy, and nothing else is."""

from __future__ import annotations

import random

import pytest

from drt_engine.errors import ConfigError
from drt_lab.data.far_copies import SharedTrigrams, far_copies
from drt_lab.data.passkeys import LINK
from drt_lab.data.records import RecordLayout, record_row
from tests.tables import each_row

LAYOUT = RecordLayout(vocab=136, chunk=8, names=12, values=3, apart=2)


def test_a_record_names_the_next_and_repeats_its_values() -> None:
    row = record_row(random.Random(1), LAYOUT, 40)
    assert row.shape == (40, 8)
    values: dict[int, list[int]] = {}
    for record, following in zip(row.tolist(), [*row[1:].tolist(), None], strict=True):
        assert record[-2] == LINK and (following is None or record[-1] == following[0])
        assert values.setdefault(record[0], record[1:4]) == record[1:4]
        assert record[0] < LAYOUT.first_value <= min(record[1:6])
    names = row[:, 0].tolist()
    assert len(set(names)) <= 12 and all(
        name not in names[max(0, at - 2) : at] for at, name in enumerate(names)
    )


def test_copies_are_the_values_and_labels_the_records_of_the_name() -> None:
    row = record_row(random.Random(2), LAYOUT, 40)
    ids, names = row.flatten().tolist(), row[:, 0].tolist()
    places = [at % 8 for at in far_copies(ids, window=16, chunk=8).nonzero()[:, 0].tolist()]
    assert sum(place in (1, 2, 3) for place in places) > 0.9 * len(places)
    labels = SharedTrigrams(ids, 8).labels()
    labelled = [(t, k) for t in range(39) for k in labels[t].nonzero()[:, 0].tolist()]
    right = [names[k] == names[t + 1] for t, k in labelled]
    assert len(right) > 50 and sum(right) > 0.95 * len(right)


@each_row(
    ("changes", "message"),
    [
        ({"values": 5}, "records.values is 5, expected 1 to 4"),
        ({"names": 3}, "records.names is 3, expected 4 to 64"),
        ({"names": 65}, "records.names is 65, expected 4 to 64"),
    ],
)
def test_layouts_that_cannot_be(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RecordLayout(**(vars(LAYOUT) | changes))
