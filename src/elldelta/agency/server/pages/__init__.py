"""The pages for people with a browser: server-rendered, with little script, nothing from the network.

Thin, like the routers of `api`: a router reads a form, calls a service, and renders its values. Every route
declares who may call it, and carries a method of its own: GET shows, POST changes and then sends the browser
to a page that shows (so that reloading changes nothing twice).

- `rendering`: templates, redirections, the page of an error;
- `forms`: what a browser has posted;
- `words`: the terms, each explained on the page where it is used;
- `pictures`: charts as SVG;
- `assets`: stylesheet, scripts and icon, under names that change with their content;
- `catalogue`: adds all of them to an application;
- everything else: one router per concept.
"""
