"""Commands on one library that are killed at random moments, beside a process that reads it.

What a command has said is done must be there whoever was killed afterwards. Of a command that was
killed, each document is as it was before or as it would have been; the next command works.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from drt import Library

KEYS = 6  # documents; the last two are web pages, which a process of its own reads
FIRST = 0.5  # seconds of work that a command may have, until one came to its end
SECONDS = 300.0  # the longest that a command may take on a busy machine


class Process(Protocol):
    """What runs a command."""

    pid: int
    returncode: int | None

    def send_signal(self, number: int, /) -> None: ...

    def communicate(self, *, timeout: float) -> tuple[str, str]: ...


Start = Callable[[Sequence[str]], Process]
# by the name of a file, the versions that may be there; of a conversation, turns; None: it is gone
Outcomes = dict[str, set[int | None]]

READ = """
import sys
from pathlib import Path
from tests.e2e.killed_commands import read
read(Path(sys.argv[1]), [Path(path) for path in sys.argv[2:]])
"""


def file_name(key: int) -> str:
    return f"doc{key}.{'html' if key >= KEYS - 2 else 'md'}"


def lines(name: str, version: int) -> list[str]:
    """Return the lines of one version of a document; their number differs, too."""
    stem = name.partition(".")[0]
    return [f"House {i} of {stem} has shade {version}." for i in range(20 + version % 150)]


def written(name: str, version: int) -> str:
    """Return what a file of a document holds."""
    if name.endswith(".html"):
        return f"<title>{name}</title>" + "".join(f"<p>{x}</p>\n" for x in lines(name, version))
    return f"# {name}\n\n" + "\n\n".join(lines(name, version)) + "\n"


def version_of(name: str, text: str) -> int:
    """Return the version that a document's text is, all of it."""
    found = re.findall(r"House \d+ of \w+ has shade \d+\.", text)
    version = int(found[0].rpartition(" ")[2][:-1]) if found else -1
    assert found == lines(name, version), f"{name} is no version: {text[:200]!r}"
    return version


def versions(library: Library) -> dict[str, int]:
    """Return the version of each document of a library."""
    documents = library.documents() if library.exists() else []
    return {
        name: version_of(name, library.text(document))
        for document in documents
        for name in [Path(document.source).name]
    }


# what another process's work may refuse a reader, in one sentence
REFUSED = re.compile(
    r"refused (no document|there is no (document|library)|.*(removed|rebuilt for .*) meanwhile"
    r"|.*did not finish within|the libraries at .* were made with different models)"
)


def read(stop: Path, paths: list[Path]) -> None:
    """Read all documents of each path again and again.

    In the end, prints the number of refusals that are right and the first sentences that a reader
    must not see: nothing is printed before, since nobody reads what is.
    """
    from drt import DrtError

    refused, odd = 0, list[str]()
    while not stop.exists():
        time.sleep(0.05)
        for path in paths:
            library = Library(path)
            try:
                if not path.exists():
                    continue
                for document in library.documents():
                    version_of(Path(document.source).name, library.text(document))
                if library.several:
                    continue
                odd += [f"found {x}" for x in library.check() if x.severity == "error"]
            except DrtError as error:
                said = f"refused {error}".replace("\n", "//")
                if REFUSED.search(said):
                    refused += 1
                else:
                    odd.append(said)
    print(refused, *odd[:5], sep="\n")


@dataclass
class Command:
    """A command, what it may leave where it is killed, and what holds when it comes to its end."""

    words: list[str]
    after: Outcomes = field(default_factory=dict)
    finished: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        plain = [word for word in self.words if word.isalpha() and word.islower()]
        return " ".join(plain[:2] if plain[0] == "library" else plain[:1])


