"""Golden texts of passes: `tests/golden/PASS.txt` holds cases of text before and text after.

    ==== title
    module …            before
    ----
    module …            after

Run `python -m tests.passes.goldens` to write the `after` parts anew, and read the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compiler.ir.edits import fold
from compiler.ir.parser import parse_module
from compiler.ir.printer import print_module
from compiler.ir.verify import verify
from compiler.passes.base import Context, Pass, Result
from compiler.pipeline import parse_pass

FOLDER = Path(__file__).parent.parent / "golden"


@dataclass(frozen=True)
class Case:
    """One case: the pass as pipeline text, and the module's text before and after."""

    file: str
    title: str
    text: str
    before: str
    after: str


def cases() -> list[Case]:
    """Every case; the title is `PASS{options}: what it shows`."""
    found: list[Case] = []
    for path in sorted(FOLDER.glob("*.txt")):
        for block in path.read_text(encoding="utf-8").split("==== ")[1:]:
            title, _, rest = block.partition("\n")
            before, _, after = rest.partition("\n----\n")
            text = title.partition(": ")[0]
            found.append(Case(path.name, title, text, before.strip(), after.strip()))
    return found


def run_case(case: Case) -> tuple[str, Result, Pass]:
    """The text after; checks on the way that both modules verify and that the events replay."""
    before = parse_module(case.before)
    verify(before)
    p = parse_pass(case.text)
    result = p.run(before, Context(target="cuda:ptx" if p.name == "map-gpu" else "cpu"))
    verify(result.module)
    assert fold(before, result.events) == result.module
    return print_module(result.module).strip(), result, p


def rewrite() -> None:
    files: dict[str, list[str]] = {}
    for case in cases():
        after, _, _ = run_case(case)
        before = print_module(parse_module(case.before)).strip()
        text = f"==== {case.title}\n{before}\n----\n{after}\n"
        files.setdefault(case.file, []).append(text)
    for name, blocks in files.items():
        (FOLDER / name).write_text("\n".join(blocks), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
