"""The admin client, one file per group of APIs."""
