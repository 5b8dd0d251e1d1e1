"""The sample models and what the page and the tests need to know of each.

The models are the `.onnx` files beside this module, written by `generate.py`; `samples.json` is the
catalogue: a model's symbolic dimensions with their default sizes and maxima, and a title and one
sentence on what the model teaches, in each language.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Sample:
    """One sample model.

    `sizes` and `maximum` give each symbolic dimension its default and its largest size, counted in
    elements. `title` and `teaches` map a language ("vi", "en") to text. `force` names the outputs
    that `partition-fallback{force=[...]}` sends to the library for the sample to make its point.
    """

    name: str
    file: str
    title: Mapping[str, str]
    teaches: Mapping[str, str]
    sizes: Mapping[str, int]
    maximum: Mapping[str, int]
    force: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The model's `.onnx` file."""
        return FOLDER / self.file


@cache
def catalogue() -> tuple[Sample, ...]:
    """Every sample, in the order in which the page lists them."""
    rows = json.loads((FOLDER / "samples.json").read_text(encoding="utf-8"))
    return tuple(_sample(row) for row in cast(list[dict[str, object]], rows))


def sample(name: str) -> Sample:
    """The sample called `name`. Raises KeyError, which lists the names, where there is none."""
    for each in catalogue():
        if each.name == name:
            return each
    raise KeyError(f"no sample {name!r}; there are {', '.join(s.name for s in catalogue())}")


def _sample(row: dict[str, object]) -> Sample:
    return Sample(
        name=cast(str, row["name"]),
        file=cast(str, row["file"]),
        title=cast(dict[str, str], row["title"]),
        teaches=cast(dict[str, str], row["teaches"]),
        sizes=cast(dict[str, int], row["sizes"]),
        maximum=cast(dict[str, int], row["maximum"]),
        force=tuple(cast(list[str], row.get("force", []))),
    )
