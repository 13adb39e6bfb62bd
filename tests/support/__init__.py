"""Shared test support: broker processes, raw connections, hand-made batches, simulations."""
