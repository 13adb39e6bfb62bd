"""The commands of ``odradek pipeline``."""
