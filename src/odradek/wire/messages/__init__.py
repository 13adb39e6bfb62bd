"""One module per API: request, response and their nested structures, declared as tables."""
