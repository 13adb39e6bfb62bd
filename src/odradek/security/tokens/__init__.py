"""Delegation tokens: their model, their format in the store, and their lifetimes. Pure."""
