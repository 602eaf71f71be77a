"""Pages: how pictures and HTML pages look, whoever makes them.

Charts, the look they share, and templates that need nothing from the network.
"""
