"""Text in the reader's language, from the catalogues that the component reads too.

`ui/translations` holds the page's sentences, `compiler.messages` those of passes, decisions and
errors; together they are one catalogue a language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from babel.numbers import format_decimal

from compiler import messages

LANGUAGES = ("vi", "en")
"""The first is the default."""

FOLDER = Path(__file__).resolve().parent / "translations"
PLACEHOLDER = re.compile(r"\{(\w+)\}")


@cache
def sentences(language: str) -> Mapping[str, str]:
    """Message id -> sentence with `{name}` placeholders."""
    text = (FOLDER / f"{language}.json").read_text(encoding="utf-8")
    return {**messages.catalogue(language), **json.loads(text)}


def number(language: str, value: int | float) -> str:
    """A number as the language writes it: `1.234.567,891` in Vietnamese."""
    return format_decimal(value, locale=language)


def sentence(language: str, message: str, **parameters: str | int | float) -> str:
    """The sentence of a message id. KeyError for an unknown id or a missing parameter."""

    def fill(match: re.Match[str]) -> str:
        value = parameters[match[1]]
        return value if isinstance(value, str) else number(language, value)

    return PLACEHOLDER.sub(fill, sentences(language)[message])
