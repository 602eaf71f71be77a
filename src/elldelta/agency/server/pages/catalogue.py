"""All pages, as an application takes them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.agency.server.pages import (
    assets,
    audits,
    ledgers,
    parties,
    plan_decisions,
    plans,
    populations,
    registrations,
    rendering,
    requests,
    sign_in,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

_CONCEPTS = (
    assets,
    sign_in,
    populations,
    requests,
    plans,
    plan_decisions,
    registrations,
    ledgers,
    audits,
    parties,
)


def add_pages(app: FastAPI) -> None:
    """Adds the pages to an application; errors outside of /api/ become pages, too."""
    app.state.page_error = rendering.error_page
    for concept in _CONCEPTS:
        app.router.routes.extend(concept.router.routes)
