"""Tables of the documentation, for the tests that hold them against the code."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs"


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def table(text: str, head: str) -> list[list[str]]:
    """The rows of the table whose first column has this head, cell by cell."""
    lines = iter(text.splitlines())
    assert any(line.startswith(f"| {head} |") for line in lines), f"no table of {head}"
    next(lines)
    rows: list[list[str]] = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def words(cell: str) -> list[str]:
    """What stands between backquotes."""
    return re.findall(r"`([^`]+)`", cell)
