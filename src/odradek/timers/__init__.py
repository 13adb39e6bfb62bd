"""Timing wheel driven by its caller, and the purgatory of delayed operations."""
