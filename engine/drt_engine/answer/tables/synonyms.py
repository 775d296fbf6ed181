"""Words that people and tables use for the same column: "died" asks for ``deaths``.

General English, for columns that many tables have; word embeddings of a small model know too few
of them.
"""

from __future__ import annotations

from drt_engine.text.words import word_set

_GROUPS = tuple(
    word_set(group)
    for group in (
        "died dead death deaths killed fatality fatalities casualties victims",
        "hurt injured injuries wounded",
        "crash crashes accident accidents incident incidents",
        "founded founding established establishment formed started inception since",
        "headquarters headquartered office hq seat based located location",
        "joined join joining added admitted entered entry accession",
        "ticker symbol code abbreviation acronym short",
        "name called title named",
        "price cost costs costing fee charge rate",
        "salary wage wages pay paid earnings earn earns",
        "staff employees employee workers workforce personnel headcount",
        "inhabitants population people residents",
        "chief heads leader leads director boss chair president manager",
        "born birth birthday birthdate dob",
        "sold sales revenue turnover",
        "profit income earnings",
        "amount quantity number count total qty",
        "tall height high",
        "heavy weight weigh weighs mass",
        "long length",
        "wide width",
        "size area",
        "old age aged",
        "fast speed velocity",
        "hot temperature cold",
        "author writer wrote written",
        "maker manufacturer made brand producer",
        "owner owns owned belongs holder",
        "job role position occupation profession post",
        "phone telephone tel",
        "mail email address",
        "website url web site homepage link",
        "username account handle login user",
        "company firm business organisation organization corporation enterprise",
        "country nation state",
        "town city place",
        "language tongue spoken speaks",
        "money currency",
        "start begin begins starts beginning started opens opening",
        "end ends finish closes closing expiry expires",
        "due deadline until",
        "sector industry branch field",
        "won wins win victories",
        "lost losses loss defeats",
        "score points result",
        "rank ranking place position",
        "grade mark marks",
        "distance far miles kilometres kilometers km",
        "capital seat",
        "kind type category class sort genre",
        "note notes remark remarks comment comments",
        "description meaning means describes purpose",
        "max maximum highest top peak",
        "min minimum lowest bottom",
        "avg average mean",
        "pct percent percentage share",
        "last latest final",
        "depart departs departure departures leave leaves",
        "arrive arrives arrival arrivals",
        "fare ticket price cost costs",
    )
)


def are_synonyms(word: str, other_word: str) -> bool:
    """Return whether two lower-case words name the same column."""
    return any(word in group and other_word in group for group in _GROUPS)