class Trial:
    """A library, the commands on it, and what each of them may have left.

    ``models`` are the folders of two models by their fingerprints.
    """

    def __init__(self, folder: Path, start: Start, models: dict[str, Path], *, seed: int) -> None:
        self.folder, self.start, self.models = folder, start, models
        self.chance = random.Random(seed)
        self.path, self.list, self.copy = (
            folder / name for name in ("main.library", "both.json", "copy")
        )
        # documents, and the turns of a conversation with each model
        names = [file_name(key) for key in range(KEYS)] + [path.name for path in models.values()]
        self.outcomes: Outcomes = {name: {None} for name in names}
        self.durations: dict[str, float] = {}  # by command, from its opening of a library on
        self.counts: Counter[str] = Counter()

    def run(self, *, kills: int) -> Counter[str]:
        """Kill so many commands; verify the library after each of them."""
        for model in self.models.values():  # a library that can be asked with this one, by each
            library = self.other(["--model", str(model)])
            words = ["--library", str(library), "--model", str(model), "ingest"]
            self.whole(Command([*words, self.write("else.md", 0)]))
        self.whole(ingest(self))
        while self.counts["killed"] < kills:
            command = self.chance.choice(COMMANDS)(self)
            if self.was_killed(command):
                for name, possible in command.after.items():
                    self.outcomes[name] = self.outcomes[name] | possible
                self.verify()
                if self.chance.random() < 0.5:
                    continue  # with another command
                if "--session" in command.words:
                    command = ask(self)  # one that was saved is not asked again, but another is
                self.again(command)
            self.end(command)
        self.whole(Command(["library", "check"]))
        return self.counts

    # what commands need

    def write(self, name: str, version: int) -> str:
        file = self.folder / name
        file.write_text(written(name, version), encoding="utf-8")
        return str(file)

    def present(self) -> dict[str, int]:
        """Return the versions of the documents that are known to be there."""
        return {
            name: version
            for name, possible in self.outcomes.items()
            for version in possible
            if name.startswith("doc") and version is not None
        }

    def current_model(self, *, other: bool = False) -> list[str]:
        """Return the option of the model that the library was read by, or of the other one."""
        library = Library(self.path)
        current = library.stats()["fingerprint"] if library.exists() else next(iter(self.models))
        assert current in self.models, current
        names = [name for name in self.models if (name != current) == other]
        return ["--model", str(self.models[names[0]])]

    def other(self, model: Sequence[str]) -> Path:
        """Return the library beside this one that was read by a model."""
        return self.folder / f"{Path(model[1]).name}.library"

    # running them

    def whole(self, command: Command) -> None:
        """Run a command to its end, which is a good one."""
        code, out, err = self.output(self.started(command))
        self.counts["whole"] += 1
        assert code == 0, (command.words, code, out, err)
        self.end(command)

    def started(self, command: Command) -> Process:
        words = command.words
        library = [] if "--library" in words else ["--library", str(self.path)]
        model = [] if "--model" in words else self.current_model()
        return self.start([*library, *model, "--threads", "1", *words])

    def output(self, process: Process) -> tuple[int | None, str, str]:
        end = time.monotonic() + SECONDS
        while alive(process.pid) and time.monotonic() < end:
            time.sleep(0.005)
        if is_late := alive(process.pid):
            process.send_signal(signal.SIGABRT)  # faulthandler prints where it is
        out, err = process.communicate(timeout=SECONDS)
        assert not is_late, f"a command did not end in {SECONDS:g} s: {err}"
        assert "Traceback" not in err and "mistake of the program" not in err, err
        return process.returncode, out, err

    def again(self, command: Command) -> None:
        """Run a command that was killed again: it goes on, or all was done."""
        code, out, err = self.output(self.started(command))
        self.counts["again"] += 1
        if code and not self.refused(command, err):
            done = next((DONE[word] for word in command.words if word in DONE), "nothing")
            assert code == 1 and done in err, (command.words, code, out, err)
            self.counts["again, and was done"] += 1

    def was_killed(self, command: Command) -> bool:
        """Kill a command at a random moment of its work; return whether it came so late."""
        process, name = self.started(command), command.name
        begin = time.monotonic()
        while alive(process.pid) and not opened(process.pid, self.folder):
            assert time.monotonic() - begin < SECONDS, f"{command.words} opens nothing"
            time.sleep(0.002)
        begin = time.monotonic()
        end = begin + self.chance.uniform(0.0, 1.2) * self.durations.get(name, FIRST)
        while time.monotonic() < end and alive(process.pid):
            time.sleep(0.002)
        if alive(process.pid):
            process.send_signal(signal.SIGKILL)
        seconds = time.monotonic() - begin
        code, out, err = self.output(process)
        if code == -signal.SIGKILL:
            self.counts["killed"] += 1
            self.counts[f"killed {name}"] += 1
            self.durations[name] = self.durations.get(name, FIRST) * 1.1  # it may take longer
            return True
        assert code == 0 or self.refused(command, err), (command.words, code, out, err)
        self.durations[name] = max(0.02, seconds)
        self.counts["came to their end"] += 1
        return False

    def refused(self, command: Command, err: str) -> bool:
        """Return whether a question was rightly refused, and begin its conversation anew.

        A conversation that quotes a document goes on only as long as the library has it.
        """
        quoted = re.search(r"this conversation quotes '(.+)', which was removed", err)
        if quoted is None or "--session" not in command.words:
            return False
        assert self.outcomes[quoted[1]] == {None}, (command.words, err)
        talk = command.words[command.words.index("--session") + 1]
        self.whole(Command(["session", "delete", "--yes", talk], {talk: {None}}))
        command.after = {talk: {None}}
        self.counts["refused"] += 1
        return True

    def end(self, command: Command) -> None:
        """Verify what holds after a whole command."""
        self.outcomes |= command.after
        self.verify()
        command.finished()

    def verify(self) -> None:
        """Compare the library with what it may hold, and narrow that down."""
        library = Library(self.path)
        seen: dict[str, int] = versions(library)
        for info in library.sessions() if library.exists() else ():
            seen[info.name] = info.turns
        for name, possible in self.outcomes.items():
            version = seen.pop(name, None)
            assert version in possible, f"{name}: {version}, not one of {possible}"
            self.outcomes[name] = {version}
        assert not seen, seen
        if library.exists():
            errors = [finding for finding in library.check() if finding.severity == "error"]
            assert errors == [], errors


# what a command says that was killed when its work was done
DONE = {"remove": "no document", "backup": "is there already", "restore": "there already"}


def ingest(trial: Trial) -> Command:
    names = trial.chance.sample(
        [file_name(key) for key in range(KEYS)], trial.chance.randrange(1, 5)
    )
    chosen = {name: trial.chance.randrange(10_000) for name in names}
    files = [trial.write(name, version) for name, version in chosen.items()]
    workers = ["--workers", "2"] if trial.chance.random() < 0.2 else []
    return Command(["ingest", *workers, *files], {name: {v} for name, v in chosen.items()})


def remove(trial: Trial) -> Command:
    if not (present := trial.present()):
        return ingest(trial)
    name = trial.chance.choice(sorted(present))
    words = ["library", "remove", "--yes", str(trial.folder / name)]
    return Command(words, {name: {None}})


def forget(trial: Trial) -> Command:
    command = remove(trial)
    if "remove" in command.words:
        command.words.insert(2, "--forget")
        for talk in (path.name for path in trial.models.values()):  # which may quote it
            command.after[talk] = trial.outcomes[talk] | {None}

        def none_left() -> None:
            kinds = {finding.kind for finding in Library(trial.path).check()}
            assert "forgetting" not in kinds

        command.finished = none_left
    return command


def rebuild(trial: Trial) -> Command:
    return Command([*trial.current_model(other=True), "library", "rebuild"])


def compact(trial: Trial) -> Command:
    return Command(["library", "compact"])


def index(trial: Trial) -> Command:
    return Command(["library", "index"])


def repair(trial: Trial) -> Command:
    return Command(["library", "check", "--repair"])


def tag(trial: Trial) -> Command:
    if not (present := trial.present()):
        return ingest(trial)
    name = trial.chance.choice(sorted(present))
    return Command(["library", "tag", str(trial.folder / name), f"+{trial.chance.random()}"])


def ask(trial: Trial) -> Command:
    if not trial.present():
        return ingest(trial)
    talk = Path(trial.current_model()[1]).name  # with another model it cannot go on
    (turns,) = trial.outcomes[talk]
    words = ["ask", "Which shade has house 3?", "--session", talk, "--threshold", "0"]
    return Command(words, {talk: {(turns or 0) + 1}})


def federate(trial: Trial) -> Command:
    other = trial.other(trial.current_model())
    words = ["library", "federate", str(trial.list), str(other), str(trial.path)]
    return Command(words[: 3 + trial.chance.randrange(1, 3)])


def ask_federation(trial: Trial) -> Command:
    other = trial.other(trial.current_model(other=True))
    if not trial.list.exists() or not trial.present() or other.name in trial.list.read_text():
        return federate(trial)
    return Command(["--library", str(trial.list), "ask", "Which shade?", "--threshold", "0"])


def back_up(trial: Trial) -> Command:
    shutil.rmtree(trial.copy, ignore_errors=True)
    return Command(["library", "backup", str(trial.copy)], finished=copied(trial, trial.copy))


def restore(trial: Trial) -> Command:
    if not trial.copy.exists():
        return back_up(trial)
    place = trial.folder / "restored.library"
    shutil.rmtree(place, ignore_errors=True)
    before = versions(Library(trial.copy))

    def equal() -> None:
        assert versions(Library(place)) == before

    return Command(["--library", str(place), "library", "restore", str(trial.copy)], finished=equal)


def export(trial: Trial) -> Command:
    return Command(["library", "export", str(trial.folder / "all.drtlib")])


def import_(trial: Trial) -> Command:
    archive, place = trial.folder / "all.drtlib", trial.folder / "imported.library"
    if not archive.exists():
        return export(trial)
    shutil.rmtree(place, ignore_errors=True)  # another archive would be refused, rightly
    words = ["--library", str(place), "library", "import", str(archive)]
    return Command(words, finished=lambda: void(versions(Library(place))))


def copied(trial: Trial, place: Path) -> Callable[[], None]:
    """Return what verifies a copy of the library."""

    def equal() -> None:
        assert versions(Library(place)) == trial.present()

    return equal


def void(value: object) -> None:
    """Do nothing with a value that had to be computed."""


COMMANDS: tuple[Callable[[Trial], Command], ...] = (
    *(
        ingest,
        ingest,
        ingest,
        remove,
        forget,
        forget,
        rebuild,
        rebuild,
        compact,
        index,
        repair,
        tag,
    ),
    *(ask, federate, ask_federation, back_up, back_up, restore, export, import_),
)


def alive(pid: int) -> bool:
    """Return whether a process has not ended; one that waits to be reaped has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def opened(pid: int, folder: Path) -> bool:
    """Return whether a process has a file of this folder open."""
    try:
        return any(
            str(folder) in str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()
        )
    except OSError:
        return False
