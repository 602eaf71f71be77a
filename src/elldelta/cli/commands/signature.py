"""`elldelta signature`: sign plans, and check offline that a plan is the agency's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command, family

PlanArgument = Annotated[Path, typer.Argument(help="The plan; its signature lies beside it, plan.json.sig.")]


_FAMILY = family("signature", "Sign plans, and check signatures without a server.")


@command("key", example="signature key agency.key --public agency.pem", home=_FAMILY)
def _key(
    private: Annotated[Path, typer.Argument(help="The private key; only you may read the file.")],
    public: Annotated[Path, typer.Option("--public", help="The public key, for everybody.")],
    json: options.Json = False,
) -> None:
    """Make a key: the private part stays with the agency, the public part goes to all owners."""
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
    key: Annotated[Path, typer.Option("--key", help="The agency's private key, a file of mode 600.")],
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Sign a plan with the agency's private key."""
    from elldelta.files import read_private_key
    from elldelta.plan.plan import read_plan
    from elldelta.plan.signature import sign_plan, signature_path, write_signature

    document = sign_plan(read_plan(plan), read_private_key(key))
    write_signature(document, plan, overwrite=overwrite)
    beside = str(signature_path(plan))
    signed = {name: document[name] for name in ("plan_digest", "key_id")}
    output.print_result(
        {"plan": str(plan), "signature": beside, **signed},
        f"Signed {document['plan_digest']}.",
        f"Wrote {beside}.",
        as_json=json,
    )


@command("verify", example="signature verify plan.json --agency-key agency.pem", home=_FAMILY)
def _verify(
    plan: PlanArgument,
    agency_key: Annotated[Path, typer.Option("--agency-key", help="The agency's public key, a .pem file.")],
    json: options.Json = False,
) -> None:
    """Check that the agency has signed a plan."""
    from elldelta.files import read_public_key
    from elldelta.plan.signature import read_signed_plan

    key = read_public_key(agency_key)
    known = read_signed_plan(plan, key)
    output.print_result(
        {"valid": True, "plan_digest": known.digest, "key_id": key.id},
        f"The agency has signed this plan, {known.digest}.",
        known.promise,
        as_json=json,
    )
