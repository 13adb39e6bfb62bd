"""Benchmark cases, one module each."""
