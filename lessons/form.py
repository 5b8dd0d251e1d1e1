"""The form of a lesson: `lesson.yaml` and its texts, read and checked before anything runs.

    course.yaml                 every lesson in order; its number is its place
    <id>/lesson.yaml            data: model, sizes, views, runs, listings, predictions, …
    <id>/lesson.<language>.md   prose with blocks that name that data, alike in every language

Every key, id, expression and reference is checked here, so that a viewer can trust them. Paths
into the JSON of a measurement are held to the compiler by `figures.py`. docs/lessons.md tells the
form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import yaml

from lessons import arith
from lessons.prose import Directive, Json, Node, ProseProblem, holes, nodes, read
from sample_models import Sample, sample

FOLDER = Path(__file__).resolve().parent
LANGUAGES = ("vi", "en")
ID = re.compile(r"[a-z][a-z0-9_]*")
SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")

VARIANTS = ("op_by_op", "fused")
SUFFIXES = (*VARIANTS, "ratio")
METRICS = (
    "launches", "kernels", "bytes.floor", "bytes.touched", "bytes.simulated", "bytes.measured",
    "latency.p50", "latency.p95", "latency.p99", "bandwidth",
    "error.max_abs", "error.max_rel", "error.norm_rel", "error.share_above", "error.allclose",
)  # fmt: skip
"""Columns of a table of runs, each of a variant; `conditions.sizes` is one of a whole run."""
SIZES_COLUMN = "conditions.sizes"
FILTERS = ("MiB", "ms", "us", "lan", "GBs", "so")
"""How a figure is shown: bytes / 2^20, milliseconds, microseconds, times, gigabytes a second, a
number."""
UNITS = ("MiB", "x")
DOCKS = (
    "text", "rewrite", "decisions", "kernels", "memory", "drift", "biography", "pipeline",
)  # fmt: skip
OVERLAYS = ("bytes", "time", "drift")
LISTINGS = ("ir", "source")
NUMERICS = ("default", "strict")
OPTIONS = {
    "view": set[str](), "run": {"table", "rows", "hide", "until"}, "listing": set[str](),
    "predict": set[str](), "exercise": set[str](), "closing": set[str](),
}  # fmt: skip
"""The blocks and their options."""

Texts = Mapping[str, str]
"""Language -> text."""


class LessonError(Exception):
    """A lesson that is not of the form: the file, the place in it, and what is wrong."""

    def __init__(self, file: str, where: str, text: str) -> None:
        super().__init__(f"{file}: {where}: {text}" if where else f"{file}: {text}")
        self.file, self.where = file, where


# ---- what a lesson holds -------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """How the explorer beside the text stands, and the name of what is seen there.

    `keys` are those that are given, as they are given.
    """

    label: Texts
    keys: Mapping[str, Json]


@dataclass(frozen=True)
class Run:
    """A measurement of a sample; `pipeline` None is the default."""

    measure: str
    sizes: Mapping[str, int]
    label: Texts
    pipeline: str | None = None
    numerics: str = "default"


@dataclass(frozen=True)
class Listing:
    """IR before or after a pass, or the Numba source of one of its kernels."""

    model: str
    at: str
    side: str
    kind: str = "ir"
    kernel: str = ""
    pipeline: str | None = None


@dataclass(frozen=True)
class Near:
    """A known mistake: the value that it gives, as an expression over the sizes, and its hint."""

    value: str
    hint: Texts


@dataclass(frozen=True)
class Prediction:
    """A question for one number. `expr` is over the sizes, `run` over paths; one of them is set.

    Right is what lies within `tolerance` (relative) of the answer, or in `accept` (closed).
    """

    ask: Texts
    unit: str
    expr: str = ""
    run: str = ""
    tolerance: float = 0.0
    accept: tuple[float, float] | None = None
    near: tuple[Near, ...] = ()
    graded: bool = True


@dataclass(frozen=True)
class Band:
    """Between which values a figure lies for the sentences that judge it to hold."""

    value: str
    low: float
    high: float


@dataclass(frozen=True)
class Claim:
    """Exact figures of the text: an expression over paths equals one over the sizes."""

    value: str
    equals: str


@dataclass(frozen=True)
class Exercise:
    """`checks` are kinds of `checks.py` with their numbers, in the order in which they are run."""

    kind: str
    switched: str
    checks: tuple[tuple[str, Mapping[str, float]], ...]


@dataclass(frozen=True)
class ClosingRow:
    """Guess, arithmetic and measurement side by side; '' where there is none."""

    label: Texts
    unit: str
    guess: str = ""
    computed: str = ""
    measured: str = ""


@dataclass(frozen=True)
class Lesson:
    """One lesson, checked. `texts` are blocks by language."""

    id: str
    title: Texts
    minutes: int
    model: str
    sizes: Mapping[str, int]
    needs: tuple[str, ...]
    goals: Mapping[str, tuple[str, ...]]
    views: Mapping[str, View]
    runs: Mapping[str, Run]
    listings: Mapping[str, Listing]
    predictions: Mapping[str, Prediction]
    bands: Mapping[str, Band]
    claims: tuple[Claim, ...]
    exercises: Mapping[str, Exercise]
    closing: tuple[ClosingRow, ...]
    texts: Mapping[str, tuple[Node | Directive, ...]]

    def paths(self) -> Iterator[str]:
        """Every path into a run that the lesson looks up."""
        for text in self.expressions():
            yield from arith.names(arith.parse(text))
        for block in self.blocks("run"):
            for run in block.ids:
                yield from (f"{run}.{path}" for path in column_paths(block.options))

    def expressions(self) -> Iterator[str]:
        """Every expression over paths into runs."""
        yield from (c.value for c in self.claims)
        yield from (b.value for b in self.bands.values())
        yield from (p.run for p in self.predictions.values() if p.run)
        yield from (row.measured for row in self.closing if row.measured)
        for blocks in self.texts.values():
            for block in blocks:
                yield from (str(h["expression"]) for h in holes(block) if h["of"] == "runs")

    def blocks(self, name: str) -> Iterator[Directive]:
        """Every block of a kind; all languages have the same."""
        for block in self.texts[LANGUAGES[0]]:
            if isinstance(block, Directive) and block.name == name:
                yield block


@dataclass(frozen=True)
class Entry:
    """A line of the course."""

    id: str
    number: int
    title: Texts


def column_paths(options: Mapping[str, str]) -> Iterator[str]:
    """The paths of a table's columns, `bytes.fused.floor`, without the run."""
    for column in options["table"].split():
        if column == SIZES_COLUMN:
            yield column
            continue
        metric, which = column_of(column)
        wanted = VARIANTS if which in ("", "ratio") else (which,)
        yield from (variant_path(metric, variant) for variant in wanted)


