"""Deadlines: a timing wheel that is told the time, and the operations that wait on it."""
