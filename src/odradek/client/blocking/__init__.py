"""Blocking clients: each runs the asyncio client on an event loop in its own thread."""
