"""Progress, lag, status and metrics of pipeline runs."""
