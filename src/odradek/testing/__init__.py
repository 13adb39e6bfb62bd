"""Simulation for tests: files, time, network and broker in memory; contract tests of the ports."""
