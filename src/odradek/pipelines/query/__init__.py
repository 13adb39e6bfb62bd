"""The query of a pipeline: source, transform, sink and dead letters as DataFrames."""
