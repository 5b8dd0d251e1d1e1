"""The glossary: what each term means, and where a text uses it.

    forms("biểu diễn trung gian (IR)") == ("biểu diễn trung gian", "IR")
    mark("A kernel and two kernels.", "en") == [(2, 8, "kernel")]

A term has a name in each language, a definition in each, and *words*: how texts write it. Those
are the forms of its name unless `glossary.yaml` says otherwise, as it must where a word of every
day would be taken for the term.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import yaml

FILE = Path(__file__).resolve().parent / "glossary.yaml"
LANGUAGES = ("vi", "en")
SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
KEYS = {"id", *LANGUAGES, "means", "see", "words", "note"}
BRACKET = re.compile(r"(.+?) \(([^()]+)\)")


class GlossaryProblem(ValueError):
    """A glossary that is not of the form; the text names the term."""


@dataclass(frozen=True)
class Term:
    """`name`, `means` and `words` are by language; `see` holds ids, `note` is for writers."""

    id: str
    name: Mapping[str, str]
    means: Mapping[str, str]
    see: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    note: str = ""


def forms(name: str) -> tuple[str, ...]:
    """The ways to say a name: alternatives are parted by ` / `, each may have one in a bracket."""
    found: list[str] = []
    for part in name.split(" / "):
        match = BRACKET.fullmatch(part)
        found += match.groups() if match else (part,)
    return tuple(found)


# ---- reading -------------------------------------------------------------------------------------


@cache
def glossary() -> tuple[Term, ...]:
    """The terms of the course, in the order of the file."""
    return read(FILE.read_text(encoding="utf-8"))


def read(text: str) -> tuple[Term, ...]:
    """The terms of a YAML text. GlossaryProblem where one is not of the form."""
    if not unicodedata.is_normalized("NFC", text):
        raise GlossaryProblem("the text is not in the normal form NFC")
    try:
        rows: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise GlossaryProblem(f"no YAML: {error}") from error
    if not isinstance(rows, list):
        raise GlossaryProblem("a glossary is a list of terms")
    terms = tuple(_term(row, k) for k, row in enumerate(cast(list[object], rows)))
    _check(terms)
    return terms


def _term(row: object, number: int) -> Term:
    where = f"term {number + 1}"
    if not isinstance(row, Mapping):
        raise GlossaryProblem(f"{where}: a term is a mapping")
    data = cast(Mapping[str, object], row)
    where = f"term {number + 1} ({data.get('id')})"
    if unknown := set(data) - KEYS:
        raise GlossaryProblem(f"{where}: unknown key {sorted(map(str, unknown))[0]!r}")
    name = {language: _text(data.get(language), f"{where}: {language}") for language in LANGUAGES}
    means = _texts(data.get("means"), f"{where}: means")
    given = data.get("words", {})
    if not isinstance(given, Mapping) or set(given) - set(LANGUAGES):
        raise GlossaryProblem(f"{where}: words are by language")
    words = {
        language: _list(given[language], f"{where}: words") if language in given else forms(own)
        for language, own in name.items()
    }
    id_ = _text(data.get("id"), f"{where}: id")
    if not SLUG.fullmatch(id_):
        raise GlossaryProblem(f"{where}: an id is small letters, digits and single hyphens")
    note = _text(data["note"], f"{where}: note") if "note" in data else ""
    return Term(id_, name, means, _list(data.get("see", []), f"{where}: see"), words, note)


def _texts(value: object, where: str) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or set(value) != set(LANGUAGES):
        raise GlossaryProblem(f"{where}: one text for each of {', '.join(LANGUAGES)}")
    return {language: _text(value[language], f"{where}.{language}") for language in LANGUAGES}


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value or value != value.strip():
        raise GlossaryProblem(f"{where}: a text, without blanks around it")
    return value


def _list(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise GlossaryProblem(f"{where}: a list")
    return tuple(_text(each, where) for each in cast(list[object], value))


def _check(terms: Sequence[Term]) -> None:
    """Ids, names and words belong to one term each; what is referred to exists."""
    ids = [term.id for term in terms]
    _once(ids, "the id")
    for language in LANGUAGES:
        _once((term.name[language] for term in terms), f"the {language} name")
        _once((w.lower() for term in terms for w in term.words[language]), f"the {language} word")
    for term in terms:
        for other in term.see:
            if other not in ids or other == term.id:
                raise GlossaryProblem(f"{term.id}: see {other!r} is no other term")
        _once(term.see, f"{term.id}: see")


def _once(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GlossaryProblem(f"{what} {name!r} stands twice")
        seen.add(name)


# ---- use -----------------------------------------------------------------------------------------


def public(terms: Iterable[Term]) -> list[Mapping[str, object]]:
    """The terms as a viewer gets them: without notes, with all forms that a search looks at."""
    return [
        {
            "id": term.id,
            "name": dict(term.name),
            "means": dict(term.means),
            "see": list(term.see),
            "forms": list(dict.fromkeys(w for language in LANGUAGES for w in said(term, language))),
        }
        for term in terms
    ]


def said(term: Term, language: str) -> tuple[str, ...]:
    """All that a term is called in a language: the forms of its name, and its words."""
    return (*forms(term.name[language]), *term.words[language])


def mark(text: str, language: str, seen: Collection[str] = ()) -> list[tuple[int, int, str]]:
    """Where a text uses terms: `(start, end, id)`, the first use of each, in order.

    Whole words only, the longest term that begins at a place; in English plurals too. Terms in
    `seen` are left out, so a text in pieces is marked by handing on what the pieces before had.
    Words of capitals alone, such as IR, count only as they are spelled.
    """
    pattern, ids = _pattern(language)
    known = set(seen)
    found: list[tuple[int, int, str]] = []
    for match in pattern.finditer(text):
        term = ids[_key(match[0])]
        if term not in known:
            known.add(term)
            found.append((match.start(), match.end(), term))
    return found


@cache
def _pattern(language: str) -> tuple[re.Pattern[str], Mapping[str, str]]:
    """A pattern of all words, the longest first, and the term of each."""
    ids: dict[str, str] = {}
    written: set[str] = set()
    for term in glossary():
        for word in term.words[language]:
            for form in (word, plural(word)) if language == "en" else (word,):
                ids.setdefault(_key(form), term.id)
                written.add(form)
    longest = sorted(written, key=lambda w: (-len(w), w))
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(_spelled, longest))})(?![\w-])"), ids


def _spelled(word: str) -> str:
    pattern = r"\s+".join(map(re.escape, word.split()))
    return pattern if word.rstrip("s").isupper() else f"(?i:{pattern})"


def _key(word: str) -> str:
    return " ".join(word.lower().split())


def plural(word: str) -> str:
    """The plural of an English word by the rule; words without one get a form that nobody uses."""
    if re.search(r"[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(s|x|ch|sh)$", word) else f"{word}s"
