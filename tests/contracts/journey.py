"""The whole story on one engine, and everything that must not depend on which one it is."""

from dataclasses import dataclass

from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows

from elldelta.audit.audit import audit
from elldelta.ledger.publish import release
from elldelta.ledger.verification import verify
from elldelta.model.model import estimate
from elldelta.plan.planner import plan
from elldelta.schema.schema import Schema


@dataclass(frozen=True)
class Story:
    """What came out; two stories are equal if nobody can tell their engines apart."""

    schema: str
    model: str
    plan: str
    manifests: list
    verified: list
    audited: dict
    files: list


def records(n=3000, seed=3):
    """Records of a hospital; some have gaps."""
    rows = make_rows(n, seed)
    for place, row in enumerate(rows):
        if place % 97 == 0:
            row["gender"] = None
        if place % 41 == 0:
            row["ward"] = None
    return rows


def tell(engine, source, folder):
    """From records to two releases, checked and linked, all on one engine."""
    schema = Schema.infer(source, QUASI_IDENTIFIERS, SENSITIVE, engine=engine)
    model = estimate(source, schema, engine=engine)
    made = plan(model, ell=3, releases=2, records=2500)
    targets = [folder / "first.parquet", folder / "second.parquet"]
    manifests = [release(source, made, to=target, engine=engine).manifest for target in targets]
    return Story(
        schema.digest,
        model.digest,
        made.digest,
        [manifest.to_dict() for manifest in manifests],
        [verify(target, made, engine=engine) for target in targets],
        audit(targets, engine=engine).to_dict(labels=True),
        [target.read_bytes() for target in targets],
    )
