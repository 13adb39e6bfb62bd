"""Measurements in a Spark session."""
