"""Dispatch of requests to handlers, and what handlers are given and may return."""
