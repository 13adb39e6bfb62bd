"""Proofs that the two sides of SCRAM exchange (RFC 5802, section 3)."""

from __future__ import annotations

import hashlib
import hmac

from odradek.security.sasl.scram_credential import HASHES, client_key, server_key
from odradek.security.sasl.scram_messages import ClientFirst, ServerFirst


def auth_message(first: ClientFirst, server: ServerFirst, final_without_proof: str) -> bytes:
    """Return the text of the exchange, which both proofs cover."""
    return f"{first.bare},{server.text},{final_without_proof}".encode()


def client_proof(mechanism: str, salted_password: bytes, message: bytes) -> bytes:
    key = client_key(mechanism, salted_password)
    stored_key = hashlib.new(HASHES[mechanism], key).digest()
    return _xor(key, hmac.digest(stored_key, message, HASHES[mechanism]))


def is_client_proof(mechanism: str, stored_key: bytes, message: bytes, proof: bytes) -> bool:
    """Return whether a proof is that of the client whose key was hashed to ``stored_key``."""
    if len(proof) != len(stored_key):
        return False
    key = _xor(proof, hmac.digest(stored_key, message, HASHES[mechanism]))
    return hmac.compare_digest(hashlib.new(HASHES[mechanism], key).digest(), stored_key)


def server_signature(mechanism: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, HASHES[mechanism])


def is_server_signature(mechanism: str, salted_password: bytes, message: bytes, signature: bytes) -> bool:
    expected = server_signature(mechanism, server_key(mechanism, salted_password), message)
    return hmac.compare_digest(expected, signature)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
