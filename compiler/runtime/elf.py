"""Which symbols does an object file define, and which does it leave open?

An ELF file is a header, sections, and among them a table of symbols: 24 bytes a symbol, whose
section index says where it is defined, and 0 says "elsewhere".

Teaches: an object file is plain data; `struct` alone reads what a linker reads.
Source: System V ABI, chapter 4, and its AMD64 and AArch64 supplements (both little-endian, ELF64).
"""

import struct
from dataclasses import dataclass
from typing import Final

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")

_IDENT: Final = b"\x7fELF\x02\x01"  # magic, 64 bits, little-endian
_RELOCATABLE, _SYMTAB = 1, 2
_UNDEFINED, _COMMON = 0, 0xFFF2
_GLOBAL, _WEAK = 1, 2


class BadObject(ValueError):
    """Bytes that are no relocatable little-endian ELF64 object file."""


@dataclass(frozen=True)
class Symbols:
    """The names of one object file, each sorted.

    `defined` holds what it defines for others for good (global, not weak, not common): two
    objects that define the same name contradict each other. `undefined` it expects from others.
    """

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


def read_symbols(object_file: bytes) -> Symbols:
    """The symbols of a relocatable object file. Raises BadObject."""
    try:
        return _read(object_file)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise BadObject(f"not an object file ({error}): build the kernel again") from error


def _read(data: bytes) -> Symbols:
    ident, kind, *_, offset, _flags, _size, _, _, section_size, count, _ = _HEADER.unpack_from(data)
    if not ident.startswith(_IDENT) or kind != _RELOCATABLE or section_size != _SECTION.size:
        raise ValueError("the header is not that of a relocatable ELF64 file")
    sections: list[tuple[int, ...]] = [
        _SECTION.unpack_from(data, offset + i * _SECTION.size) for i in range(count)
    ]
    defined: set[str] = set()
    undefined: set[str] = set()
    for _, section_kind, _, _, start, size, link, *_ in sections:
        if section_kind != _SYMTAB:
            continue
        names = sections[link][4]
        for name, info, _, index, _, _ in _SYMBOL.iter_unpack(data[start : start + size]):
            binding = info >> 4
            if not name or binding not in (_GLOBAL, _WEAK):
                continue
            text = data[names + name : data.index(0, names + name)].decode()
            if index == _UNDEFINED:
                undefined.add(text)
            elif binding == _GLOBAL and index != _COMMON:
                defined.add(text)
    return Symbols(tuple(sorted(defined)), tuple(sorted(undefined)))
