"""Clients written elsewhere, each behind the same small shape, so that a scenario is written once."""