def column_of(column: str) -> tuple[str, str]:
    """A column as its metric and its suffix ('' without)."""
    metric, _, last = column.rpartition(".")
    return (metric, last) if last in SUFFIXES else (column, "")


def variant_path(metric: str, variant: str) -> str:
    """Where a metric stands in the JSON: `bytes.floor` of `fused` is `bytes.fused.floor`."""
    group, _, rest = metric.partition(".")
    return f"{group}.{variant}.{rest}" if rest else f"{group}.{variant}"


# ---- reading -------------------------------------------------------------------------------------


@cache
def course(folder: Path = FOLDER) -> tuple[Entry, ...]:
    """Every lesson of the course in order, written or not."""
    file = folder / "course.yaml"
    rows = _yaml(file)
    if not isinstance(rows, list):
        raise LessonError(file.name, "", "a course is a list of lessons")
    found: list[Entry] = []
    for number, row in enumerate(cast(list[object], rows)):
        fields = Fields(file.name, str(number), row)
        slug = fields.text("id")
        if not SLUG.fullmatch(slug) or slug in [e.id for e in found]:
            raise fields.wrong("id", f"{slug!r} is no id, or is there already")
        title = {language: fields.text(language) for language in LANGUAGES}
        fields.end()
        found.append(Entry(slug, number, title))
    return tuple(found)


def written(folder: Path = FOLDER) -> tuple[str, ...]:
    """The ids of the lessons that exist, in the order of the course."""
    return tuple(e.id for e in course(folder) if (folder / e.id / "lesson.yaml").is_file())


@cache
def lesson(slug: str, folder: Path = FOLDER) -> Lesson:
    """One lesson. LessonError says what is wrong with it, KeyError that there is none."""
    if slug not in written(folder):
        raise KeyError(slug)
    file = folder / slug / "lesson.yaml"
    fields = Fields(f"{slug}/lesson.yaml", "", _yaml(file))
    found = _Reader(fields, {e.id for e in course(folder)}).lesson(slug)
    texts = {language: _text(folder, found, language) for language in LANGUAGES}
    first, *others = (_skeleton(blocks) for blocks in texts.values())
    for language, other in zip(LANGUAGES[1:], others, strict=True):
        if other != first:
            where = next((a for a, b in zip(first, other, strict=False) if a != b), "the end")
            text = f"has other blocks than lesson.{LANGUAGES[0]}.md, from {where} on"
            raise LessonError(f"{slug}/lesson.{language}.md", "", text)
    return Lesson(**{**found.__dict__, "texts": texts})


