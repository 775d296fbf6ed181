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
        "founded founding established establishment est formed started inception since",
        "headquarters headquartered office hq seat based located location",
        "customer client buyer ordered bought purchased buys orders",
        "deadly fatal lethal",
        "lecturer teacher instructor professor teaches taught tutor",
        "joined join joining added admitted entered entry accession start started hired",
        "ticker symbol code abbreviation acronym short letter letters",
        "name called title named",
        "price cost costs costing fee charge rate",
        "salary wage wages pay paid earnings earn earns",
        "staff employees employee workers workforce personnel headcount people",
        "inhabitants population pop people residents",
        "chief heads leader leads director boss chair president manager supervisor reports",
        "born birth birthday birthdate dob",
        "sold sales revenue turnover",
        "profit income earnings",
        "amount quantity number count total qty",
        "tall height high",
        "heavy weight wt weigh weighs mass",
        "long length",
        "wide width",
        "size area",
        "old age aged",
        "fast speed velocity",
        "hot temperature temp cold",
        "author writer wrote written",
        "maker manufacturer made brand producer",
        "owner owns owned belongs holder",
        "job role position occupation profession post",
        "phone telephone tel extension",
        "mail email address",
        "website url web site homepage link",
        "username account handle login user",
        "company companies firm firms business organisation organization corporation enterprise"
        " security",
        "country nation state",
        "town city place",
        "language tongue spoken speaks",
        "money currency",
        "start begin begins starts beginning started opens opening",
        "end ends ended finish closes closing expiry expires leave leaves left departure resigned",
        "due deadline until",
        "day days date dates",
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
        "department dept",
        "latitude lat",
        "longitude lon lng",
        "horsepower hp",
        "cylinders cylinder cyl",
    )
)

# Words that tables set against each other, which word embeddings take for alike; the shortened
# forms of a month or a day are the same word.
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WHOLE = {name[:3]: name for name in (*_MONTHS, *_DAYS)} | {
    "sept": "september",
    "tues": "tuesday",
    "thurs": "thursday",
}
_CONTRASTS = tuple(
    tuple(word_set(words) for words in group.split("|"))
    for group in (
        "|".join(_MONTHS),
        "|".join(_DAYS),
        "gold golds|silver silvers|bronze bronzes",
        "max maximum highest|min minimum lowest|average mean avg|median",
        "first|second|third|fourth|last",
        "north northern|south southern|east eastern|west western",
        "spring|summer|autumn fall|winter",
        "male males men boys|female females women girls",
        "morning|afternoon|evening|night|noon",
        "buy buys bought|sell sells sold",
        "import imports imported|export exports exported",
        "open opens opening opened|close closes closing closed",
        "start starts begin begins started|end ends finish finishes ended",
        "arrival arrives arrive|departure departs depart leaves",
        "day days daily|week weeks weekly|month months monthly|year years yearly annual",
        "before earlier|after later",
        "width wide|height tall|length long|depth deep|weight heavy|diameter",
        "domestic national|foreign international",
        "income revenue revenues|expense expenses expenditure|profit profits|loss losses",
        "email mail|phone telephone tel|fax|website url|address",
    )
)


def whole_word(word: str) -> str:
    """Return a month or a day written out, other words as they are: "jan" is "january"."""
    return _WHOLE.get(word, word)


def are_contrasts(word: str, other_word: str) -> bool:
    """Return whether two lower-case words name things that tables tell apart."""
    pair = (word, other_word)
    for group in _CONTRASTS:
        places = [next((n for n, words in enumerate(group) if w in words), None) for w in pair]
        if None not in places and places[0] != places[1]:
            return True
    return False


def are_synonyms(word: str, other_word: str) -> bool:
    """Return whether two lower-case words name the same column."""
    return any(word in group and other_word in group for group in _GROUPS)
