"""The clients: producer, consumer and admin, for asyncio and for code without an event loop."""
