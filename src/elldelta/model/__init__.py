"""Models: counts of past records, which estimate P(Q, S).

Counting in an engine, the model and its file, merging, and rearranging it for a planner.
"""
