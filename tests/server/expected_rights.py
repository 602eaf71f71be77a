"""Who may call what, written down a second time: a new route must be added here, too, by somebody who thinks.

The application declares it at its routes; these are the expectations of the tests, not a copy that is read.
"""

AGENCY, OWNER, CLIENT, AUDITOR = "agency", "owner", "client", "auditor"
ALL = {AGENCY, OWNER, CLIENT, AUDITOR}
ANYBODY = None
"""Everybody, also without saying who they are."""

API = {
    ("GET", "/health"): ANYBODY,
    ("GET", "/ready"): ANYBODY,
    ("GET", "/openapi.json"): ANYBODY,
    ("GET", "/api/v1/key"): ANYBODY,
    ("GET", "/api/v1/me"): ALL,
    ("POST", "/api/v1/parties"): {AGENCY},
    ("GET", "/api/v1/parties"): {AGENCY},
    ("DELETE", "/api/v1/parties/{name}"): {AGENCY},
    ("POST", "/api/v1/parties/{name}/tokens"): {AGENCY},
    ("GET", "/api/v1/parties/{name}/tokens"): {AGENCY},
    ("DELETE", "/api/v1/tokens/{id}"): {AGENCY},
    ("GET", "/api/v1/populations"): ALL,
    ("POST", "/api/v1/populations"): {AGENCY},
    ("GET", "/api/v1/populations/{name}"): ALL,
    ("PUT", "/api/v1/populations/{name}/model"): {AGENCY},
    ("GET", "/api/v1/populations/{name}/cost"): {CLIENT, AGENCY},
    ("POST", "/api/v1/requests"): {CLIENT},
    ("GET", "/api/v1/requests"): {CLIENT, AGENCY, AUDITOR},
    ("GET", "/api/v1/requests/{id}"): {CLIENT, AGENCY, AUDITOR},
    ("POST", "/api/v1/requests/{id}/preview"): {AGENCY},
    ("POST", "/api/v1/requests/{id}/plan"): {AGENCY},
    ("POST", "/api/v1/requests/{id}/decline"): {AGENCY},
    ("GET", "/api/v1/jobs/{id}"): ALL,
    ("GET", "/api/v1/plans"): ALL,
    ("GET", "/api/v1/plans/{digest}"): ALL,
    ("GET", "/api/v1/plans/{digest}/file"): ALL,
    ("GET", "/api/v1/plans/{digest}/signature"): ALL,
    ("POST", "/api/v1/plans/{digest}/supersede"): {AGENCY},
    ("POST", "/api/v1/plans/{digest}/withdraw"): {AGENCY},
    ("PUT", "/api/v1/plans/{digest}/progress"): {OWNER},
    ("GET", "/api/v1/plans/{digest}/progress"): ALL,
    ("POST", "/api/v1/plans/{digest}/releases"): {OWNER},
    ("GET", "/api/v1/plans/{digest}/releases"): ALL,
    ("GET", "/api/v1/plans/{digest}/refusals"): {AGENCY, OWNER, AUDITOR},
    ("GET", "/api/v1/plans/{digest}/ledger"): ALL,
    ("GET", "/api/v1/plans/{digest}/audit"): ALL,
}

PAGES = {
    ("GET", "/static/{name}"): ANYBODY,
    ("GET", "/key.pem"): ANYBODY,
    ("GET", "/sign-in"): ANYBODY,
    ("POST", "/sign-in"): ANYBODY,
    ("POST", "/sign-out"): ALL,
    ("GET", "/"): ALL,
    ("POST", "/populations"): {AGENCY},
    ("GET", "/populations/{name}"): ALL,
    ("POST", "/populations/{name}/model"): {AGENCY},
    ("GET", "/populations/{name}/ask"): {CLIENT},
    ("POST", "/populations/{name}/ask"): {CLIENT},
    ("GET", "/requests"): {CLIENT, AGENCY, AUDITOR},
    ("GET", "/requests/{id}"): {CLIENT, AGENCY, AUDITOR},
    ("POST", "/requests/{id}/preview"): {AGENCY},
    ("POST", "/requests/{id}/plan"): {AGENCY},
    ("POST", "/requests/{id}/decline"): {AGENCY},
    ("GET", "/jobs/{id}/frontier-{width}.svg"): {AGENCY},
    ("GET", "/plans"): ALL,
    ("GET", "/plans/{digest}"): ALL,
    ("POST", "/plans/{digest}/progress"): {OWNER},
    ("POST", "/plans/{digest}/frontier"): {AGENCY},
    ("GET", "/plans/{digest}/frontier-{width}.svg"): ALL,
    ("GET", "/plans/{digest}/classes-{width}.svg"): ALL,
    ("GET", "/plans/{digest}/withdraw"): {AGENCY},
    ("POST", "/plans/{digest}/withdraw"): {AGENCY},
    ("GET", "/plans/{digest}/supersede"): {AGENCY},
    ("POST", "/plans/{digest}/supersede"): {AGENCY},
    ("GET", "/plans/{digest}/register"): {OWNER},
    ("POST", "/plans/{digest}/register"): {OWNER},
    ("GET", "/plans/{digest}/ledger"): ALL,
    ("GET", "/plans/{digest}/audit"): ALL,
    ("GET", "/plans/{digest}/audit/{number}/{what}-{width}.svg"): ALL,
    ("GET", "/parties"): {AGENCY},
    ("POST", "/parties"): {AGENCY},
    ("GET", "/parties/{name}"): {AGENCY},
    ("POST", "/parties/{name}/tokens"): {AGENCY},
    ("POST", "/parties/{name}/tokens/{id}/revoke"): {AGENCY},
    ("POST", "/parties/{name}/password"): {AGENCY},
    ("GET", "/parties/{name}/disable"): {AGENCY},
    ("POST", "/parties/{name}/disable"): {AGENCY},
}
"""The same for the pages; whoever is not known is shown the form to sign in there, with the status 401."""

EXPECTED = {**API, **PAGES}
