"""The same clients for code without an event loop: each runs on a loop in a thread of its own."""
