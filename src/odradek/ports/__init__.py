"""Protocols of the outside world: clock, files, network, randomness, threads."""