class _Loader(yaml.SafeLoader):
    """YAML whose only words for truth are `true` and `false`: `on` and `off` are words here."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, shape) for tag, shape in found if tag != "tag:yaml.org,2002:bool"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("(?:true|false)$"), list("tf"))


def _yaml(file: Path) -> object:
    try:
        return yaml.load(file.read_text(encoding="utf-8"), _Loader)
    except (OSError, yaml.YAMLError) as error:
        raise LessonError(file.name, "", str(error)) from error


class Fields:
    """A mapping of YAML whose keys are taken one by one; `end` refuses what is left."""

    def __init__(self, file: str, where: str, value: object) -> None:
        self.file, self.where = file, where
        if not isinstance(value, dict):
            raise LessonError(file, where, f"is a mapping, not {value!r}")
        self._left: dict[object, object] = dict(cast(dict[object, object], value))

    def wrong(self, key: str, text: str) -> LessonError:
        return LessonError(self.file, ".".join(k for k in (self.where, key) if k), text)

    def has(self, key: str) -> bool:
        return key in self._left

    def take(self, key: str, *default: object) -> object:
        if key in self._left:
            return self._left.pop(key)
        if default:
            return default[0]
        raise self.wrong(key, "is missing")

    def text(self, key: str, *default: str) -> str:
        value = self.take(key, *default)
        if not isinstance(value, str) or (not value.strip() and not default):
            raise self.wrong(key, f"is text, not {value!r}")
        return value

    def number(self, key: str, *default: float) -> float:
        value = self.take(key, *default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, f"is a number, not {value!r}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"is true or false, not {value!r}")
        return value

    def one_of(self, key: str, known: Sequence[str], *default: str) -> str:
        value = self.text(key, *default)
        if value not in known:
            raise self.wrong(key, f"is one of {', '.join(known)}, not {value!r}")
        return value

    def texts(self, key: str) -> Texts:
        inner = self.inner(key)
        found = {language: inner.text(language) for language in LANGUAGES}
        inner.end()
        return found

    def sizes(self, key: str) -> Mapping[str, int]:
        value = self.take(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, f"is a mapping, not {value!r}")
        found: dict[str, int] = {}
        for name, size in cast(dict[object, object], value).items():
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise self.wrong(f"{key}.{name}", f"is a whole number from 1, not {size!r}")
            found[str(name)] = size
        return found

    def inner(self, key: str, *default: object) -> Fields:
        where = ".".join(k for k in (self.where, key) if k)
        return Fields(self.file, where, self.take(key, *default))

    def each(self, key: str) -> Iterator[tuple[str, Fields]]:
        """The entries of a mapping of ids, each to be taken from."""
        value = self.take(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, f"is a mapping, not {value!r}")
        for name, entry in cast(dict[object, object], value).items():
            if not isinstance(name, str) or not ID.fullmatch(name):
                raise self.wrong(key, f"{name!r} is no id: a word with underscores")
            yield name, Fields(self.file, f"{self.where}{key}.{name}", entry)

    def rows(self, key: str) -> Iterator[Fields]:
        value = self.take(key, [])
        if not isinstance(value, list):
            raise self.wrong(key, f"is a list, not {value!r}")
        for k, entry in enumerate(cast(list[object], value)):
            where = ".".join(p for p in (self.where, key, str(k)) if p)
            yield Fields(self.file, where, entry)

    def words(self, key: str) -> tuple[str, ...]:
        value = self.take(key, [])
        if not isinstance(value, list) or not all(isinstance(w, str) for w in value):
            raise self.wrong(key, f"is a list of texts, not {value!r}")
        return tuple(cast(list[str], value))

    def end(self) -> None:
        if self._left:
            raise self.wrong(str(next(iter(self._left))), "is no key that is known here")


class _Reader:
    """Reads the data of one lesson; `course` are the ids that links may name."""

    def __init__(self, fields: Fields, course: set[str]) -> None:
        self._fields = fields
        self._course = course
        self._sizes: Mapping[str, int] = {}
        self._runs: Mapping[str, Run] = {}

    def lesson(self, slug: str) -> Lesson:
        f = self._fields
        if f.text("id") != slug:
            raise f.wrong("id", f"is the name of the folder, {slug!r}")
        title = f.texts("title")
        minutes = int(f.number("minutes"))
        model = self._sample(f, "model").name
        self._sizes = f.sizes("sizes")
        self._fitting(f, "sizes", model, self._sizes)
        needs = f.words("needs")
        for other in needs:
            if other not in self._course:
                raise f.wrong("needs", f"the course has no lesson {other!r}")
        goals = self._goals()
        self._runs = {name: self._run(each, model) for name, each in f.each("runs")}
        predictions = {name: self._prediction(each) for name, each in f.each("predictions")}
        found = Lesson(
            id=slug, title=title, minutes=minutes, model=model, sizes=self._sizes, needs=needs,
            goals=goals,
            views={name: self._view(each, model) for name, each in f.each("views")},
            runs=self._runs,
            listings={name: self._listing(each, model) for name, each in f.each("listings")},
            predictions=predictions,
            bands={name: self._band(each) for name, each in f.each("bands")},
            claims=tuple(self._claim(each) for each in f.rows("claims")),
            exercises={name: self._exercise(each) for name, each in f.each("exercises")},
            closing=tuple(self._closing(each, predictions) for each in f.rows("closing")),
            texts={},
        )  # fmt: skip
        f.end()
        return found

    def _goals(self) -> Mapping[str, tuple[str, ...]]:
        f = self._fields
        if not f.has("goals"):
            return dict.fromkeys(LANGUAGES, ())
        inner = f.inner("goals")
        goals = {language: inner.words(language) for language in LANGUAGES}
        inner.end()
        if len({len(g) for g in goals.values()}) != 1:
            raise f.wrong("goals", "are as many in each language")
        return goals

    def _sample(self, f: Fields, key: str, *default: str) -> Sample:
        name = f.text(key, *default)
        try:
            return sample(name)
        except KeyError as error:
            raise f.wrong(key, str(error)) from error

    def _fitting(self, f: Fields, key: str, model: str, sizes: Mapping[str, int]) -> None:
        """Sizes are of the model's symbols, every one, and not above its largest."""
        maximum = sample(model).maximum
        if set(sizes) != set(maximum):
            raise f.wrong(key, f"{model} has the sizes {', '.join(maximum)}")
        for name, size in sizes.items():
            if size > maximum[name]:
                raise f.wrong(f"{key}.{name}", f"is at most {maximum[name]}, not {size}")

    def _view(self, f: Fields, model: str) -> View:
        label = f.texts("label")
        keys: dict[str, Json] = {}
        shown = self._sample(f, "model", model).name
        keys["model"] = shown
        sizes = f.sizes("sizes") or (self._sizes if shown == model else sample(shown).sizes)
        self._fitting(f, "sizes", shown, sizes)
        keys["sizes"] = dict(sizes)
        for key in ("pipeline", "pass", "select"):
            if f.has(key):
                keys[key] = f.text(key)
        if f.has("event"):
            keys["event"] = int(f.number("event"))
        for key, known in (("before", VARIANTS[:1]), ("after", VARIANTS[1:]), ("dock", DOCKS),
                           ("overlay", OVERLAYS)):  # fmt: skip
            if f.has(key):
                keys[key] = f.one_of(key, known)
        if "before" in keys and "pass" not in keys:
            raise f.wrong("pass", "two versions are seen at a pass")
        f.end()
        return View(label, keys)

    def _run(self, f: Fields, model: str) -> Run:
        measured = self._sample(f, "measure").name
        sizes = f.sizes("sizes") or (self._sizes if measured == model else sample(measured).sizes)
        self._fitting(f, "sizes", measured, sizes)
        found = Run(
            measured, sizes, f.texts("label"), f.text("pipeline", "") or None,
            f.one_of("numerics", NUMERICS, "default"),
        )  # fmt: skip
        f.end()
        return found

    def _listing(self, f: Fields, model: str) -> Listing:
        found = Listing(
            self._sample(f, "model", model).name, f.text("pass"),
            f.one_of("side", ("before", "after")), f.one_of("kind", LISTINGS, "ir"),
            f.text("kernel", ""), f.text("pipeline", "") or None,
        )  # fmt: skip
        if (found.kind == "source") != bool(found.kernel):
            raise f.wrong("kernel", "goes with kind: source")
        f.end()
        return found

    def _over_sizes(self, f: Fields, key: str, text: str) -> float:
        """The value of an expression over the lesson's sizes, which has one."""
        value = self._checked(f, key, text, lambda name: name in self._sizes, "size")
        found = arith.evaluate(value, self._sizes.get)
        if found is None:
            raise f.wrong(key, f"{text!r} has no value")
        return found

    def _over_runs(self, f: Fields, key: str, text: str) -> None:
        known = self._runs
        self._checked(f, key, text, lambda n: n.partition(".")[0] in known and "." in n, "run")

    @staticmethod
    def _checked(
        f: Fields, key: str, text: str, known: Callable[[str], bool], what: str
    ) -> arith.Expression:
        try:
            found = arith.parse(text)
        except arith.ArithmeticProblem as error:
            raise f.wrong(key, str(error)) from error
        for name in arith.names(found):
            if not known(name):
                raise f.wrong(key, f"{name!r} is no {what} of this lesson")
        return found

    def _prediction(self, f: Fields) -> Prediction:
        ask, unit = f.texts("ask"), f.one_of("unit", UNITS)
        answer = f.inner("answer")
        expr, run = answer.text("expr", ""), answer.text("run", "")
        answer.end()
        if bool(expr) == bool(run):
            raise f.wrong("answer", "is either expr or run")
        right: float | None = None
        if expr:
            right = self._over_sizes(f, "answer.expr", expr)
        else:
            self._over_runs(f, "answer.run", run)
        tolerance = f.number("tolerance", 0.0)
        accept: tuple[float, float] | None = None
        if f.has("accept"):
            value = f.take("accept")
            if not isinstance(value, list) or len(cast(list[object], value)) != 2:
                raise f.wrong("accept", "is [low, high]")
            low, high = cast(list[float], value)
            if not low <= high:
                raise f.wrong("accept", "is [low, high]")
            accept = (float(low), float(high))
        near: list[Near] = []
        for each in f.rows("near"):
            text = str(each.take("value"))
            value = self._over_sizes(each, "value", text)
            if right is not None and abs(value - right) <= tolerance * abs(right):
                raise each.wrong("value", "is within the tolerance of the answer")
            near.append(Near(text, each.texts("hint")))
            each.end()
        graded = f.flag("graded", True)
        if graded and run:
            raise f.wrong("graded", "a measured answer is not graded")
        f.end()
        return Prediction(ask, unit, expr, run, tolerance, accept, tuple(near), graded)

    def _band(self, f: Fields) -> Band:
        found = Band(f.text("value"), f.number("low"), f.number("high"))
        self._over_runs(f, "value", found.value)
        if not found.low < found.high:
            raise f.wrong("low", "lies below high")
        f.end()
        return found

    def _claim(self, f: Fields) -> Claim:
        found = Claim(f.text("value"), f.text("equals"))
        self._over_runs(f, "value", found.value)
        self._over_sizes(f, "equals", found.equals)
        f.end()
        return found

    def _exercise(self, f: Fields) -> Exercise:
        kind = f.one_of("kind", ("switch_pass",))
        switched = f.text("pass")
        checks: list[tuple[str, Mapping[str, float]]] = []
        wanted = {
            "launches": ("off", "on"), "floor": ("tolerance", "sizes"),
            "reference": ("rtol", "atol", "inputs"),
        }  # fmt: skip
        for each in f.rows("checks"):
            name = next((n for n in wanted if each.has(n)), "")
            if not name:
                raise each.wrong("", f"a check is one of {', '.join(wanted)}")
            inner = each.inner(name)
            checks.append((name, {key: inner.number(key) for key in wanted[name]}))
            inner.end()
            each.end()
        if not checks:
            raise f.wrong("checks", "an exercise has a check")
        f.end()
        return Exercise(kind, switched, tuple(checks))

    def _closing(self, f: Fields, predictions: Mapping[str, Prediction]) -> ClosingRow:
        found = ClosingRow(
            f.texts("label"), f.one_of("unit", UNITS), f.text("guess", ""), f.text("computed", ""),
            f.text("measured", ""),
        )  # fmt: skip
        if found.guess and found.guess not in predictions:
            raise f.wrong("guess", f"there is no prediction {found.guess!r}")
        if found.computed:
            self._over_sizes(f, "computed", found.computed)
        if found.measured:
            self._over_runs(f, "measured", found.measured)
        f.end()
        return found


