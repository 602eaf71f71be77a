"""From one row per seed to what the arena's page shows: means with intervals, and fair comparisons.

Every comparison is at equal promise or at equal loss, in the same seeds, with the interval of the mean
difference.

* Equal promise after linking, for certain: rivals ask for so many values per class that any three releases
  must leave ell (the paper's worst case).
* Nobody below ell, as it turned out: of a rival's settings the one that loses least among those under which
  nobody was below ell in any seed. It is chosen with hindsight, to the rival's advantage.
* Equal promise of every release by itself: the setting that loses least among those that ask for ell values.
* Equal loss: the setting that loses least among those that lose at least as much as we do. It may lose more,
  to the rival's advantage, because coarser is safer. If all lose less, the one that loses most.
"""

from benchmarks._arena_attacks import interval
from benchmarks._result import Fact

MEASURED = ("loss", "worst", "left_out", "queries", "classes", "below", "one", "anybody", "fewest",
            "baseline", "guess", "weighed", "posterior", "best", "subtracted", "subtracted_one",
            "seconds")  # fmt: skip
OURS = ("elldelta, certificates", "elldelta, ledger")
ALONE = "elldelta, one release"
RIVALS = ("common recoding", "Mondrian (anonypyx)", "anjana", "the paper")


def summaries(rows, knowing):
    """All facts of the page."""
    for key, own in _grouped(rows, ("table", "drift", "method", "setting", "promise")).items():
        done = [row for row in own if not row.get("refused")]
        about = dict(zip(("table", "drift", "method", "setting", "promise"), key, strict=True))
        about |= {"seeds": len(own), "refused": len(own) - len(done)}
        if done:
            about |= {name: _rounded(interval([row[name] for row in done])) for name in MEASURED}
            about["fewest"] = min(row["fewest"] for row in done)
        yield Fact("arena", about)
    usual = [row for row in rows if row["drift"] in (0.0, None)]
    for (table,), own in _grouped(usual, ("table",)).items():
        for fact in compared(_tries(own)):
            yield Fact("arena_compared", {"table": table, **fact})
    for (table, method), own in _grouped(knowing, ("table", "method")).items():
        yield Fact("arena_knowing", {"table": table, "method": method, "seeds": len(own), **_known(own)})


def _known(rows):
    """What knowing the algorithm adds under one rule: means over the seeds that were published."""
    done = [row for row in rows if not row.get("refused")]
    if not done:
        return {"refused": len(rows)}
    means = ("loss", "classes", "merged", "impossible", "value_plain", "belief_gain", "class_plain")
    odds = [row["odds"] for row in done]
    return {
        "refused": len(rows) - len(done),
        "fewest": min(row["fewest"] for row in done),
        "odds": None if None in odds else float(f"{max(odds):.4g}"),
        **{name: _rounded(interval([row[name] for row in done])) for name in means},
        **{
            f"{kind}_gain": _rounded(
                interval([row[f"{kind}_knowing"] - row[f"{kind}_plain"] for row in done])
            )
            for kind in ("value", "class", "sure")
        },
    }


def compared(tries):
    """Every comparison of ours with a rival; `tries` are rows by method and setting, by seed."""
    for mine in OURS:
        own = tries.get((mine, "default"))
        if own is None:
            continue
        for rival in RIVALS:
            settings = {setting: rows for (method, setting), rows in tries.items() if method == rival}
            certain = [rows for rows in settings.values() if rows[0]["promise"] == "linked"]
            unharmed = [rows for rows in settings.values() if not any(row["below"] for row in rows)]
            losing = [rows for rows in settings.values() if _mean(rows, "loss") >= _mean(own, "loss")]
            if certain:
                yield _difference("promise", own, _least(certain))
            if unharmed:
                yield _difference("unharmed", own, _least(unharmed))
            if losing:
                yield _difference("loss", own, _least(losing))
            elif settings:
                yield _difference("less", own, max(settings.values(), key=lambda rows: _mean(rows, "loss")))
    alone = tries.get((ALONE, "default"))
    for rival in RIVALS:
        single = [
            rows for (method, _), rows in tries.items() if method == rival and rows[0]["promise"] == "single"
        ]
        if single and alone is not None:
            yield _difference("single", alone, _least(single))


def _tries(rows):
    """Rows by method and setting, where no seed was refused."""
    found = _grouped(rows, ("method", "setting"))
    whole = {key: sorted(own, key=lambda row: row["seed"]) for key, own in found.items()}
    return {key: own for key, own in whole.items() if not any(row.get("refused") for row in own)}


def _difference(kind, own, other):
    """The rival less ours, seed by seed."""
    assert [row["seed"] for row in own] == [row["seed"] for row in other]
    found = {
        "kind": kind,
        "ours": own[0]["method"],
        "rival": other[0]["method"],
        "setting": other[0]["setting"],
    }
    for name in ("loss", "below", "one", "best", "queries", "subtracted"):
        differences = [theirs[name] - mine[name] for mine, theirs in zip(own, other, strict=True)]
        found[name] = [
            round(_mean(own, name), 5),
            round(_mean(other, name), 5),
            *_rounded(interval(differences)),
        ]
    return found


def _least(tries):
    return min(tries, key=lambda rows: _mean(rows, "loss"))


def _mean(rows, name):
    return sum(row[name] for row in rows) / len(rows)


def _rounded(pair):
    return [float(f"{number:.4g}") for number in pair]


def _grouped(rows, names):
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups
