"""Keys and values of configuration files, with their places: TOML, INI, YAML and JSON.

Reads the parts of these formats that people write by hand, line by line or token by token: never
fails, and passes over what it does not understand. Knows plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TABLED = frozenset((".toml", ".ini", ".cfg", ".properties"))
INDENTED = frozenset((".yaml", ".yml"))
BRACKETED = frozenset((".json",))
SUFFIXES = TABLED | INDENTED | BRACKETED

MOST_SETTINGS = 10_000
_MOST_LEVELS = 40
_SECTION_LEVELS = 2
_MOST_VALUE_LINES = 400  # of a list in TOML
_LONGEST_LINE = 4_000
_HEADER = re.compile(r"[ \t]*\[{1,2}(?P<name>[^\[\]\n]{1,200})\]{1,2}[ \t]*(?:[#;].*)?")
_KEY = r"(?:\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|[A-Za-z0-9_$@/*<][\w $@/*<>+-]{0,99}?)"
_PAIR = re.compile(
    rf"(?P<indent>[ \t]*)(?P<key>{_KEY}(?:\.{_KEY}){{0,9}})[ \t]*[=:][ \t]*(?P<value>\S.*)?"
)
_YAML_PAIR = re.compile(
    r"(?P<indent> *)(?P<dashes>(?:- +)*)(?P<key>\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'"
    r"|[^\s#:{}\[\],&*!|>'\"%@`-][^:#\n]{0,199}?) *:(?: +(?P<value>\S.*)|[ \t]*)"
)
_YAML_ITEM = re.compile(r"(?P<indent> *)- ")
_YAML_BLOCK = re.compile(r"[|>][-+\d]*|[&!]\S+")
_COMMENT = re.compile(r"(?:^|(?<![ \t])[ \t]+)#.*")
_TOKEN = re.compile(r"\"(?:[^\"\\\n]|\\.)*+\"|[{}\[\],:\"]|[^\s{}\[\],:\"]+")
_PARTS = re.compile(r"\"[^\"]*\"|'[^']*'|[^.\s][^.]*")


@dataclass
class Setting:
    """A value [start, end) of a text, and the keys that lead to it, the outermost first.

    ``line`` is where the line of its key begins. A ``block`` holds settings or items itself; that
    of a header in brackets is empty.
    """

    path: tuple[str, ...]
    line: int
    start: int
    end: int
    block: bool = False


def settings_of(text: str, suffix: str) -> list[Setting]:
    """Return the settings of a text in the format that a file's suffix names, in order."""
    parse = _tabled if suffix in TABLED else _indented if suffix in INDENTED else _bracketed
    settings = []
    for setting in parse(text):
        settings.append(setting)
        if len(settings) >= MOST_SETTINGS:
            break
    return sorted(settings, key=lambda setting: (setting.line, len(setting.path)))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.split("\n"):
        yield start, line.rstrip("\r")
        start += len(line) + 1


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _inner(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the place of a value without the marks that quote it."""
    is_quoted = end - start > 1 and text[start] == text[end - 1] and text[start] in "\"'"
    return (start + 1, end - 1) if is_quoted else (start, end)


def _value_end(line: str, at: int, marks: str) -> int:
    """Return where a value in a line ends: before a comment that is outside quotes."""
    quote = ""
    for n in range(at, len(line)):
        character = line[n]
        if quote:
            quote = "" if character == quote and line[n - 1] != "\\" else quote
        elif character in "\"'" and (n == at or not line[n - 1].isalnum()):
            quote = character
        elif character in marks and (n == at or line[n - 1] in " \t"):
            return max(at, len(line[:n].rstrip()))  # a comment alone is no value
    return len(line.rstrip())


def _tabled(text: str) -> Iterator[Setting]:
    """Yield the settings of TOML and INI: ``[section]``, ``key = value``."""
    section: tuple[str, ...] = ()
    depth, open_setting, num_lines = 0, None, 0
    for start, line in _lines(text):
        if len(line) > _LONGEST_LINE:
            continue
        if open_setting is not None:  # a list that goes on
            end = _value_end(line, 0, "#")
            depth += _opened(line[:end])
            num_lines += 1
            if depth > 0 and num_lines < _MOST_VALUE_LINES:
                continue
            open_setting.end = start + end
            yield open_setting
            open_setting = None
            continue
        if line.lstrip()[:1] in ("#", ";", ""):
            continue
        if header := _HEADER.fullmatch(line):
            section = tuple(_unquoted(part) for part in _PARTS.findall(header["name"]))
            end = start + len(line)
            if section:  # "[ ]" names none
                yield Setting(section, start, end, end, True)
            continue
        match = _PAIR.fullmatch(line)
        if match is None or match["value"] is None:
            continue
        path = (*section, *(_unquoted(part) for part in _PARTS.findall(match["key"])))
        at = match.start("value")
        end = _value_end(line, at, "#;")
        depth, num_lines = _opened(line[at:end]), 0
        is_block = line[at] in "[{"
        first, last = (at, end) if is_block else _inner(line, at, end)
        setting = Setting(path, start, start + first, start + last, is_block)
        if depth > 0:
            open_setting = setting
        else:
            yield setting


def _opened(text: str) -> int:
    """Return how many more brackets a line opens than it closes, outside quotes."""
    bare = re.sub(r"\"(?:[^\"\\]|\\.)*+\"|'[^']*'", "", text)
    return sum(bare.count(mark) for mark in "[{") - sum(bare.count(mark) for mark in "]}")


def _indented(text: str) -> Iterator[Setting]:
    """Yield the settings of YAML, by the depth of their lines."""
    open_settings: list[tuple[int, Setting]] = []  # with the column of their keys
    literal = -1  # column of a key whose text goes on in deeper lines
    last_end = 0
    for start, line in _lines(text):
        bare = line.strip()
        if not bare or len(line) > _LONGEST_LINE:
            continue
        column = len(line) - len(line.lstrip(" "))
        if literal >= 0 and column > literal:
            last_end = start + len(line.rstrip())
            continue
        literal = -1
        if bare.startswith(("#", "---", "...")):
            continue
        dash = _YAML_ITEM.match(line)
        deepest = column if dash else column - 1  # a dash may be as deep as the key of its list
        while open_settings and open_settings[-1][0] > deepest:
            yield _closed(open_settings.pop()[1], last_end)
        match = _YAML_PAIR.fullmatch(line)
        last_end = start + _value_end(line, 0, "#")
        if match is None or len(open_settings) >= _MOST_LEVELS:
            continue
        key_column = match.start("key")
        while open_settings and open_settings[-1][0] >= key_column:
            yield _closed(open_settings.pop()[1], start)
        path = (*(open_settings[-1][1].path if open_settings else ()), _unquoted(match["key"]))
        value = _COMMENT.sub("", match["value"] or "").strip()
        if not value or _YAML_BLOCK.fullmatch(value):
            setting = Setting(path, start, start + match.end(), start + match.end(), True)
            open_settings.append((key_column, setting))
            literal = key_column if value[:1] in ("|", ">") else -1
            continue
        at = match.start("value")
        first, last = _inner(line, at, _value_end(line, at, "#"))
        yield Setting(path, start, start + first, start + last, value[0] in "[{")
    for _, setting in reversed(open_settings):
        yield _closed(setting, last_end)


def _closed(setting: Setting, end: int) -> Setting:
    setting.end = max(setting.end, end)
    return setting


@dataclass
class _Frame:
    """An open bracket of JSON: its path, where it and the line of its key begin."""

    bracket: str
    path: tuple[str, ...]
    line: int
    start: int
    key: str | None = None  # that waits for its value
    key_line: int = 0


def _bracketed(text: str) -> Iterator[Setting]:
    """Yield the settings of JSON."""
    frames: list[_Frame] = []
    behind_colon = False
    line = position = 0  # where the line of a token begins, and how far that was looked for
    for match in _TOKEN.finditer(text):
        token, start, end = match[0], match.start(), match.end()
        line = max(line, text.rfind("\n", position, start) + 1)
        position = start
        frame = frames[-1] if frames else None
        if token == '"':
            return  # which never ends
        if token == ":":
            behind_colon = True
        elif token == ",":
            behind_colon = False
        elif token in "{[":
            if len(frames) >= _MOST_LEVELS:
                return
            frames.append(_frame(frame, token, start, behind_colon))
            behind_colon = False
        elif token in "}]":
            if frames:
                closed = frames.pop()
                if closed.path and not (frames and frames[-1].bracket == "["):
                    yield Setting(closed.path, closed.line, closed.start, end, True)
            behind_colon = False
        elif frame is not None and frame.bracket == "{" and not behind_colon:
            frame.key, frame.key_line = token.strip('"'), line
        elif frame is not None and frame.key is not None and behind_colon:
            first, last = _inner(text, start, end)
            path = (*frame.path, frame.key)
            yield Setting(path, frame.key_line, first, last)


def _frame(above: _Frame | None, bracket: str, start: int, behind_colon: bool) -> _Frame:
    """Return the frame of a bracket: of the key above it, or an item of a list."""
    if above is None:
        return _Frame(bracket, (), 0, start)
    if above.bracket == "{" and behind_colon and above.key is not None:
        return _Frame(bracket, (*above.path, above.key), above.key_line, start)
    return _Frame(bracket, above.path, above.line, start)


def setting_sections(text: str, settings: Sequence[Setting]) -> list[tuple[int, str | None]]:
    """Return where sections of a text begin, in order, with the keys that they are below.

    These are the keys of the first two levels that have several lines; none where there are more
    settings than are known.
    """
    places: list[tuple[int, str | None]] = [(0, None)]
    if len(settings) >= MOST_SETTINGS:
        return places
    for setting in settings:
        is_long = setting.block and (
            setting.start == setting.end or "\n" in text[setting.start : setting.end]
        )
        path = setting.path if is_long else setting.path[:-1]
        section = " > ".join(path[:_SECTION_LEVELS]) or None
        if section == places[-1][1]:
            continue
        if setting.line == places[-1][0]:
            places.pop()
        places.append((setting.line, section))
    return places
