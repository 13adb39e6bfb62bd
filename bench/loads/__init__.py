"""Load generators: each runs as a process of its own, and is the same for every broker."""
