"""Schemas: what the columns of a table mean.

Columns, domains, value hierarchies, inference from records, and labels: how classes are written, by us and by
others.
"""
