"""The clients for asyncio: the same names and options as in ``odradek``."""
