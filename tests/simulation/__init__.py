"""Simulation of whole clusters: workload, faults, and the invariants that hold throughout."""
