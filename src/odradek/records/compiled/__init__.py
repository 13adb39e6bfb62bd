"""Compiled implementation of the record codec, in Cython; ``pure`` is its specification."""