# ---- texts ---------------------------------------------------------------------------------------


def _text(folder: Path, data: Lesson, language: str) -> tuple[Node | Directive, ...]:
    """The blocks of one text, each reference held to the data."""
    name = f"{data.id}/lesson.{language}.md"
    known = {e.id for e in course(folder)}
    try:
        blocks = read((folder / name).read_text(encoding="utf-8"))
    except OSError as error:
        raise LessonError(name, "", str(error)) from error
    except ProseProblem as error:
        raise LessonError(name, f"line {error.line}" if error.line else "", str(error)) from error
    for block in blocks:
        if isinstance(block, Directive):
            try:
                _fits(block, data)
            except ValueError as error:
                raise LessonError(name, f"line {block.line}", str(error)) from error
            continue
        for node in nodes(block):
            if node["kind"] == "lesson" and node["slug"] not in known:
                raise LessonError(name, "", f"the course has no lesson {node['slug']!r}")
            if node["kind"] == "hole":
                _fills(name, node, data)
    return tuple(blocks)


def _fills(name: str, hole: Mapping[str, Json], data: Lesson) -> None:
    expression, shown = str(hole["expression"]), hole["filter"]
    where = f"{{{{{expression}}}}}"
    if shown not in FILTERS:
        raise LessonError(name, where, f"a filter is one of {', '.join(FILTERS)}, not {shown!r}")
    try:
        parsed = arith.parse(expression)
    except arith.ArithmeticProblem as error:
        raise LessonError(name, where, str(error)) from error
    for path in arith.names(parsed):
        known = path in data.sizes if hole["of"] == "sizes" else path.partition(".")[0] in data.runs
        if not known:
            raise LessonError(name, where, f"{path!r} is no {str(hole['of'])[:-1]} of this lesson")
    if hole["of"] == "sizes" and arith.evaluate(parsed, data.sizes.get) is None:
        raise LessonError(name, where, "has no value")


