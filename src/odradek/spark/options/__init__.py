"""Options of the topic source and sink, parsed and validated."""
