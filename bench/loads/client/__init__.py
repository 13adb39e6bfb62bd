"""Load generators with Python clients."""
