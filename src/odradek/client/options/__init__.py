"""Options of clients: parsing, validation, types for type checkers."""
