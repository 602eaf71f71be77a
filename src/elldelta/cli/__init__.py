"""The command line: a thin skin that parses, calls `app` and prints."""
