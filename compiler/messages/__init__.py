"""Sentences for message ids, in Vietnamese and English: one JSON catalogue a language.

The compiler's records carry ids and parameters; a sentence is made where one is shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

LANGUAGES = ("vi", "en")


@cache
def catalogue(lang: str) -> Mapping[str, str]:
    """All sentences of a language by message id. FileNotFoundError for an unknown language."""
    text = (Path(__file__).parent / f"{lang}.json").read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text)
    return found


class _Known(dict[str, str | int | float]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


def say(message: str, parameters: Mapping[str, str | int | float], lang: str = "en") -> str:
    """The sentence of a message; parameters that are message ids themselves are said too."""
    texts = catalogue(lang)
    template = texts.get(message, message)
    said = {
        k: texts[v].format_map(_Known(parameters)) if isinstance(v, str) and v in texts else v
        for k, v in parameters.items()
    }
    return template.format_map(_Known(said))
