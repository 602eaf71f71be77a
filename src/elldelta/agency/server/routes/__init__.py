"""The routes, one module per noun, for programs (`api`, under /api/v1) and for people (`pages`).

Thin: a route parses, calls a service and returns its values, as JSON or as a page. Every route declares who
may call it. A page carries a method of its own: GET shows, POST changes and then sends the browser to a page
that shows (so that reloading changes nothing twice). Pages are made on the server, with little script and
nothing from the network (`rendering`, `pictures`).

Callers send `Authorization: Bearer <token>`; the pages' own scripts send the cookie of a login, and what
changes something must then come from our own pages (`Origin`, `Sec-Fetch-Site`). Every error is
`{"error": {"problem": ..., "found": ..., "remedy": ..., "parameter": [...]}}` with a status: 401 not known,
403 may not, 404 no such thing or not yours, 409 contradicts what is there or refused, 413 too large, 415
wrong kind of body, 422 cannot be used, 503 busy (with Retry-After). Every answer carries `X-Request-Id`.
Moments are ISO 8601 in UTC. The names on the right are the views of `elldelta.agency.server.services`,
field by field. "all" means every role.

Lists come page by page: `{"entries": [...], "next": ...}`. Ask with `?after=` the value of "next" for the
page after it, and with `?limit=` for fewer entries at a time.

anybody::

    GET    /health                    200 {"status": "ok"}
    GET    /ready                     200, or 503 as long as the database or its schema is not there
    GET    /openapi.json              the description of all this
    GET    /api/v1/key                {"id", "algorithm": "Ed25519", "public_keys": a PEM bundle}

parties::

    GET    /me                        all     {"name", "role"}
    POST   /parties                   agency  {"name", "role"} -> 201 PartyView
    GET    /parties                   agency  Page of PartyView
    DELETE /parties/{name}            agency  disables it -> PartyView
    POST   /parties/{name}/tokens     agency  {"note"?, "expires_in_days"?} -> 201 NewToken
    GET    /parties/{name}/tokens     agency  Page of TokenView
    DELETE /tokens/{id}               agency  revokes it -> TokenView
    GET    /trail                     agency, auditor  Page of TrailView: who did what, the newest first

populations::

    GET    /populations               all     Page of PopulationView
    POST   /populations               agency  {"name", "title"?} -> 201 PopulationView
    GET    /populations/{name}        all     PopulationView; its "model" is a summary, or null
    PUT    /populations/{name}/model  agency  the model file, application/octet-stream -> PopulationView

requests::

    POST   /requests                  client  {"population", "ell", "records", "delta"?, "releases"?,
                                              "kind"?, "merge_risk"?, "min_records"?, "owners"?,
                                              "movers"?} -> 201 RequestView
    GET    /requests                  client (own), agency, auditor  Page of RequestView
    GET    /requests/{id}             the same  RequestView
    POST   /requests/{id}/preview     agency  -> 202 JobView
    POST   /requests/{id}/plan        agency  the same -> 202 JobView; result: {"plan": digest, ...}
    POST   /requests/{id}/decline     agency  {"reason"} -> RequestView
    GET    /jobs/{id}                 agency, whoever asked for it; audits: all  JobView
                                              "status": queued, running, done or failed; "progress": 0 to 1;
                                              "step", "result", "error"

plans::

    GET    /plans                     all     ?population= -> Page of PlanView
    GET    /plans/{digest}            all     PlanDetails: {"plan": PlanView, "conditions", ...}
    GET    /plans/{digest}/file       all     the exact plan file, application/json
    GET    /plans/{digest}/signature  all     the signature document
    POST   /plans/{digest}/supersede  agency  {"by": digest} -> PlanView
    POST   /plans/{digest}/withdraw   agency  {"reason"} -> PlanView
    PUT    /plans/{digest}/progress   owner   {"records": n} -> ProgressView
    GET    /plans/{digest}/progress   all     ProgressView: {"plan", "needed", "owners_reached", "own",
                                              "owners"}; the last one for agency and auditors, else null

releases::

    POST   /plans/{digest}/releases   owner   the registration, application/json -> 201 Admitted: a receipt,
                                              signed; 200 if this owner registered this content before;
                                              409 refused, with the reason; 422 not a registration of this
                                              plan
    GET    /plans/{digest}/releases   all     ?owner= -> Page of ReleaseView: published and own ones;
                                              agency and auditors see all
    PUT    /plans/{digest}/releases/{content}/state  owner (own)  {"state": "published" or "voided"}
    GET    /plans/{digest}/releases/{content}/receipt  owner (own)  the same, as often as it is asked for
    GET    /plans/{digest}/refusals   agency, auditor, owner (own)  Page of RefusalView
    GET    /plans/{digest}/ledger     all     the ledger file, for `elldelta ledger verify`
    GET    /plans/{digest}/audit      all     200 JobView with a result, or 202 JobView of the job that is
                                              computing it; 409 as long as nothing is registered
"""
