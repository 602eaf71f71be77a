"""Merging by search, as it was done until classes moved up a tree: a rival in the arena, nothing else.

Failing classes are merged with the partner that costs least loss for what is gained, again and again; then
every box is divided again where that costs less. What is published is certified, and still tells that
something inside a merged class did not pass by itself.
"""

from benchmarks._merging_by_search.search import Hulls, merged_by_search

__all__ = ["Hulls", "merged_by_search"]
