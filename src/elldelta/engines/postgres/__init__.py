"""PostgreSQL behind the engine contract: counts, verifies and writes tables where the records are."""
