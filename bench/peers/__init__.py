"""The measured brokers and their common interface."""
