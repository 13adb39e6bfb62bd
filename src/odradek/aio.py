"""Clients for asyncio, with the same names and options as in ``odradek``."""

from __future__ import annotations

from odradek.client.admin.client import Admin
from odradek.client.consumer.consumer import Consumer
from odradek.client.producer.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
