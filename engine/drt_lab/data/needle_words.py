"""The words and phrasings that needles are made of; the "train" and "eval" splits never overlap.

Tables only: what is drawn from them, and where it is hidden, is decided elsewhere.
"""

from __future__ import annotations

from typing import Literal
from zlib import crc32

Split = Literal["train", "eval"]
# Statement and question on an entity {e}, a thing or a person, and a value {v}.
Form = tuple[str, str]


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


def _split_of(name: str) -> Split:
    return "eval" if crc32(name.encode()) % 4 == 0 else "train"


_HEADS = _listed(
    """
    Mar Hal Thorn Ash Wick Bel Cor Dun Els Fen Gar Hath Ing Kel Lang Mel Nor Oak Pem Quar Rav
    Sel Tarn Ulv Ver Wal Yar Zel Brack Crom Drey Farn Glen Holm Jar Kirk Lor Myr Ost Pol Rusk
    Stan Tel Vand Wex Arl Bram Calde Dor Esk Frith Gris Harl Isen Jor Karst Lind Mor Nev Ord
    """
)
_TAILS = _listed(
    """
    low ford by stead wick ham mere ton ley worth field gate moor dale combe bourne thorpe hurst
    den wold rick shaw vane brook croft mont sey brigg
    """
)
_ALL_PLACES = tuple(dict.fromkeys(head + tail for head in _HEADS for tail in _TAILS))
_ALL_FIRST_NAMES = _listed(
    """
    Ida Otto Clara Hugo Agnes Felix Greta Oscar Nadia Viktor Irene Casper Leona Anton Marta
    Edgar Sonja Rufus Helga Julian Petra Silas Vera Ivo Tilda Magnus Rosa Conrad Ulla Basil
    Edith Lorenz Flora Emil Hanna Gideon Astrid Bruno Celia Dmitri Elsa Florian Gilda Harald
    Inga Jasper Katya Lionel Mina Nestor Odette Pavel Renata Stellan Thea Ulrich Wanda Yusuf
    Zora Alma Bertram Corinna Desmond Estelle Fergus Gwen Horatio Isolde Joachim Kirsten
    """
)
PLACES: dict[Split, tuple[str, ...]] = {
    "train": tuple(name for name in _ALL_PLACES if _split_of(name) == "train"),
    "eval": tuple(name for name in _ALL_PLACES if _split_of(name) == "eval"),
}
FIRST_NAMES: dict[Split, tuple[str, ...]] = {
    "train": tuple(name for name in _ALL_FIRST_NAMES if _split_of(name) == "train"),
    "eval": tuple(name for name in _ALL_FIRST_NAMES if _split_of(name) == "eval"),
}
THINGS = _listed(
    """
    depot warehouse station workshop archive laboratory harbour observatory mill quarry foundry
    library bakery orchard museum clinic ferry lighthouse tannery brewery granary chapel
    garrison nursery printworks reservoir shipyard theatre vineyard windmill
    """
)
ROLES: dict[Split, tuple[str, ...]] = {
    "train": _listed("keeper courier auditor surveyor caretaker clerk treasurer warden"),
    "eval": _listed("steward inspector porter bookkeeper curator foreman"),
}
BRIDGES: dict[Split, tuple[str, ...]] = {
    "train": (
        "The {r} of {e} is {p}.",
        "{p} serves as the {r} of {e}.",
        "{p} was appointed {r} of {e}.",
        "As everyone knows, the {r} of {e} is called {p}.",
        "Since last spring {p} has acted as {r} of {e}.",
    ),
    "eval": (
        "For many years {p} has been the {r} of {e}.",
        "{p} works as {r} of {e}.",
        "The post of {r} of {e} is held by {p}.",
    ),
}
ADJECTIVES = _listed(
    """
    amber brittle copper distant eager frozen gentle hollow ivory jagged lively mossy narrow
    orange patient quiet rusty silver tangled uneven velvet woven young zealous crooked dusty
    faded golden humble noisy polished restless shallow striped thirsty wooden
    """
)
NOUNS = _listed(
    """
    anchor basket candle dagger engine falcon goblet hammer island jacket kettle lantern mirror
    needle otter pebble quiver ribbon saddle teapot umbrella violin walnut yarrow zither acorn
    beacon cradle drum feather glacier hinge ladder magnet nettle parrot rudder sparrow thimble
    """
)
SHADES = _listed("pale dark bright dusky smoky deep light dull vivid milky")
COLOURS = _listed(
    """
    crimson ochre teal indigo scarlet olive turquoise maroon lilac saffron cobalt emerald russet
    violet magenta vermilion sepia cerulean chartreuse fuchsia mauve umber
    """
)
MONTHS = _listed(
    """
    January February March April May June July August September October November December
    """
)
UNITS = _listed("litres crates barrels bundles sacks coins bottles tiles spools candles")

