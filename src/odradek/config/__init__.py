"""Settings: definitions, static sources, dynamic configuration and reference pages."""
