"""One use case per module: load, call the core, store."""
