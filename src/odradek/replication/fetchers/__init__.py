"""Fetchers of followers: fetch from the leaders, truncate diverging logs, append."""
