"""`elldelta signature`: sign plans, and check offline that a plan, or evidence, is the agency's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command, family
from elldelta.parameters import Doc

PlanArgument = Annotated[Path, typer.Argument(help="The plan; its signature lies beside it, plan.json.sig.")]


_FAMILY = family("signature", "Sign plans, and check signatures without a server.")


@command("key", example="signature key agency.key --public agency.pem", home=_FAMILY)
def _key(
    private: Annotated[Path, typer.Argument(help="The private key; only you may read the file.")],
    public: Annotated[Path, Doc("The public key, for everybody.")],
    json: options.Json = False,
) -> None:
    """Make a key: the private part stays with you, the public part goes to whoever checks your signatures."""
    from elldelta.files import PrivateKey, write_key_pair

    key = PrivateKey.create()
    write_key_pair(key, private, public)
    output.print_result(
        {"id": key.id, "private": str(private), "public": str(public)},
        key.id,
        f"Wrote {private}, which stays with you, and {public}, for everybody.",
        as_json=json,
    )


@command("sign", example="signature sign plan.json --key agency.key", home=_FAMILY)
def _sign(
    plan: PlanArgument,
    key: Annotated[Path, Doc("The agency's private key, a file of mode 600.")],
    population: Annotated[str | None, Doc("The people that the plan is about, by a name.")] = None,
    days: Annotated[
        int | None,
        typer.Option(
            "--expires-in-days", min=1, max=36500, help="The signature may be used for so many days only."
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Sign a plan with the agency's private key."""
    import datetime as dt

    from elldelta.files import read_private_key
    from elldelta.plan.plan import read_plan
    from elldelta.plan.signature import sign_plan, signature_path, write_signature

    expires = None if days is None else dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    document = sign_plan(read_plan(plan), read_private_key(key), population=population, expires=expires)
    write_signature(document, plan, overwrite=overwrite)
    beside = str(signature_path(plan))
    signed = {name: document[name] for name in ("plan_digest", "key_id", "population", "expires")}
    output.print_result(
        {"plan": str(plan), "signature": beside, **signed},
        f"Signed {document['plan_digest']}.",
        f"Wrote {beside}.",
        as_json=json,
    )


@command("verify", example="signature verify plan.json --agency-key agency.pem", home=_FAMILY)
def _verify(
    plan: PlanArgument,
    agency_key: Annotated[Path, Doc("The agency's public key, a .pem file.")],
    json: options.Json = False,
) -> None:
    """Check that the agency has signed a plan, and whether it may still be used; or evidence."""
    import datetime as dt

    from elldelta.audit.evidence import KIND, verify_evidence
    from elldelta.files import read_json, trusted
    from elldelta.plan.signature import read_signed_plan

    if read_json(plan, "plan").get("kind") == f"elldelta {KIND}":
        record = verify_evidence(plan, trusted(agency_key))
        output.print_result(
            {"valid": True, "key_id": record["key_id"], "made": record["made"], "files": "as signed"},
            f"The agency has signed this evidence of {record['made'][:10]}.",
            "Every file beside it is the one that was signed.",
            record["verdict"],
            as_json=json,
        )
        return
    known, signature = read_signed_plan(plan, trusted(agency_key))
    signature.check_usable(dt.datetime.now(dt.UTC))
    about = f" for the population {signature.population}" if signature.population else ""
    until = f" The signature may be used until {signature.expires:%Y-%m-%d}." if signature.expires else ""
    output.print_result(
        {
            "valid": True,
            "plan_digest": known.digest,
            "key_id": signature.key_id,
            "population": signature.population,
            "expires": signature.expires and signature.expires.isoformat(),
        },
        f"The agency has signed this plan{about}, {known.digest}.{until}",
        known.promise,
        as_json=json,
    )
