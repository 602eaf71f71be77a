"""SQL of tables that live: who came, went and stayed since a table was published; written as in `sql`."""

from __future__ import annotations

STAY, MOVE, LEAVE, MUST, JOIN, RETURN, OUT, FORGET = range(8)
"""What became of a (person, value) since a table was last published: it stays; it is in another class now;
left; left and must go; is new; comes back, and is not shown again; has left before; is to be forgotten."""


def first_state(pairs: str, classes: str) -> str:
    """The state of a table that is published for the first time: who, val, home, shown, has_left, waited."""
    return (
        "SELECT pairs.who AS who, pairs.val AS val, classes.class AS home, 1 AS shown, 0 AS has_left, "  # noqa: S608
        f"0 AS waited FROM {pairs} AS pairs JOIN {classes} AS classes ON classes.cell = pairs.cell"
    )


def compared_with_state(pairs: str, classes: str, state: str, erased: str) -> str:
    """What became of every (person, value): who, val, class, home, waited, kind.

    Args:
        pairs: What `person_values` says of the table now.
        classes: A relation (cell, class) of the published class of every combination.
        state: What was last published, and who waits or has left: as `first_state`. A row that is shown and
            names nobody was published of somebody who must go.
        erased: A relation (who) of different persons who must go.
    """
    now = (
        "SELECT pairs.who AS who, pairs.val AS val, classes.class AS class "  # noqa: S608
        f"FROM {pairs} AS pairs JOIN {classes} AS classes ON classes.cell = pairs.cell "
        f"LEFT JOIN {erased} AS erased ON erased.who = pairs.who WHERE erased.who IS NULL"
    )
    kind = (
        f"CASE WHEN old.shown = 1 AND now.class = old.home THEN {STAY} "
        f"WHEN old.shown = 1 AND now.class IS NOT NULL THEN {MOVE} "
        f"WHEN old.shown = 1 AND (old.who IS NULL OR erased.who IS NOT NULL) THEN {MUST} "
        f"WHEN old.shown = 1 THEN {LEAVE} "
        f"WHEN now.class IS NOT NULL AND old.has_left = 1 THEN {RETURN} "
        f"WHEN now.class IS NOT NULL THEN {JOIN} "
        f"WHEN erased.who IS NOT NULL OR old.has_left = 0 THEN {FORGET} ELSE {OUT} END"
    )
    # Narrow numbers: both sides are as large as the table, and must fit into memory together.
    before = (
        "SELECT who, "  # noqa: S608
        + ", ".join(f"CAST({name} AS INTEGER) AS {name}" for name in ("val", "home"))
        + "".join(f", CAST({name} AS SMALLINT) AS {name}" for name in ("shown", "has_left", "waited"))
        + f" FROM {state} AS state"
    )
    return (
        "SELECT COALESCE(now.who, old.who) AS who, COALESCE(now.val, old.val) AS val, "  # noqa: S608
        "CASE WHEN old.shown = 1 OR now.class IS NULL THEN old.home ELSE now.class END AS class, "
        "COALESCE(old.home, -1) AS home, COALESCE(old.waited, 0) AS waited, "
        f"CAST({kind} AS SMALLINT) AS kind FROM ({now}) AS now "
        f"FULL OUTER JOIN ({before}) AS old ON now.who = old.who AND now.val = old.val "
        f"LEFT JOIN {erased} AS erased ON erased.who = old.who"
    )


def erased_found(erased: str, state: str, table: str) -> str:
    """How many persons must go, and how many of them a state and a table (who) know: n, n_old, n_now."""
    return (
        "SELECT COUNT(*) AS n, COUNT(old.who) AS n_old, COUNT(now.who) AS n_now "  # noqa: S608
        f"FROM {erased} AS erased LEFT JOIN (SELECT DISTINCT who FROM {state} AS state) AS old "
        "ON old.who = erased.who "
        f"LEFT JOIN (SELECT who FROM {table}) AS now ON now.who = erased.who"
    )


def compared_counts(compared: str) -> str:
    """How many (person, value) of each class and value became what: class, val, kind, n, longest wait."""
    return (
        "SELECT class, val, kind, COUNT(*) AS n, MAX(waited) AS waited "  # noqa: S608
        f"FROM {compared} AS compared GROUP BY class, val, kind"
    )


