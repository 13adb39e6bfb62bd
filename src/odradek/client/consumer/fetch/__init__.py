"""Fetching records: planning, fetch sessions, buffered responses, errors."""
