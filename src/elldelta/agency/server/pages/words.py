"""The terms of the pages, each in one or two plain sentences."""

from __future__ import annotations

WORDS = {
    "population": "A group of people about whom owners publish tables, for example the patients of a region.",
    "owner": "Somebody who holds records about people of a population and wants to publish a table of them.",
    "client": "Somebody who wants to use published tables, and asks how well people in them are hidden.",
    "auditor": "Somebody who may look at everything that is registered, and changes nothing.",
    "model": "How often each combination of values occurred in past records. The agency plans with it. It is "
    "nearly as private as the records, so it is never shown.",
    "quasi-identifier": "A column that outsiders may know about a person, such as age or postal code.",
    "sensitive value": "What must not become known about a person, such as a disease.",
    "combination": "One way to fill in all quasi-identifiers, such as a woman of 34 in one postal code.",
    "plan": "It says which people form a class, how many records every owner waits for, and what is "
    "promised. It is made from past records only, never from an owner's own table.",
    "class": "People who look the same in a release: the same range of ages, the same area, and so on.",
    "release": "A table that an owner publishes under a plan.",
    "linkage": "Putting several releases side by side to find out more about one person.",
    "ℓ": "(ell) How many sensitive values are still possible for a person after linkage. More is safer.",
    "δ": "(delta) The chance that one release with N records does not keep the promise by itself. A checked "
    "release is mended before it is published. A smaller δ needs more records.",
    "t": "The number of releases that somebody may put side by side.",
    "N": "The number of records that an owner needs before it makes a release.",
    "frontier": "The most classes that so many records can pay for, with the same promise. More classes "
    "make a more useful table.",
    "bound": "A way to compute what can be promised. “paper” is the published formula, “union” the same "
    "without rounding, “sharp” the most exact one. All three are safe.",
    "certified": "Each release is checked before it is published. What passes keeps the promise for certain.",
    "probabilistic": "Owners publish at N records without a check. The promise may fail with a small chance.",
    "ledger": "The list of all admitted releases of a plan, one line each. Lines are only ever added.",
    "hash": "A fingerprint of a line. It covers the fingerprint of the line before, so nobody can change, "
    "remove or reorder lines without being noticed.",
    "digest": "A fingerprint of a file: the same content always has the same digest.",
    "signature": "Proof that a plan is the agency's. Everybody can check it with the public key, offline.",
    "registration": "What an owner sends about a release: its description, and the counts that the release "
    "shows to everybody anyway. No record is sent.",
    "refused": "Not admitted, because linked with earlier releases it would leave somebody with too few "
    "values. Nothing was changed.",
    "token": "A password for programs. It is shown once, ends by itself, and can be revoked.",
    "shape": "How classes may look. Boxes are ranges in every column; runs are pieces of one long order.",
    "preview": "The agency computes what a request would get, before it decides.",
}


def explained(*terms: str) -> list[tuple[str, str]]:
    """The terms of a page with their explanations, in the order given."""
    return [(term, WORDS[term]) for term in terms]
