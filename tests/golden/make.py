"""Makes the golden files: one small file of every format, from made-up people and fixed seeds.

    make golden

writes `files/` and `digests.txt` again. Run it when a format changes, and look at the difference: what has
changed besides?
"""

import contextlib
import hashlib
import io
import itertools
import json
import random
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from unittest import mock

from elldelta.agency.receipt import Receipt, sign_admission
from elldelta.agency.registration import registration_of
from elldelta.cli.main import execute
from elldelta.files import PrivateKey, read_private_key, write_key_pair
from elldelta.plan.plan import read_plan

HOME = Path(__file__).parent
FILES, DIGESTS = HOME / "files", HOME / "digests.txt"

COMMANDS = """
schema infer past.csv --qi postal_code,gender,age --sensitive disease --hierarchy postal_code=places.csv -o schema.toml
estimate past.csv --schema schema.toml -o model.parquet
plan model.parquet --ell 3 --releases 2 --records 700 -o plan.json
release owner_a.csv --plan plan.json --ledger releases.ledger --owner a -o release.csv
release owner_b.csv --plan plan.json --ledger releases.ledger --owner b -o release.parquet
plan model.parquet --closeness 0.5 --releases 2 --records 700 -o closeness.json
release owner_a.csv --plan closeness.json -o closeness.csv
schema infer past.csv --qi postal_code,age --sensitive disease,gender --changes age -o several.toml
estimate past.csv --schema several.toml --person patient_id -o several.parquet
plan several.parquet --ell disease=3,gender=2 --releases 2 --records 700 -o several.json
release owner_a.csv --plan several.json --person patient_id --leave-out -o several.csv
plan model.parquet --ell 3 --releases 2 --records 700 --kind probabilistic -o probabilistic.json
plan model.parquet --ell 3 --releases 2 --beta 0.5 --kind paper -o paper.json
plan model.parquet --ell 3 --owners 3 --records 700 -o owners.json
plan model.parquet --ell 3 --releases 2 --records 700 --merge-risk 0.2 -o moving.json
release owner_a.csv --plan moving.json --key agency-key.pem --announced first -o moving.csv
estimate past.csv --schema schema.toml --by gender -o regions
plan regions --ell 3 --releases 2 --records 700 -o by_region.json
"""  # noqa: E501 (commands as they are typed)

ONCE = """
estimate past.csv --schema schema.toml --epsilon 2 --domains-are-public -o noise.parquet
release owner_a.csv --plan plan.json --person patient_id --ledger living.ledger --owner a --state first.state.parquet -o first.parquet
release owner_b.csv --plan plan.json --person patient_id --ledger living.ledger --owner a --since first.state.parquet --state second.state.parquet -o second.parquet
"""  # noqa: E501
"""What noise or a secret makes different every time."""

KEY = "agency-key.pem"


def tables():
    """The tables, by their names."""
    groups = {code: f"{code[0]}*" for code in ("a1", "a2", "a3", "b1", "b2", "b3")}
    yield "places.csv", "\n".join(f"{code};{group};*" for code, group in groups.items())
    diseases = ("flu", "cold", "cancer", "asthma", "gout", "angina")
    for name, seed, n in (("past.csv", 1, 1500), ("owner_a.csv", 2, 700), ("owner_b.csv", 3, 700)):
        draw = random.Random(seed)
        rows = ["patient_id,postal_code,gender,age,disease"]
        for number in range(n):
            person = number if name == "past.csv" or number % 2 else number + 10_000 * seed
            cells = (
                draw.choice(list(groups)),
                draw.choice("FM"),
                draw.randint(20, 69),
                draw.choice(diseases),
            )
            rows.append(",".join(map(str, (f"p{person}", *cells))))
        yield name, "\n".join(rows)


def say(command, code=0):
    """What a command prints with --json."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        found = execute([*shlex.split(command), "--json"])
    assert found == code, (command, out.getvalue())
    return json.loads(out.getvalue())


def make_again(folder):
    """Makes everything in the folder that comes out the same every time; it has the agency's key."""
    for name, text in tables():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    nonces = mock.patch(
        "elldelta.ledger.admission.new_nonce", side_effect=(f"{number:064x}" for number in itertools.count(1))
    )
    with contextlib.chdir(folder), nonces:  # the one thing in these files that is random
        for command in COMMANDS.split("\n"):
            if command:
                say(command)
        say(f"signature sign plan.json --key {KEY} --population region")
        registration = registration_of(Path("closeness.csv"), read_plan(Path("closeness.json")))
        Path("registration.json").write_bytes(registration.to_bytes())
        Path("release.csv.receipt.json").write_bytes(receipt(read_private_key(Path(KEY))).to_bytes())
        for name, _ in tables():
            Path(name).unlink()


def receipt(key: PrivateKey):
    """The receipt of the first release."""
    manifest = json.loads(Path("release.csv.manifest.json").read_bytes())
    plain = Receipt(
        server="https://agency.example",
        owner="a",
        plan_digest=manifest["plan_digest"],
        content_digest=manifest["content_digest"],
        registration_digest=None,
        sequence=manifest["ledger"]["sequence"],
        hash=manifest["ledger"]["hash"],
        population="region",
    )
    signed = sign_admission(key, {**vars(plain), "plan": plain.plan_digest})
    return replace(plain, key_id=signed["key_id"], signature=signed["signature"])


def digests():
    """The SHA-256 of every file, as `sha256sum` writes it."""
    paths = sorted(path for path in FILES.rglob("*") if path.is_file())
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(FILES).as_posix()}\n"
        for path in paths
    )


def main():
    """Writes all golden files again; the key stays."""
    kept = {name: (FILES / name).read_bytes() for name in (KEY, "agency.pem") if (FILES / name).exists()}
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir()
    if not kept:
        write_key_pair(PrivateKey.create(), FILES / KEY, FILES / "agency.pem")
    for name, content in kept.items():
        (FILES / name).write_bytes(content)
        (FILES / name).chmod(0o600)
    make_again(FILES)
    for name, text in tables():
        (FILES / name).write_text(text + "\n", encoding="utf-8")
    with contextlib.chdir(FILES):
        for command in ONCE.split("\n"):
            if command:
                say(command)
        say("evidence --plan plan.json --form about.toml")
        form = Path("about.toml").read_text(encoding="utf-8")
        Path("about.toml").write_text(
            form.replace('""', '"as agreed"').replace("= 0.09 ", "= 0.5 "), encoding="utf-8"
        )
        say("evidence release.csv --plan plan.json --about about.toml -o evidence")
        Path("evidence/evidence.json").rename("evidence.json")
        shutil.rmtree("evidence")
        for name in ("about.toml", *(name for name, _ in tables())):
            Path(name).unlink()
    DIGESTS.write_text(digests(), encoding="utf-8")


if __name__ == "__main__":
    main()
