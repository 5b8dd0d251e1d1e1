"""Texts of pipelines: the page reads and prints them as the compiler does."""

import json
import random

from compiler.errors import PipelineError
from compiler.pipeline import (
    DEFAULT,
    OP_BY_OP,
    for_target,
    parse_pipeline,
    print_pipeline,
    read_items,
)
from tests.ui.test_modules import run

ALPHABET = 'ab-c_+.:,{}[]="\\ \t\u00a0\u2028ếx/'
PIECES = (
    "default", "op-by-op", "fuse", "cse", "-", ",", ",", "{", "}", "by=origin", "force=", "[", "]",
    "a+b", '"a, b"', '"\\""', '"\\\\"', " ", "=", "max_ops=3", "-cse", "…", "forbid=[x+y,z+w]",
)  # fmt: skip


def texts() -> list[str]:
    """Texts that are pipelines, nearly so, and not at all; the same every time."""
    source = random.Random(7)
    found = [
        "", " ", "default", "default,", ",default", "default,-cse", "-default,cse",
        "default,fuse{}",
        "default , fuse { by = origin , max_ops = 8 } , - cse ", 'fuse{force=["a b"+c]}',
        'default,fuse{force=["T 3+T4",é+ü],forbid=[]}', 'default,"fuse"{"by"="origin"}', '"',
        'default,fuse{force=["a\\\\","\\"b"]}', '"-cse"', "fuse{by=a,by=b}", "fuse{by=[a,]}",
        "\x1ccse",
        "a\x85b", "a\ufeffb", "😀{x}", "fuse{", "fuse{by", "fuse{by=", "fuse{by=a", "fuse{by=[a",
        print_pipeline(DEFAULT), print_pipeline(OP_BY_OP),
    ]  # fmt: skip
    found += ["".join(source.choices(ALPHABET, k=source.randrange(1, 14))) for _ in range(400)]
    found += ["".join(source.choices(PIECES, k=source.randrange(1, 9))) for _ in range(800)]
    return found


def ours(text: str) -> object:
    try:
        return [[dropped, name, list(o.items())] for dropped, name, o in read_items(text)]
    except PipelineError as error:
        return str(error)


def edit(script: str) -> object:
    return run(f"""
        const P = await import(`${{EXPLORER}}/explore/pipeline_text.mjs`);
        const flat = ({{ base, items }}) => [
          ...(base ? [[false, base, []]] : []),
          ...items.map((i) => [i.dropped, i.name, [...i.options]])];
        {script}
    """)


def test_reads_what_the_compiler_reads_and_refuses_what_it_refuses() -> None:
    given = texts()
    found = edit(f"""
        console.log(JSON.stringify({json.dumps(given)}.map((text) => {{
          try {{ return flat(P.read(text)); }} catch (error) {{ return error.message; }}
        }})));
    """)
    expected = json.loads(json.dumps([ours(text) for text in given]))
    assert isinstance(found, list)
    # Options of the name of a base (`default{...}`) mean nothing to either.
    for text, mine, theirs in zip(given, found, expected, strict=True):
        if isinstance(theirs, list) and theirs and theirs[0][1] in ("default", "op-by-op"):
            if not theirs[0][0]:
                theirs[0][2] = []
        if isinstance(theirs, str):
            assert isinstance(mine, str), text
            assert mine.split(":")[0] == theirs.split(":")[0], text
        else:
            assert mine == theirs, text
    assert sum(isinstance(e, list) for e in expected) > 100
    assert sum(isinstance(e, str) for e in expected) > 100


def test_what_is_printed_reads_the_same() -> None:
    good = [t for t in texts() if isinstance(ours(t), list)]
    printed = edit(f"""
        console.log(JSON.stringify({json.dumps(good)}.map((text) => P.print(P.read(text)))));
    """)
    assert isinstance(printed, list)
    for text, made in zip(good, printed, strict=True):
        theirs, mine = read_items(text), read_items(made)
        if theirs and theirs[0][1] in ("default", "op-by-op") and not theirs[0][0]:
            theirs[0] = (False, theirs[0][1], {})
        assert mine == theirs, text
    full = print_pipeline(DEFAULT)
    assert full in printed


