"""Who may import whom: the arrows of docs/architecture.md, walked over the code itself."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

MAY = {
    "ir": set[str](),
    "errors": {"ir"},
    "messages": set[str](),
    "ops": {"ir"},
    "fusion": {"ir"},
    "frontend": {"ir", "ops", "errors"},
    "lower": {"ir", "fusion"},
    "runtime": {"ir", "errors"},
    "pipes": set(),
    "codegen": {"ir", "runtime", "pipes"},
    "passes": {"ir", "ops", "frontend", "fusion", "lower", "codegen", "runtime", "errors"},
    "trace": {"ir", "fusion"},
    "pipeline": {"ir", "passes", "trace", "errors"},
    "key": {"ir"},
    "driver": {
        "ir", "frontend", "passes", "pipeline", "trace", "key", "runtime", "errors",
    },
    "backend": {"ir", "driver", "errors"},
    "measure": {
        "ir", "frontend", "runtime", "codegen", "driver", "pipeline", "trace", "errors", "passes",
        "fusion", "messages",
    },
    "history": {"ir", "trace"},
    "listings": {"ir", "history", "measure", "trace"},
    "worker": {
        "driver", "measure", "trace", "history", "listings", "errors", "messages", "ir", "pipeline",
        "passes", "fusion", "pipes",
    },
    "__main__": {
        "driver", "measure", "trace", "errors", "messages", "worker", "ir", "passes", "runtime",
    },
    "__init__": {"driver", "measure", "errors", "frontend", "runtime", "ir"},
}  # fmt: skip
"""room -> the rooms it may know, beside itself."""

LOAD_PATH = {"compiler", "compiler.ir", "compiler.runtime"}
ALLOWED_IR = {"binding", "dims", "graph", "plan", "types", "machine"}


def room(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "compiler" and len(parts) > 1 else None


def imports(path: Path) -> set[str]:
    """Absolute names of all that a file imports, wherever in the file."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found.add(module)
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def test_arrows() -> None:
    wrong: list[str] = []
    seen: set[str] = set()
    for path in sorted((ROOT / "compiler").rglob("*.py")):
        parts = path.relative_to(ROOT / "compiler").with_suffix("").parts
        mine = parts[0]
        if len(parts) == 1 and mine == "__init__":
            continue
        seen.add(mine)
        for name in imports(path):
            other = room(name)
            known = other in MAY or (other is not None and (ROOT / "compiler" / other).is_dir())
            if other is not None and known and other != mine and other not in MAY[mine]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
            if name.split(".")[0] in ("ui", "lessons", "streamlit"):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, "\n".join(wrong)
    assert seen <= set(MAY)


def test_loading_imports_little() -> None:
    """The load path of an engine: NumPy, llvmlite, the standard library, runtime, parts of ir."""
    code = "import sys, compiler.runtime.engine; print('\\n'.join(sorted(sys.modules)))"
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numba", "onnx", "google", "streamlit"} & {m.split(".")[0] for m in out}
    rooms = {m for m in out if m.startswith("compiler.") and m.count(".") == 1}
    assert rooms <= {"compiler.ir", "compiler.runtime", "compiler.errors"}
    inner = {m.split(".")[2] for m in out if m.startswith("compiler.ir.")}
    assert inner <= ALLOWED_IR, inner
