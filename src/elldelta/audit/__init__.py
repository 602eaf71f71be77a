"""Audits: what somebody sees who holds several releases, ours or anybody's.

Read releases, link them, measure what is left, judge a new one before it is published, report.
"""

from elldelta.rooms import make_callable

make_callable(__name__, "elldelta.audit.audit.audit")
