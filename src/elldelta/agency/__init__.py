"""The central agency as a service, and how owners talk to it.

Server, client (`remote`), registrations and receipts. Only the command line imports this room: without it
everything else works.
"""
