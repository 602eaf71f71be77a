"""Files: what every file format shares.

Atomic writing, sealed canonical JSON, locks, and how CSV files are written. Nothing in here knows
what a plan or a release is.
"""
