"""Audits: what somebody sees who holds several releases, ours or anybody's.

Read releases, link them, measure what is left, judge a new one before it is published, report.
"""
