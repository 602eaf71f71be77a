"""From P(Q, S) to a partition: one strategy per module."""
