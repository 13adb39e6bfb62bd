"""The admin client, one file per area."""
