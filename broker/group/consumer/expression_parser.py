r"""Parses regular expressions in RE2's syntax.

Groups, names of groups and lazy repetitions make no difference to whether a whole name matches, and are not kept.
Expressions that RE2 refuses are refused: references to groups, looking ahead and behind, possessive and double
repetitions.
"""

from __future__ import annotations

import string
from typing import Final

from purgatorio.late import dataclass

MAX_REPETITIONS: Final = 1_000
"""The largest number in a repetition, as in RE2."""
MAX_DEPTH: Final = 100
"""The deepest nesting of groups."""

ALL: Final = frozenset(map(chr, range(128)))
"""All characters that topics' names may have, and more: ASCII."""
_DIGITS: Final = frozenset(string.digits)
_LETTERS: Final = frozenset(string.ascii_letters)
_WORD: Final = _DIGITS | _LETTERS | {"_"}
_SPACE: Final = frozenset("\t\n\f\r ")
_PUNCTUATION: Final = frozenset(string.punctuation)
_GRAPHIC: Final = _LETTERS | _DIGITS | _PUNCTUATION

_CLASSES: Final = {
    "d": _DIGITS,
    "D": ALL - _DIGITS,
    "w": _WORD,
    "W": ALL - _WORD,
    "s": _SPACE,
    "S": ALL - _SPACE,
}
_NAMED_CLASSES: Final = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "ascii": ALL,
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, [*range(32), 127])),
    "digit": _DIGITS,
    "graph": _GRAPHIC,
    "lower": frozenset(string.ascii_lowercase),
    "print": _GRAPHIC | {" "},
    "punct": _PUNCTUATION,
    "space": _SPACE | {"\v"},
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CATEGORY_NAMES: Final = """
    C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
"""
_CATEGORIES: Final = frozenset(_CATEGORY_NAMES.split())
"""Unicode's categories, by the names that RE2 knows."""
_SCRIPT_NAMES: Final = """
    Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal
    Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic
    Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited
    Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin
    Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham
    Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic
    Samaritan Saurashtra Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil
    Telugu Thaana Thai Tibetan Tifinagh Ugaritic Unknown Vai Yi
"""
_SCRIPTS: Final = frozenset(_SCRIPT_NAMES.split())
"""Unicode's scripts, as the RE2/J that Kafka uses knows them. ASCII has Latin letters; all else in it is Common."""
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ASSERTIONS: Final = {"A": "start", "z": "end", "b": "boundary", "B": "no boundary"}


class ExpressionError(ValueError):
    """A regular expression that is malformed, or asks for too much."""


@dataclass(frozen=True, slots=True)
class Characters:
    """One of these characters."""

    characters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition on a place: start, end, boundary, or no boundary."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other."""

    parts: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Any of these."""

    alternatives: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A part several times; `most` is None without a limit."""

    part: Syntax
    least: int
    most: int | None


Syntax = Characters | Assertion | Sequence | Alternatives | Repeated


def is_word(character: str) -> bool:
    r"""Return whether ``\b`` counts the character as part of a word."""
    return character in _WORD


def parse(text: str) -> Syntax:
    """Parse an expression.

    Raises:
        ExpressionError: it is malformed.
    """
    parser = _Parser(text)
    syntax = parser.alternatives(0)
    if parser.has_more:
        raise ExpressionError("there is a ) too much")
    return syntax