def several_rows(relation: str) -> str:
    """The few persons of a relation who have more than one row: who. All others need not be told apart."""
    return (
        f"SELECT who FROM {relation} AS persons WHERE who IS NOT NULL "  # noqa: S608
        "GROUP BY who HAVING COUNT(*) > 1"
    )


def compared_persons(compared: str, several: str) -> str:
    """Different persons of each class if it changed: class, all, who came, who went, who stayed.

    Who was erased has no name any more and does not count: groups look smaller than they are, never larger.

    Args:
        compared: What `compared_with_state` says.
        several: What `several_rows` says of it.
    """
    groups = ((STAY, MOVE, JOIN), (JOIN,), (LEAVE, MUST), (STAY, MOVE))
    listed = [", ".join(map(str, kinds)) for kinds in groups]
    shown = [f"CASE WHEN entry.kind IN ({kinds}) THEN 1 ELSE 0 END" for kinds in listed]
    counted = ", ".join(f"CAST(SUM(n{place}) AS BIGINT) AS n{place}" for place in range(len(groups)))
    one = ", ".join(f"{each} AS n{place}" for place, each in enumerate(shown))
    most = ", ".join(f"MAX({each}) AS n{place}" for place, each in enumerate(shown))
    persons = _persons_apart(
        compared, several, f"entry.class AS class, {one}", f"entry.class AS class, {most}", "entry.class"
    )
    return f"SELECT class, {counted} FROM ({persons}) AS persons GROUP BY class"  # noqa: S608


def persons_of_state(state: str, several: str) -> str:
    """Different persons of each class that are shown, as a state says: home, persons.

    Args:
        state: The state.
        several: All persons with several rows in it, and maybe others.
    """
    shown = _persons_apart(
        state, several, "entry.home AS home", "entry.home AS home", "entry.home", "shown = 1"
    )
    return f"SELECT home, COUNT(*) AS persons FROM ({shown}) AS persons GROUP BY home"  # noqa: S608


def persons_of_state_once(state: str, several: str) -> str:
    """Every person that a state shows, at its first class: home, persons; as `persons_of_state`."""
    once = _persons_apart(state, several, "entry.home AS home", "MIN(entry.home) AS home", "", "shown = 1")
    return f"SELECT home, COUNT(*) AS persons FROM ({once}) AS persons GROUP BY home"  # noqa: S608


def _persons_apart(relation: str, several: str, one: str, grouped: str, by: str, where: str = "1 = 1") -> str:
    """A row for everybody with one row, and the rows of the others grouped by person and something else."""
    return (
        f"SELECT {one} FROM {relation} AS entry LEFT JOIN {several} AS several "  # noqa: S608
        f"ON several.who = entry.who WHERE several.who IS NULL AND entry.who IS NOT NULL AND {where} "
        f"UNION ALL SELECT {grouped} FROM {relation} AS entry JOIN {several} AS several "
        f"ON several.who = entry.who WHERE {where} GROUP BY {', '.join(filter(None, (by, 'entry.who')))}"
    )


def next_state(compared: str, decisions: str) -> str:
    """The state after an update, as `first_state`; decisions (class, changes) say which classes change."""
    is_new = f"compared.kind = {JOIN} AND decisions.changes = 1"
    shown = (
        f"CASE WHEN compared.kind IN ({STAY}, {MOVE}, {MUST}) OR ({is_new}) "
        f"OR (compared.kind = {LEAVE} AND decisions.changes = 0) THEN 1 ELSE 0 END"
    )
    waits = f"compared.kind = {MOVE} OR (compared.kind IN ({JOIN}, {LEAVE}) AND decisions.changes = 0)"
    has_left = f"compared.kind IN ({RETURN}, {OUT}) OR (compared.kind = {LEAVE} AND decisions.changes = 1)"
    return (
        f"SELECT CASE WHEN compared.kind = {MUST} THEN NULL ELSE compared.who END AS who, "  # noqa: S608
        f"compared.val AS val, CASE WHEN ({is_new}) OR compared.home < 0 THEN compared.class "
        f"ELSE compared.home END AS home, {shown} AS shown, "
        f"CASE WHEN {has_left} THEN 1 ELSE 0 END AS has_left, "
        f"CASE WHEN {waits} THEN compared.waited + 1 ELSE 0 END AS waited "
        f"FROM {compared} AS compared JOIN {decisions} AS decisions ON decisions.class = compared.class "
        f"WHERE compared.kind <> {FORGET} AND NOT (compared.kind = {MUST} AND decisions.changes = 1)"
    )