# Phrasings; the value never opens a sentence, so that it keeps its spelling.
_TRAIN_FORMS: dict[str, tuple[Form, ...]] = {
    "code": (
        ("The access code of {e} is {v}.", "What is the access code of {e}?"),
        ("The access code for {e} was changed to {v}.", "Tell me the access code for {e}."),
        ("Remember that {e} has the access code {v}.", "{e} has which access code?"),
        ("The code that was issued for {e} reads {v}.", "What code was issued for {e}?"),
        ("According to the register, {e} uses the code {v}.", "Which code does {e} use?"),
    ),
    "number": (
        ("The registration number of {e} is {v}.", "What is the registration number of {e}?"),
        ("The number {v} was entered in the books for {e}.", "Which number was entered for {e}?"),
        ("The records list {e} under number {v}.", "Under what number is {e} listed?"),
        ("By order of the council, {e} received the number {v}.", "What number did {e} receive?"),
        ("The special magic number of {e} is {v}.", "What is the number of {e}?"),
    ),
    "identifier": (
        ("The device identifier of {e} is {v}.", "What is the device identifier of {e}?"),
        (
            "The system knows {e} by the identifier {v}.",
            "By which identifier does the system know {e}?",
        ),
        (
            "The tracking identifier {v} is reserved for {e}.",
            "Which tracking identifier is reserved for {e}?",
        ),
        ("The inventory gives {e} the identifier {v}.", "What identifier does {e} have?"),
    ),
    "words": (
        ("The password of {e} is {v}.", "What is the password of {e}?"),
        ("The secret phrase chosen for {e} is {v}.", "Which secret phrase was chosen for {e}?"),
        ("The watchword {v} was given to {e}.", "What watchword was given to {e}?"),
        ("The sign that stands for {e} is the {v}.", "What is the sign of {e}?"),
    ),
    "amount": (
        ("The yearly allowance of {e} is {v}.", "What is the yearly allowance of {e}?"),
        ("The stores still owe {v} to {e}.", "How much do the stores owe to {e}?"),
        ("The contract grants {e} a total of {v}.", "How much does the contract grant {e}?"),
        ("An order of {v} was placed for {e}.", "What was ordered for {e}?"),
    ),
    "date": (
        ("The first report on {e} was filed on {v}.", "When was the first report on {e} filed?"),
        ("The next review of {e} is set for {v}.", "For what date is the next review of {e} set?"),
        ("The licence granted to {e} ends on {v}.", "When does the licence of {e} end?"),
        (
            "The agreement with {e} was signed on {v}.",
            "On what date was the agreement with {e} signed?",
        ),
    ),
    "place": (
        ("The new address of {e} is in {v}.", "Where is the new address of {e}?"),
        ("All letters for {e} must be sent to {v}.", "Where must letters for {e} be sent?"),
        (
            "The belongings of {e} were moved to {v}.",
            "To which place were the belongings of {e} moved?",
        ),
        ("The nearest market for {e} is the one at {v}.", "Where is the nearest market for {e}?"),
    ),
    "colour": (
        ("The flag of {e} is {v}.", "What colour is the flag of {e}?"),
        ("The colours worn by {e} are {v}.", "Which colours are worn by {e}?"),
        ("The committee chose {v} for {e}.", "What colours did the committee choose for {e}?"),
        ("The crates marked for {e} are painted {v}.", "How are the crates for {e} painted?"),
    ),
    "name": (
        ("The deputy of {e} is {v}.", "Who is the deputy of {e}?"),
        ("The legal guarantor of {e} is named {v}.", "What is the name of the guarantor of {e}?"),
        ("The debts of {e} were paid by {v}.", "Who paid the debts of {e}?"),
        ("The portrait of {e} was painted by {v}.", "By whom was the portrait of {e} painted?"),
    ),
}
_EVAL_FORMS: dict[str, tuple[Form, ...]] = {
    "code": (
        ("The only valid code for {e} is {v}.", "What is the valid code for {e}?"),
        (
            "A note in the margin says that the code of {e} is {v}.",
            "What code does the note give for {e}?",
        ),
        (
            "The code belonging to {e} is {v}, and no other is accepted.",
            "Which code belongs to {e}?",
        ),
    ),
    "number": (
        ("The file number assigned to {e} is {v}.", "Which number is assigned to {e}?"),
        (
            "In the ledger, {e} appears with the number {v}.",
            "With what number does {e} appear in the ledger?",
        ),
        ("The secret number of {e} has always been {v}.", "What is the secret number of {e}?"),
    ),
    "identifier": (
        (
            "The unique identifier stored for {e} is {v}.",
            "What unique identifier is stored for {e}?",
        ),
        (
            "Every message from {e} carries the identifier {v}.",
            "Which identifier do messages from {e} carry?",
        ),
    ),
    "words": (
        ("The passphrase agreed on for {e} is {v}.", "What passphrase was agreed on for {e}?"),
        ("The emblem of {e} shows the {v}.", "What does the emblem of {e} show?"),
    ),
    "amount": (
        ("The quota fixed for {e} amounts to {v}.", "How large is the quota fixed for {e}?"),
        ("A shipment of {v} is on its way to {e}.", "What shipment is on its way to {e}?"),
    ),
    "date": (
        ("The anniversary of {e} is kept on {v}.", "On which date is the anniversary of {e} kept?"),
        (
            "The insurance taken out for {e} runs until {v}.",
            "Until when does the insurance of {e} run?",
        ),
    ),
    "place": (
        ("The twin town chosen by {e} is {v}.", "Which twin town was chosen by {e}?"),
        ("The spare keys of {e} are kept in {v}.", "Where are the spare keys of {e} kept?"),
    ),
    "colour": (
        ("The banner carried by {e} is {v}.", "What colour is the banner of {e}?"),
        ("The uniform designed for {e} is {v}.", "What colours has the uniform designed for {e}?"),
    ),
    "name": (
        ("The lawyer who speaks for {e} is {v}.", "Which lawyer speaks for {e}?"),
        ("The history of {e} was written by {v}.", "Who wrote the history of {e}?"),
    ),
}
FORMS: dict[Split, dict[str, tuple[Form, ...]]] = {"train": _TRAIN_FORMS, "eval": _EVAL_FORMS}
