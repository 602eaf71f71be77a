"""Speed and size, side by side in one run: every number is a ratio, never a time."""