def test_edits_mean_the_same_to_the_compiler() -> None:
    found = edit("""
        const text = (pipeline) => P.print(pipeline);
        const base = P.read("default,cse{},fuse{max_ops=8},-dce");
        const force = (pipeline, pair, is) => P.withEntry(pipeline, "fuse", "force", pair, is);
        const forced = force(force(base, "T3+T4"), "a b+c");
        const full = P.read("import,cse,dce,cse,fuse");
        console.log(JSON.stringify({
          forced: text(forced),
          list: P.listOf(forced, "fuse", "force"),
          twice: text(force(forced, "T3+T4")),
          freed: text(force(force(forced, "a b+c", false), "T3+T4", false)),
          added: text(P.withOption(P.read("default"), "fuse", "forbid", ["a+b"])),
          gone: text(P.withOption(P.read("default,fuse{by=origin}"), "fuse", "by", undefined)),
          off: [P.isOff(base, "dce"), P.isOff(base, "cse"), P.isOff(full, "decompose")],
          on: text(P.switchOn(base, "dce")),
          without: text(P.switchOff(P.read("default,cse{x=1}"), "cse")),
          fuse: text(P.switchOff(base, "fuse")),
          back: text(P.switchOn(P.switchOff(base, "fuse"), "fuse")),
          fullOff: text(P.switchOff(full, "cse")),
          removed: text(P.removeAt(full, 1)), repeated: text(P.repeatAt(full, 2)),
          forward: text(P.moveTo(full, 1, 3)), backward: text(P.moveTo(full, 3, 1)),
          inserted: text(P.insertAt(full, 4, "decompose")),
          unchanged: text(base),
        }));
    """)
    assert found == {
        "forced": 'default,fuse{max_ops=8,force=[T3+T4,"a b+c"]},-dce',
        "list": ["T3+T4", "a b+c"],
        "twice": 'default,fuse{max_ops=8,force=["a b+c",T3+T4]},-dce',
        "freed": "default,fuse{max_ops=8},-dce",
        "added": "default,fuse{forbid=[a+b]}",
        "gone": "default",
        "off": [True, False, True],
        "on": "default,cse,fuse{max_ops=8}",
        "without": "default,-cse",
        "fuse": "default,fuse{max_ops=8,by=origin},-dce",
        "back": "default,fuse{max_ops=8},-dce",
        "fullOff": "import,dce,fuse",
        "removed": "import,dce,cse,fuse",
        "repeated": "import,cse,dce,dce,cse,fuse",
        "forward": "import,dce,cse,cse,fuse",
        "backward": "import,cse,cse,dce,fuse",
        "inserted": "import,cse,dce,cse,decompose,fuse",
        "unchanged": "default,cse,fuse{max_ops=8},-dce",
    }
    assert isinstance(found, dict)
    for key in ("forced", "added", "gone", "on", "without", "fuse"):
        parse_pipeline(str(found[key]))


def test_a_default_in_full_is_asked_for_by_its_short_text() -> None:
    full, broken = print_pipeline(DEFAULT), "default,partition-fallback{force=[x+y]}"
    gpu = print_pipeline(for_target(DEFAULT, "cuda"))
    asked = [
        ("a", "cpu", full), ("a", "cpu", f" {full} "), ("a", "cpu", "default"),
        ("a", "cpu", f"{full},build"), ("a", "cpu", "default,-cse"), ("a", "cpu", "fuse{"),
        ("b", "cpu", full), ("b", "cpu", print_pipeline(parse_pipeline(broken))),
        ("a", "cuda", gpu), ("a", "cuda", full), ("a", "cuda:ptx", gpu),
    ]  # fmt: skip
    found = run(f"""
        const {{ settled }} = await import(`${{EXPLORER}}/explore/usual.mjs`);
        const shell = {{
          samples: [{{ name: "a", force: [] }}, {{ name: "b", force: ["x+y"] }}],
          orders: {json.dumps({"cpu": full, "cuda": gpu})},
        }};
        console.log(JSON.stringify({json.dumps(asked)}.map(([model, target, pipeline]) =>
          settled(shell, {{ model, target, pipeline }}))));
    """)
    assert found == [
        "default", "default", "default", f"{full},build", "default,-cse", "fuse{", full, broken,
        "default", full, gpu,
    ]  # fmt: skip
