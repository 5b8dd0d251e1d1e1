"""Sizes that a slider offers: powers of two by keyboard, within bounds, multiples of a divisor."""

from tests.ui.test_modules import run


def sizes(script: str) -> object:
    return run(f"""
        const S = await import(`${{EXPLORER}}/explore/sizes.mjs`);
        console.log(JSON.stringify({script}));
    """)


def test_keys_go_to_the_next_power_of_two() -> None:
    up = sizes("[1, 2, 3, 1000, 1024, 4096].map((n) => S.nextPower(n, true, [1, 4096]))")
    down = sizes("[1, 2, 3, 1000, 1025, 4096].map((n) => S.nextPower(n, false, [1, 4096]))")
    assert up == [2, 4, 4, 1024, 2048, 4096]
    assert down == [1, 1, 2, 512, 1024, 2048]


def test_a_size_fits_the_bounds_and_the_divisor() -> None:
    assert sizes("[0, 7, 8.6, 99].map((n) => S.snapped(n, [3, 20], 1))") == [3, 7, 9, 20]
    assert sizes("[1, 9, 10, 99].map((n) => S.snapped(n, [3, 21], 4))") == [4, 8, 8, 20]
    assert sizes("[8, 12, 30].map((n) => S.nextPower(n, true, [3, 30], 6))") == [12, 18, 30]


def test_bounds_come_from_the_symbol_and_the_sample() -> None:
    found = sizes("""[
        S.bounds({low: 0, high: null}, 4096, 64), S.bounds({low: 2, high: 100}, 4096, 64),
        S.bounds({low: 1, high: null}, undefined, 64), S.bounds({low: 1, high: null}, 16, 999),
    ]""")
    assert found == [[1, 4096], [2, 100], [1, 4096], [1, 999]]


def test_pins_are_read_and_printed() -> None:
    assert sizes('S.readPins(" batch = 3 , seq=128,")') == [["batch", 3], ["seq", 128]]
    assert sizes("S.readPins(undefined)") == []
    assert sizes('S.printPins([["batch", 3], ["seq", 128]])') == "batch=3,seq=128"
