"""One adapter per engine: register tables, fetch Arrow, write, translate errors."""