class _Parser:
    """Where the parser is in the text, and the flags that hold there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ignores_case = False
        self._dot_takes_newline = False

    @property
    def has_more(self) -> bool:
        return self._at < len(self._text)

    def alternatives(self, depth: int) -> Syntax:
        """Parse up to the end, or to the ) of a group."""
        if depth > MAX_DEPTH:
            raise ExpressionError("its groups are nested too deeply")
        found = [self._sequence(depth)]
        while self._take("|"):
            found.append(self._sequence(depth))
        return found[0] if len(found) == 1 else Alternatives(tuple(found))

    def _sequence(self, depth: int) -> Syntax:
        parts: list[Syntax] = []
        while self.has_more and self._text[self._at] not in "|)":
            if self._take("\\Q"):
                end = self._text.find("\\E", self._at)
                end = len(self._text) if end < 0 else end
                parts += (self._literal(character) for character in self._text[self._at : end])
                self._at = end + 2
            else:
                parts.append(self._repeated(self._atom(depth)))
        return Sequence(tuple(parts))

    # --- parts ---

    def _atom(self, depth: int) -> Syntax:
        character = self._next()
        if character == "(":
            return self._group(depth)
        if character == "[":
            return Characters(self._both_cases(self._class()))
        if character == "\\":
            return self._escaped()
        if character in "*+?":
            raise ExpressionError(f"there is nothing before a {character} to repeat")
        if character == ".":
            return Characters(ALL if self._dot_takes_newline else ALL - {"\n"})
        if character in "^$":
            return Assertion("start" if character == "^" else "end")
        return self._literal(character)

    def _group(self, depth: int) -> Syntax:
        """Parse a group, after its (; or a change of flags, which matches nothing."""
        flags = self._ignores_case, self._dot_takes_newline
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                name, found, _ = self._text[self._at :].partition(">")
                if not found or not name or not set(name) <= _WORD:
                    raise ExpressionError("a group has a wrong name")
                self._at += len(name) + 1
            elif self._flags():
                return Sequence(())
        syntax = self.alternatives(depth + 1)
        if not self._take(")"):
            raise ExpressionError("a ) is missing")
        self._ignores_case, self._dot_takes_newline = flags
        return syntax

    def _flags(self) -> bool:
        """Parse flags; return whether they hold for the rest of the group around them, rather than for a new one."""
        is_set = True
        while True:
            flag = self._next()
            if flag in ":)":
                return flag == ")"
            if flag == "-" and is_set:
                is_set = False
            elif flag == "i":
                self._ignores_case = is_set
            elif flag == "s":
                self._dot_takes_newline = is_set
            elif flag not in "mU":  # names have no lines, and it does not matter how much a part of a match takes
                raise ExpressionError(f"a group cannot begin with (?{flag}")

    def _escaped(self) -> Syntax:
        character = self._next()
        if character in _CLASSES:
            return Characters(_CLASSES[character])
        if character in "pP":
            return Characters(self._unicode_class(is_negated=character == "P"))
        if character in _ASSERTIONS:
            return Assertion(_ASSERTIONS[character])
        return self._literal(self._escaped_character(character))

    def _escaped_character(self, character: str) -> str:
        """Return the character that an escape stands for."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "x":
            return self._hexadecimal()
        if character == "0" or (character in "1234567" and self._text[self._at : self._at + 1] in set("01234567")):
            digits = character
            while len(digits) < 3 and self._text[self._at : self._at + 1] in set("01234567"):
                digits += self._next()
            return chr(int(digits, 8))
        if character in _PUNCTUATION:
            return character
        raise ExpressionError(f"\\{character} is not known")

    def _hexadecimal(self) -> str:
        if self._take("{"):
            digits, found, _ = self._text[self._at :].partition("}")
            self._at += len(digits) + 1
        else:
            digits = self._text[self._at : self._at + 2]
            found = "}" if len(digits) == 2 else ""
            self._at += 2
        if not found or not digits or not set(digits) <= set(string.hexdigits) or int(digits, 16) > 0x10FFFF:
            raise ExpressionError("a \\x has a wrong number")
        return chr(int(digits, 16))

    # --- classes ---

    def _class(self) -> frozenset[str]:
        """Parse a class of characters, after its [."""
        is_negated = self._take("^")
        found: frozenset[str] = frozenset()
        is_first = True
        while is_first or not self._take("]"):
            found |= self._class_item()
            is_first = False
        return ALL - self._both_cases(found) if is_negated else found

    def _unicode_class(self, *, is_negated: bool) -> frozenset[str]:
        r"""Parse the name of a category or script, after its \p or \P, and return its characters."""
        name, end = self._next(), "}"
        if name == "{":
            name, end, _ = self._text[self._at :].partition("}")
            self._at += len(name) + 1
        bare = name.removeprefix("^") if len(name) > 1 else name
        if bare == "Any":
            found = ALL
        elif bare in _CATEGORIES:
            found = _of_category(bare)
        elif bare in _SCRIPTS:
            found = {"Latin": _LETTERS, "Common": ALL - _LETTERS}.get(bare, frozenset())
        else:
            end = ""
        if not end:
            raise ExpressionError(f"Unicode has no category or script {name!r}")
        found = self._both_cases(found)
        return ALL - found if is_negated != (bare != name) else found

    def _class_item(self) -> frozenset[str]:
        if self._take("[:"):
            name, end, _ = self._text[self._at :].partition(":]")
            is_negated = name.startswith("^")
            known = _NAMED_CLASSES.get(name.lstrip("^"))
            if not end or known is None:
                raise ExpressionError("a class of characters is not known")
            self._at += len(name) + 2
            return ALL - known if is_negated else known
        first = self._next()
        if first == "\\":
            first = self._next()
            if first in _CLASSES:
                return _CLASSES[first]
            if first in "pP":
                return self._unicode_class(is_negated=first == "P")
            first = self._escaped_character(first)
        if self._text[self._at : self._at + 1] != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return frozenset(first)
        self._at += 1
        last = self._next()
        if last == "\\":
            last = self._escaped_character(self._next())
        if last < first:
            raise ExpressionError(f"the range {first}-{last} is empty")
        return frozenset(character for character in ALL if first <= character <= last)

    # --- repetitions ---

    def _repeated(self, part: Syntax) -> Syntax:
        """Parse what follows a part, if it repeats it."""
        is_repeated = False
        while self.has_more:
            counts = self._counts()
            if counts is None:
                break
            if is_repeated:
                raise ExpressionError("a repetition cannot be repeated")
            is_repeated = True
            self._take("?")
            part = Repeated(part, *counts)
        return part

    def _counts(self) -> tuple[int, int | None] | None:
        """Parse how often a part is repeated; None if it is not."""
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        if self._text[self._at] != "{":
            return None
        inner, end, _ = self._text[self._at + 1 :].partition("}")
        least, comma, most = inner.partition(",")
        if not end or not _is_number(least) or not (most == "" or _is_number(most)):
            return None  # RE2 takes this { literally
        self._at += len(inner) + 2
        low = int(least)
        high = low if not comma else int(most) if most else None
        if low > MAX_REPETITIONS or (high is not None and not low <= high <= MAX_REPETITIONS):
            raise ExpressionError(f"{{{inner}}} is no number of repetitions")
        return low, high

    # --- characters ---

    def _literal(self, character: str) -> Characters:
        return Characters(self._both_cases(frozenset(character)))

    def _both_cases(self, characters: frozenset[str]) -> frozenset[str]:
        """Return the characters, with those that differ in case only if that is to be ignored."""
        if not self._ignores_case:
            return characters
        return characters | {each.lower() for each in characters} | {each.upper() for each in characters}

    def _next(self) -> str:
        if not self.has_more:
            raise ExpressionError("it ends too early")
        character = self._text[self._at]
        self._at += 1
        return character

    def _take(self, expected: str) -> bool:
        """Skip this text if it follows."""
        if not self._text.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True


def _of_category(name: str) -> frozenset[str]:
    """Return the characters of a category of Unicode, or of all that begin with a letter."""
    from unicodedata import category  # most programs need none of its tables

    return frozenset(character for character in ALL if category(character).startswith(name))


def _is_number(digits: str) -> bool:
    return digits != "" and set(digits) <= _DIGITS and len(digits) <= 9
