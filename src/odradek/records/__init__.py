"""Record batches: their bytes, their checks, their conversions. Nothing here reads a clock or a file."""
