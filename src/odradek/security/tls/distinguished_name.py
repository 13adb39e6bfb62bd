"""The subject of a certificate as text, as Java gives it to Kafka (X500Principal.getName, RFC 2253).

The last attribute of the certificate comes first. Attributes whose type has no keyword in RFC 2253 are
written with their object identifier and the hexadecimal encoding of the value.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from odradek.security.tls import der

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, PrintableString, TeletexString, IA5String, GeneralString, BMPString; not UniversalString.
_STRING_TAGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_EXPLICIT_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_SUBJECT_ALT_NAME: Final = "2.5.29.17"
_SUBJECT_INDEX: Final = 4
"""Position in the signed part of a certificate, after serial number, algorithm, issuer and validity."""


class CertificateNames(NamedTuple):
    """The names in a certificate; ``alternatives`` are encoded GeneralNames."""

    subject: str
    alternatives: frozenset[bytes]


def certificate_names(certificate: bytes) -> CertificateNames:
    """Return the names in a certificate in DER; raises ``ValueError`` if it is malformed."""
    signed = _signed_fields(certificate)
    return CertificateNames(_name_text(signed[_SUBJECT_INDEX]), _alternative_names(signed))


def subject_name(certificate: bytes) -> str:
    """Return the subject of a certificate in DER; raises ``ValueError`` if it is malformed."""
    return _name_text(_signed_fields(certificate)[_SUBJECT_INDEX])


def name_text(name: bytes) -> str:
    """Return a Name in DER as text; raises ``ValueError`` if it is malformed."""
    return _name_text(der.parse(name))


def _signed_fields(certificate: bytes) -> list[der.DerValue]:
    outer = der.parse(certificate).children(der.SEQUENCE)
    fields = outer[0].children(der.SEQUENCE) if outer else []
    if fields and fields[0].tag == _EXPLICIT_VERSION:
        del fields[0]
    if len(fields) <= _SUBJECT_INDEX:
        raise der.DerError("certificate has no subject")
    return fields


def _name_text(name: der.DerValue) -> str:
    names = [
        "+".join(_attribute_text(attribute) for attribute in attributes.children(der.SET))
        for attributes in name.children(der.SEQUENCE)
    ]
    return ",".join(reversed(names))


def _attribute_text(attribute: der.DerValue) -> str:
    fields = attribute.children(der.SEQUENCE)
    if len(fields) != 2:
        raise der.DerError(f"attribute must have 2 fields, got {len(fields)}")
    oid = der.dotted_oid(fields[0])
    value = fields[1]
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _STRING_TAGS:
        return f"{keyword or oid}=#{value.encoded.hex()}"
    return f"{keyword}={_escape(_java_text(value.content))}"


def _java_text(content: bytes) -> str:
    """Decode as Java does: as UTF-8 whatever the type of the string is, with one replacement character for an
    encoded surrogate."""
    return _SURROGATE.sub(b"\xef\xbf\xbd", content).decode("utf-8", "replace")


def _escape(text: str) -> str:
    escaped = "".join(
        "\\" + character if character in _ESCAPED else "\\00" if character == "\0" else character
        for character in text
    )
    inner = escaped.strip(" \r")
    if not inner:
        return "".join("\\" + character for character in escaped)
    start = escaped.index(inner)
    before, after = escaped[:start], escaped[start + len(inner) :]
    return (
        "".join("\\" + character for character in before)
        + inner
        + "".join("\\" + character for character in after)
    )


def _alternative_names(signed: list[der.DerValue]) -> frozenset[bytes]:
    for field in signed[_SUBJECT_INDEX + 1 :]:
        if field.tag != _EXTENSIONS:
            continue
        for extensions in field.children():
            for extension in extensions.children(der.SEQUENCE):
                parts = extension.children(der.SEQUENCE)
                if parts and der.dotted_oid(parts[0]) == _SUBJECT_ALT_NAME:
                    names = der.parse(parts[-1].content)
                    return frozenset(name.encoded for name in names.children(der.SEQUENCE))
    return frozenset()
