"""Faults of files, disks and processes under one broker."""
