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

PAGES = {}
"""The same for the pages; whoever is not known is sent to the login there."""

EXPECTED = {**API, **PAGES}
