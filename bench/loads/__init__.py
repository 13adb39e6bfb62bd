"""Load generators: each runs as a separate process, and is the same for every broker."""
