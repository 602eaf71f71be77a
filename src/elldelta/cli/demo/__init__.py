"""The whole story on generated hospitals, as `elldelta demo` tells it."""
