"""The ``odradek groups`` commands."""
