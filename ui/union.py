"""All that a stretch of a compile's history shows: one union, for one layout.

    union = every node and every edge of every state, from before the stretch to its end

A *stretch* is a run of consecutive passes at one level. A state is a list of chunks, an event a
few splices of it (docs/json.md), so the union grows event by event: only what an event adds can
bring a new edge, and nothing is computed twice. New nodes stand beside what they replace, so the
union has an order that is that of the program at every moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SHOWN = 30
"""Characters of a label that a box shows."""

Document = Mapping[str, Any]
Node = Mapping[str, Any]
Edge = tuple[str, str]
"""Keys of the node that makes a value and of one that reads it."""


@dataclass(frozen=True)
class Item:
    """A node of a union: how it is called, and the lines of its box in every state it has."""

    kind: str
    texts: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class State:
    """The graph before or after a pass."""

    keys: frozenset[str]
    edges: tuple[Edge, ...]


@dataclass(frozen=True)
class Union:
    """`items` in program order; `fused` names the last group that a node stood in; `states` are
    called `<pass>.before` and `<pass>.after`."""

    items: Mapping[str, Item]
    edges: tuple[Edge, ...]
    fused: Mapping[str, str]
    states: Mapping[str, State]


def stretch(document: Document, at: int) -> tuple[int, int]:
    """The first and the last pass of the run of equal levels around pass `at`. IndexError."""
    passes = document["passes"]
    if not 0 <= at < len(passes):
        raise IndexError(f"there is no pass {at}")
    first = last = at
    while first and passes[first - 1]["level"] == passes[at]["level"]:
        first -= 1
    while last + 1 < len(passes) and passes[last + 1]["level"] == passes[at]["level"]:
        last += 1
    return first, last


def union_of(document: Document, at: int) -> Union:
    """The union of the stretch that holds pass `at`."""
    first, last = stretch(document, at)
    state: list[int] = list(document["first"])
    for done in document["passes"][:first]:
        for step in done["steps"]:
            for start, removed, added in step:
                state[start : start + removed] = added
    walk = _Walk(document["chunks"], state)
    states: dict[str, State] = {}
    now = walk.state()
    for p in range(first, last + 1):
        states[f"{p}.before"] = now
        steps = [step for step in document["passes"][p]["steps"] if step]
        for step in steps:
            walk.apply(step)
        if steps:
            now = walk.state()
        states[f"{p}.after"] = now
    items = {key: Item(walk.kinds[key], tuple(walk.texts[key])) for key in walk.order()}
    return Union(items, tuple(walk.edges), walk.fused, states)


class _Walk:
    """The current state, indexed, and all that was ever seen."""

    def __init__(self, chunks: Sequence[Document], state: Sequence[int]) -> None:
        self.kinds: dict[str, str] = {}
        self.texts: dict[str, dict[tuple[str, ...], None]] = {}
        self.edges: dict[Edge, None] = {}
        self.fused: dict[str, str] = {}
        self._chunks = chunks
        self._state: list[int] = []
        self._nodes: dict[str, Node] = {}
        self._producer: dict[str, str] = {}
        self._readers: dict[str, dict[str, None]] = {}
        self._constants: dict[str, str] = {}
        self._after: dict[str | None, str | None] = {None: None}  # a ring in program order
        self.apply([[0, 0, state]])

    def apply(self, step: Sequence[Any]) -> None:
        """Splices of one event."""
        removed: list[int] = []
        added: list[int] = []
        for at, count, new in step:
            removed += self._state[at : at + count]
            self._state[at : at + count] = new
            added += new
            self._link(at, new)
        for number in removed:
            self._drop(self._chunks[number])
        for number in added:
            self._put(self._chunks[number])
        for number in added:
            self._connect(self._chunks[number])

    def _link(self, at: int, new: Sequence[int]) -> None:
        """Give the nodes of new chunks their place: after the last node that stands before them."""
        last: str | None = None
        while at and last is None:
            at -= 1
            nodes = self._chunks[self._state[at]].get("nodes", ())
            last = next((n["key"] for n in reversed(nodes) if n["kind"] != "output"), None)
        for number in new:
            for node in self._chunks[number].get("nodes", ()):
                key = node["key"]
                if key not in self.kinds:
                    self.kinds[key] = node["kind"]
                    self.texts[key] = {}
                    self._after[key] = self._after[last]
                    self._after[last] = key
                if node["kind"] != "output":
                    last = key

    def _drop(self, chunk: Document) -> None:
        for node in chunk.get("nodes", ()):
            self._nodes.pop(node["key"], None)
            for value in node.get("outs", ()):
                self._producer.pop(value["name"], None)
            for name in node.get("ins", ()):
                self._readers[name].pop(node["key"], None)
        for name in chunk.get("constants", ()):
            self._constants.pop(name, None)

    def _put(self, chunk: Document) -> None:
        for node in chunk.get("nodes", ()):
            self._nodes[node["key"]] = node
            if node.get("group"):
                self.fused[node["key"]] = node["group"]
            for value in node.get("outs", ()):
                self._producer[value["name"]] = node["key"]
            for name in node.get("ins", ()):
                self._readers.setdefault(name, {})[node["key"]] = None
        self._constants.update(chunk.get("constants", {}))

    def _connect(self, chunk: Document) -> None:
        for node in chunk.get("nodes", ()):
            key = node["key"]
            self._label(node)
            for value in node.get("outs", ()):
                for reader in self._readers.get(value["name"], ()):
                    self.edges[key, reader] = None
            for name in node.get("ins", ()):
                if name in self._producer:
                    self.edges[self._producer[name], key] = None
        for name in chunk.get("constants", ()):
            for reader in self._readers.get(name, ()):
                self._label(self._nodes[reader])

    def _label(self, node: Node) -> None:
        self.texts[node["key"]][label(node, self._constants)] = None

    def order(self) -> Iterator[str]:
        """All keys ever seen, in program order."""
        key = self._after[None]
        while key is not None:
            yield key
            key = self._after[key]

    def state(self) -> State:
        """The current graph."""
        edges = {
            (self._producer[name], key): None
            for key, node in self._nodes.items()
            for name in node.get("ins", ())
            if name in self._producer
        }
        return State(frozenset(self._nodes), tuple(edges))


# ---- labels --------------------------------------------------------------------------------------


def shorten(text: str, shown: int = SHOWN) -> str:
    """At most so many characters, the middle left out."""
    if len(text) <= shown:
        return text
    half = (shown - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def label(node: Node, constants: Mapping[str, str]) -> tuple[str, ...]:
    """The lines of a node's box: its kind with the constants that it reads; its name and its type,
    on one line where it holds both: what is low can be shown large.

    `label` of ui/explorer/explore/history.mjs says the same; tests hold both together.
    """
    kind = str(node["kind"])
    if node.get("kernel"):
        head = f"{kind} @{node['kernel']}"
    elif kind == "output":
        head = f"output {node['label']}"
    else:
        head = kind.removeprefix("onnx.")
    read = [constants[name] for name in node.get("ins", ()) if name in constants]
    name = "" if kind == "output" else str(node["key"])
    both = [text for text in (name, str(node.get("type", ""))) if text]
    joined = ": ".join(both)
    texts = (" ".join((head, *read)), *([joined] if len(joined) <= SHOWN else both))
    return tuple(shorten(text) for text in dict.fromkeys(texts) if text)
