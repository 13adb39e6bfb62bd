"""Settings: declared once in tables, read from files, variables and arguments, described and altered live."""
