"""Third-party clients, each behind the same interface, so that a scenario is written once."""
