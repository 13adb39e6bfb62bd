"""Clients and the record codec: C cases."""
