"""Pure-Python implementation of the record codec: the specification of the compiled one, and its fallback."""
