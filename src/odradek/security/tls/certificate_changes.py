"""Checks when the certificate of a running listener is replaced: ``ssl.allow.dn.changes`` and
``ssl.allow.san.changes``."""

from __future__ import annotations

from odradek.security.tls.distinguished_name import CertificateNames


def certificate_change_problems(
    old: CertificateNames | None, new: CertificateNames | None, *, allow_dn: bool, allow_san: bool
) -> list[str]:
    """Return one line for each change of the names in a listener's certificate that is not allowed."""
    if old is None or new is None:
        if old is new:
            return []
        verb = "removed from" if new is None else "added to"
        return [f"a key store cannot be {verb} a listener while the broker runs"]
    problems = []
    if not allow_dn and _canonical(old.subject) != _canonical(new.subject):
        problems.append(
            f"the distinguished name of the certificate must not change (ssl.allow.dn.changes=false): it was "
            f"{old.subject}, got {new.subject}"
        )
    if not allow_san and not old.alternatives <= new.alternatives:
        problems.append(
            "the certificate must keep all subject alternative names (ssl.allow.san.changes=false): "
            f"{len(old.alternatives - new.alternatives)} of {len(old.alternatives)} are missing"
        )
    return problems


def _canonical(name: str) -> str:
    """Names that differ only in case or white space are equal, as in Java."""
    return " ".join(name.split()).casefold()
