"""What the service does, one concept per file.

Every function takes the `Agency` first and, where it matters, the `Caller`; it opens its own transaction and
returns frozen views, which routes turn into JSON or HTML. Who may call is declared at the routes; what of the
answer they may see is decided here.
"""
