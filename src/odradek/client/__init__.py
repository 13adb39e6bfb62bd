"""Producer, consumer and admin clients, asyncio and blocking."""
