"""Odradek: Kafka you can pip install."""

from odradek.version import VERSION as __version__

__all__ = ["__version__"]
