"""Pipeline files (TOML): parsing, defaults and validation."""
