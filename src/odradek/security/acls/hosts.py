"""Hosts in ACLs: IP addresses as text, compared as they are."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address


def host_text(address: str) -> str:
    """Return the address of a client as Kafka's brokers write it: ACLs for IPv6 hosts must have this form.

    It has all eight groups, without leading zeros: ``0:0:0:0:0:0:0:1``, not ``::1``. An IPv4 client of an
    IPv6 socket has its IPv4 address.
    """
    if ":" not in address:
        return address
    number, percent, zone = address.partition("%")
    try:
        parsed = IPv6Address(number)
    except AddressValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = (f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
    return f"{':'.join(groups)}{percent}{zone}"