def _fits(block: Directive, data: Lesson) -> None:
    """ValueError where a block names what the lesson does not have."""
    if block.name not in OPTIONS:
        raise ValueError(f"a block is one of {', '.join(OPTIONS)}, not {block.name!r}")
    unknown = set(block.options) - OPTIONS[block.name]
    if unknown:
        raise ValueError(f"{block.name} has no option {sorted(unknown)[0]!r}")
    homes: Mapping[str, tuple[Mapping[str, object], bool]] = {
        "view": (data.views, False), "run": (data.runs, True), "listing": (data.listings, False),
        "predict": (data.predictions, True), "exercise": (data.exercises, False),
    }  # fmt: skip
    if block.name == "closing":
        if block.ids:
            raise ValueError("closing names nothing")
        return
    home, several = homes[block.name]
    if not block.ids or (len(block.ids) > 1 and not several):
        raise ValueError(f"{block.name} names {'one or more' if several else 'one'} #id")
    for name in block.ids:
        if name not in home:
            raise ValueError(f"lesson.yaml has no {block.name} {name!r}")
    if block.name == "run":
        _fits_run(block, data)


def _fits_run(block: Directive, data: Lesson) -> None:
    columns = block.options.get("table", "").split()
    if not columns:
        raise ValueError("a run needs a table")
    several = len(block.ids) > 1
    for column in columns:
        metric, which = column_of(column)
        if column == SIZES_COLUMN and several:
            continue
        if metric not in METRICS:
            raise ValueError(f"{column!r} is no column")
        if several != bool(which):
            raise ValueError(f"{column!r}: the rows are {'runs' if several else 'variants'}")
    if set(block.options.get("rows", "").split()) - set(VARIANTS):
        raise ValueError(f"rows are of {', '.join(VARIANTS)}")
    if set(block.options.get("hide", "").split()) - set(columns):
        raise ValueError("a hidden column is one of the table")
    until = block.options.get("until", "")
    if bool(until) != ("hide" in block.options) or (until and until not in data.predictions):
        raise ValueError("hide goes with until, which names a prediction")


def _skeleton(blocks: Sequence[Node | Directive]) -> list[str]:
    """What must be alike in all languages: kinds of blocks, directives, holes, links to lessons."""
    found: list[str] = []
    for block in blocks:
        if isinstance(block, Directive):
            found.append(f"::{block.name} {block.ids} {sorted(block.options.items())}")
            continue
        inner = [
            f"{node.get('expression', '')}|{node.get('filter', '')}{node.get('slug', '')}"
            for node in nodes(block)
            if node["kind"] in ("hole", "lesson")
        ]
        kind = block if isinstance(block, str) else block["kind"]
        found.append(f"{kind} {sorted(inner)}")
    return found
