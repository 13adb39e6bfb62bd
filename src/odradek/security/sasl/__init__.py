"""SASL mechanisms, both sides, as machines: bytes in, bytes or a refusal out. Pure."""
