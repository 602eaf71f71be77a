"""Releases: an owner applies a plan to its own records.

Certify, coarsen, write, describe by a manifest; and verify, from outside, what was written.
"""
