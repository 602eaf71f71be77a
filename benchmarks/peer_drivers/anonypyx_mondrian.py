"""anonypyx: l-diverse tables by Mondrian, and its intersection attack on them.

Request: `tables` and `outputs` (the releases as people read them, one row per record); with `people` also the
attack: everybody's values that are left after looking at all the releases.
"""

import time

import anonypyx
import pandas as pd
from _driver import serve, timed
from anonypyx.attackers.intersection_attacker import IntersectionAttacker
from anonypyx.generalisation import HumanReadable, MachineReadable


def story(request):
    columns, sensitive, ell = request["columns"], request["sensitive"], request["ell"]
    tables = [_load(path, [*columns, sensitive]) for path in request["tables"]]
    made = [timed(lambda table=table: _anonymized(table, columns, sensitive, ell)) for table in tables]
    for (_, release), _ in made:
        assert (release.groupby(columns, observed=True)[sensitive].nunique() >= ell).all()
    for path, ((_, release), _) in zip(request["outputs"], made, strict=True):
        rows = release.loc[release.index.repeat(release["count"])].drop(columns="count")
        rows[[*columns, sensitive]].astype(str).to_parquet(path, index=False)
    answer = {**made[0][1], "released": [int(release["count"].sum()) for (_, release), _ in made]}
    if "people" in request:
        people = _load(request["people"], columns)
        answer.update(_attack(request, people, tables, [classes for (classes, _), _ in made]))
    return answer


def _load(path, names):
    table = pd.read_parquet(path, columns=list(names))
    for name in names:
        if table[name].dtype.kind not in "iu":
            table[name] = table[name].astype("category")
    return table


def _anonymized(table, columns, sensitive, ell):
    """The two steps of the peer's own `anonymise`, so that the classes can be used a second time."""
    maker = anonypyx.Anonymiser(
        table, k=ell, l=ell, feature_columns=list(columns), sensitive_column=sensitive,
        generalisation_strategy="human-readable",
    )  # fmt: skip
    classes = maker.algorithm.partition(maker.parameters)
    return classes, HumanReadable.create_for_data(table, columns).generalise(table, classes)


def _attack(request, people, tables, classes):
    """The time is that of the attack alone; its preparation, quadratic in the people, is left out."""
    columns, sensitive = request["columns"], request["sensitive"]
    schema = MachineReadable.create_for_data(pd.concat(tables), columns)
    coded = [schema.generalise(table, own) for table, own in zip(tables, classes, strict=True)]
    known = schema._preprocess(people.copy())
    known["ID"] = range(len(known))
    attacker = IntersectionAttacker(known, columns, sensitive, schema)
    everybody = list(range(len(known)))
    start = time.process_time()
    for release in coded:
        attacker.observe(release, [*columns, sensitive], everybody)
    found = [sorted(attacker.predict(person, sensitive)) for person in everybody]
    return {"attack_seconds": time.process_time() - start, "left": found}


serve(story)
