"""Pages: how pictures and HTML pages look, whoever makes them.

`charts` draws; `page` fills in templates that need nothing from the network, and makes parts for notebooks.
"""
