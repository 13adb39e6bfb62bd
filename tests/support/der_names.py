"""Names of certificates in DER, also such as no library would write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

UTF8: Final = 0x0C
PRINTABLE: Final = 0x13
TELETEX: Final = 0x14
IA5: Final = 0x16
UNIVERSAL: Final = 0x1C
BMP: Final = 0x1E

OIDS: Final = {
    "CN": "2.5.4.3",
    "C": "2.5.4.6",
    "L": "2.5.4.7",
    "ST": "2.5.4.8",
    "O": "2.5.4.10",
    "OU": "2.5.4.11",
    "STREET": "2.5.4.9",
    "DC": "0.9.2342.19200300.100.1.25",
    "UID": "0.9.2342.19200300.100.1.1",
    "EMAILADDRESS": "1.2.840.113549.1.9.1",
    "SERIALNUMBER": "2.5.4.5",
    "T": "2.5.4.12",
}

Attribute = tuple[str, int, bytes]


def encode_name(*sets: Sequence[Attribute]) -> bytes:
    """Encode a Name; each argument is one set of attributes (type or OID, tag, contents)."""
    return encode(
        0x30,
        b"".join(
            encode(
                0x31,
                b"".join(
                    encode(0x30, _oid(OIDS.get(kind, kind)) + encode(tag, value))
                    for kind, tag, value in attributes
                ),
            )
            for attributes in sets
        ),
    )


def encode(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(octets)]) + octets + content


def _oid(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    content = bytearray()
    for arc in [first * 40 + second, *rest]:
        octets = [arc & 0x7F]
        while arc := arc >> 7:
            octets.append(arc & 0x7F | 0x80)
        content += bytes(reversed(octets))
    return encode(0x06, bytes(content))
