"""Fresh names: values made by decomposing `%y` are `%y.1, %y.2, …`, never reused in a trace; words
of a kernel are `y, y_2, y_3, …`."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Remembers every name ever seen in one compile."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def reserve(self, names: Iterable[str]) -> None:
        self._taken.update(names)

    def fresh(self, base: str) -> str:
        """The next `base.k` that nobody has used."""
        k = self._next.get(base, 1)
        while f"{base}.{k}" in self._taken:
            k += 1
        self._next[base] = k + 1
        name = f"{base}.{k}"
        self._taken.add(name)
        return name


def fresh_word(word: str, taken: set[str]) -> str:
    """`word`, or `word_2`, …: a name not in `taken`, which it joins."""
    chosen, k = word, 1
    while chosen in taken:
        k += 1
        chosen = f"{word}_{k}"
    taken.add(chosen)
    return chosen
