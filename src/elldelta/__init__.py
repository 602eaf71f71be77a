"""elldelta."""
