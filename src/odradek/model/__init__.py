"""Basic types: ids, error codes, enums. Imports no other package of the project."""
