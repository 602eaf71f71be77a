import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import certificate as oracle
from tests.switch import quick_or_all

from elldelta.core.certificate import CertificateTerms, certify
from elldelta.core.coarsen import coarsen_boxes, fit, unmergeable
from elldelta.core.hull_loss import HullLoss
from elldelta.core.ledger_state import LedgerState
from elldelta.core.partition import Partition, grouping_from_merged, merged_classes
from elldelta.core.reserve import Reserve
from elldelta.errors import ParameterError, RefusedError


def line(n_classes, mass=None):
    """Base classes that are the positions of one ordered attribute."""
    positions = np.arange(n_classes)[:, np.newaxis]
    return HullLoss(positions, positions, (n_classes,), np.ones(n_classes) if mass is None else mass)


def grid(width, height):
    """Base classes that are the cells of a grid."""
    positions = np.stack(np.divmod(np.arange(width * height), height), axis=1)
    return HullLoss(positions, positions, (width, height), np.ones(width * height))


@st.composite
def cases(draw, most_classes=7, most_values=5):
    """A plan and a table with many empty and many failing classes."""
    n_classes = draw(st.integers(1, most_classes))
    n_values = draw(st.integers(2, most_values))
    ell = draw(st.integers(1, n_values))
    releases = draw(st.integers(1, 2))
    witnesses = [
        draw(st.lists(st.integers(0, n_values - 1), unique=True, min_size=ell, max_size=n_values))
        for _ in range(n_classes)
    ]
    allowances = [(len(values) - ell) // releases for values in witnesses]
    rows = st.one_of(
        st.just([0] * n_values),
        st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=n_values, max_size=n_values),
        st.just([1] * n_values),
    )
    table = [draw(rows) for _ in range(n_classes)]
    r = draw(st.integers(1, 2))
    terms = CertificateTerms.from_lists(
        witnesses, n_values, ell=ell, releases=releases, allowances=allowances, min_records=r
    )
    return witnesses, allowances, table, r, terms


def traced(loss):
    """The mass that decides: a trace is added so that classes without mass have a length too."""
    return loss.mass + 1e-6 / loss.mass.size


def cost_on_a_line(case, price, first=0):
    """The least cost of runs from a class on: each is published if it passes, or its one class left out."""
    witnesses, allowances, table, r, _ = case
    loss = line(len(table))
    mass, weight = traced(loss), float(loss.weights[0])

    def cost_of(grouping):
        total = 0.0
        for group in sorted(set(grouping)):
            members = [first + base for base, own in enumerate(grouping) if own == group]
            has_records = any(map(any, (table[base] for base in members)))
            costs = [mass[members].sum() * (members[-1] - members[0]) * weight]
            if has_records and not oracle.passes_alone(witnesses, allowances, table, members, r):
                costs = []
            if len(members) == 1 and has_records:
                costs.append(price * mass[members[0]])
            if not costs:
                return np.inf
            total += min(costs)
        return total

    return cost_of


@settings(deadline=None, max_examples=quick_or_all(60, 120))
@given(cases(most_classes=8), st.sampled_from([0.05, 0.3, 1.0, 4.0]))
def test_no_two_boxes_can_be_divided_better(case, price):
    """On a line, two published runs that touch cost no more than the best runs of their classes."""
    *_, table, _, terms = case
    certificate = coarsen_boxes(table, terms, line(len(table)), price=price)
    assert certificate.is_certified
    group_of = certificate.grouping.class_of
    starts = [0, *(np.flatnonzero(np.diff(group_of)) + 1).tolist(), len(table)]
    for begin, end in zip(starts, starts[2:], strict=False):
        cost_of = cost_on_a_line(case, price, begin)
        best = min(map(cost_of, oracle.run_groupings(end - begin)))
        assert cost_of(group_of[begin:end].tolist()) <= best + 1e-5


@settings(deadline=None, max_examples=quick_or_all(60, 120))
@given(cases(most_classes=12))
def test_weighing_is_never_worse_than_a_pure_policy(case):
    *_, table, _, terms = case
    n_classes = len(table)
    width = next(width for width in (4, 3, 2, 1) if n_classes % width == 0)
    loss = grid(width, n_classes // width)
    both = fit(table, terms, loss, on_failure="coarsen-suppress")
    for policy in ("coarsen", "suppress"):
        try:
            pure = fit(table, terms, loss, on_failure=policy)
        except RefusedError:
            continue
        assert both.loss <= pure.loss + 1e-5  # the trace of mass that empty classes get


@settings(deadline=None, max_examples=quick_or_all(60, 120))
@given(cases(most_classes=8), st.integers(1, 3), st.data())
def test_a_reserve_is_kept_where_it_can_be(case, followers, data):
    *_, table, _, terms = case
    shares = [
        data.draw(st.lists(st.integers(0, 9), min_size=terms.n_values, max_size=terms.n_values))
        for _ in table
    ]
    cells = np.array(shares) / max(1, np.sum(shares))
    reserve = Reserve.keep(cells, terms, n_records=10, followers=followers, risk=0.3)
    fitted = fit(table, terms, line(len(table)), on_failure="coarsen-suppress", reserve=reserve)
    assert fitted.certificate.is_certified
    shown = fitted.certificate.counts >= terms.min_records
    whole = np.array(table)[~unmergeable(np.array(table), terms)].sum(axis=0) >= terms.min_records

    def chance(members, values, base):
        """That those who follow, and publish the same union, leave fewer than ell values of a base class."""
        survival = (1.0 - np.exp(-10 * cells[members].sum(axis=0))) ** followers
        return oracle.fewer_than(survival[values & terms.membership[base]], terms.ell)

    for group, members in enumerate(fitted.grouping):
        for base in members if fitted.certificate.published[group] else ():
            most = max(0.3, chance(~unmergeable(np.array(table), terms), whole, base))
            assert chance(members, shown[group], base) <= most + 1e-6


def test_a_reserve_spares_those_who_follow():
    """Two values too few to share: without a reserve the first owner takes both, and the second merges."""
    terms = CertificateTerms(np.ones((2, 4), dtype=bool), np.full(2, 2), 2, 1)
    cells = np.full((2, 4), 0.1)
    table = [[3, 3, 0, 0], [3, 3, 1, 1]]
    alone = fit(table, terms, line(2), on_failure="coarsen")
    assert alone.n_published == 2
    reserve = Reserve.keep(cells, terms, n_records=10, followers=1, risk=0.5)
    spared = fit(table, terms, line(2), on_failure="coarsen", reserve=reserve)
    assert spared.n_published == 1
    assert Reserve.keep(cells, terms, n_records=10, followers=0) is None


@settings(deadline=None, max_examples=quick_or_all(40, 80))
@given(cases(most_classes=6))
def test_what_no_union_can_satisfy_is_all_that_must_be_left_out(case):
    witnesses, allowances, table, r, terms = case
    fewest, _ = oracle.best(
        witnesses, allowances, table, oracle.groupings(len(witnesses)), lambda members: 0.0, r
    )
    cannot = unmergeable(np.array(table), terms)
    assert sum(sum(row) for row, out in zip(table, cannot, strict=True) if out) == fewest


@settings(deadline=None, max_examples=quick_or_all(50, 100))
@given(cases(most_classes=12))
def test_unions_of_boxes_do_not_overlap(case):
    *_, table, _, terms = case
    n_classes = len(table)
    width = next(width for width in (4, 3, 2, 1) if n_classes % width == 0)
    loss = grid(width, n_classes // width)
    certificate = coarsen_boxes(table, terms, loss)
    assert certificate.is_certified
    lows, highs = loss.hulls(certificate.grouping)
    volumes = (highs - lows + 1).prod(axis=1)
    # Hulls that together have the volume of the domain, and cover it, are disjoint.
    assert volumes.sum() == n_classes
    assert np.array_equal(np.bincount(certificate.grouping.class_of), volumes)


@settings(deadline=None, max_examples=quick_or_all(50, 100))
@given(cases())
def test_what_fit_returns_is_certified_and_accounted_for(case):
    witnesses, allowances, table, r, terms = case
    loss = line(len(witnesses))
    fitted = fit(table, terms, loss, on_failure="coarsen-suppress")
    group_of = fitted.grouping.class_of.tolist()
    left_out = set(np.flatnonzero(fitted.suppressed).tolist())
    assert oracle.passes(witnesses, allowances, table, group_of, left_out, r)
    assert sum(map(sum, table)) == fitted.certificate.n_records + fitted.n_suppressed
    assert fitted.n_merged == sum(len(members) for members in merged_classes(fitted.grouping))
    assert fitted.n_failing == int(certify(table, terms).fails.sum())
    assert (fitted.n_merged == 0 and fitted.n_suppressed == 0) == (fitted.n_failing == 0)
    assert 0.0 <= fitted.ncp <= 1.0
    again = fit(table, terms, loss, on_failure="coarsen-suppress")
    assert np.array_equal(again.grouping.class_of, fitted.grouping.class_of)
    # The grouping of the first release serves the same table again, without a search.
    kept = fit(table, terms, loss, on_failure="suppress", grouping=fitted.grouping)
    assert np.array_equal(kept.grouping.class_of, fitted.grouping.class_of)
    assert kept.n_suppressed == fitted.n_suppressed


TERMS = CertificateTerms.from_lists([[0, 1, 2]] * 4, 3, ell=3, releases=1)
TABLE = [[1, 1, 1], [2, 0, 0], [1, 1, 1], [1, 1, 1]]


def test_each_way_out():
    with pytest.raises(RefusedError, match="not certified") as refusal:
        fit(TABLE, TERMS, line(4))
    assert "N, 2N" in refusal.value.remedy
    merged = fit(TABLE, TERMS, line(4, np.array([1.0, 1, 2, 1])), on_failure="coarsen")
    assert merged.grouping.class_of.tolist() == [0, 0, 1, 2]
    assert merged.n_merged == 2
    assert merged.n_published == 3
    assert merged.ncp == pytest.approx(2 * (1 / 3) / 5)
    left_out = fit(TABLE, TERMS, line(4), on_failure="suppress")
    assert left_out.suppressed.tolist() == [False, True, False, False]
    assert left_out.n_suppressed == 2
    assert left_out.suppressed_share == pytest.approx(2 / 11)
    with pytest.raises(RefusedError, match=r"More than 0\.1"):
        fit(TABLE, TERMS, line(4), on_failure="suppress", most_suppressed=0.1)


def test_mass_decides_which_neighbour():
    heavy_left = fit(TABLE, TERMS, line(4, np.array([9.0, 1, 1, 1])), on_failure="coarsen")
    assert heavy_left.grouping.class_of.tolist() == [0, 1, 1, 2]


def test_the_class_of_everything_may_fail_where_a_smaller_union_passes():
    # The last class has no record and asks for values that nobody has: it must stay by itself.
    terms = CertificateTerms.from_lists([[0, 1], [0, 1], [2, 3]], 4, ell=2, releases=1)
    table = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert not certify(table, terms, Partition.single(3)).is_certified
    fitted = fit(table, terms, line(3), on_failure="coarsen")
    assert fitted.grouping.class_of.tolist() == [0, 0, 1]


def test_a_class_that_nothing_can_satisfy_is_refused_or_left_out():
    terms = CertificateTerms.from_lists([[0, 1], [2, 3]], 4, ell=2, releases=1)
    table = [[1, 1, 0, 0], [0, 0, 5, 0]]
    with pytest.raises(RefusedError, match="No union") as refusal:
        fit(table, terms, line(2), on_failure="coarsen")
    assert "5 of 7 records" in refusal.value.found
    assert refusal.value.remedy.startswith("Allow to leave records out, or wait")
    fitted = fit(table, terms, line(2), on_failure="coarsen-suppress", most_suppressed=0.8)
    assert fitted.n_suppressed == 5
    with pytest.raises(RefusedError, match=r"More than 0\.5"):
        fit(table, terms, line(2), on_failure="coarsen-suppress", most_suppressed=0.5)


def test_an_owner_that_has_to_keep_its_grouping_is_not_given_another():
    grouping = Partition([0, 0, 1, 1])
    table = [[1, 1, 1], [2, 0, 0], [1, 0, 0], [1, 0, 1]]
    with pytest.raises(RefusedError) as refusal:
        fit(table, TERMS, line(4), on_failure="coarsen", grouping=grouping)
    assert "keep the classes" in refusal.value.remedy
    fitted = fit(table, TERMS, line(4), on_failure="coarsen-suppress", grouping=grouping)
    assert fitted.suppressed.tolist() == [False, True]
    assert fitted.n_suppressed == 3


def test_merging_against_what_a_ledger_has_left():
    terms = CertificateTerms.from_lists([[0, 1, 2]] * 2, 3, ell=2, releases=1)
    table = [[1, 0, 1], [1, 1, 1]]
    state = LedgerState.empty(terms).admit(np.array([[True, False, False], [False, False, False]]))
    assert not state.admits(certify(table, terms).missed)
    fitted = fit(table, state.terms_left(), line(2), on_failure="coarsen")
    assert fitted.n_published == 1
    assert state.admits(certify(table, terms, fitted.grouping).missed)


def test_an_empty_table_passes():
    table = np.zeros((4, 3), dtype=np.int64)
    fitted = fit(table, TERMS, line(4), on_failure="coarsen-suppress")
    assert fitted.n_merged == fitted.n_suppressed == 0
    assert fitted.suppressed_share == 0.0
    assert coarsen_boxes(table, TERMS, line(4)).is_certified


def test_a_value_that_only_the_last_class_has():
    # The first class fails, and every other one passes: help is far away.
    n_classes = 1000
    witnesses = [[0, 1]] + [[0, 2]] * (n_classes - 1)
    terms = CertificateTerms.from_lists(witnesses, 3, ell=2, releases=1)
    table = np.tile([1, 0, 1], (n_classes, 1))
    table[-1] = [1, 1, 1]
    fitted = fit(table, terms, line(n_classes), on_failure="coarsen")
    assert fitted.n_published == 1


def test_many_classes():
    rng = np.random.default_rng(3)
    n_classes, n_values = 4096, 20
    shares = rng.dirichlet(np.ones(n_values), size=n_classes)
    membership = shares >= np.partition(shares, -9, axis=1)[:, -9:-8]
    terms = CertificateTerms(membership, np.full(n_classes, 2), 5, 2)
    table = rng.multinomial(30, shares)
    fitted = fit(table, terms, grid(64, 64), on_failure="coarsen")
    assert fitted.n_failing > 100
    assert fitted.n_published > n_classes - 1.2 * fitted.n_failing
    assert fitted.ncp < 0.01


@given(st.data())
def test_groupings_are_written_down_and_read_back(data):
    n_classes = data.draw(st.integers(1, 6))
    grouping = Partition(data.draw(st.sampled_from(list(oracle.groupings(n_classes)))))
    assert grouping_from_merged(merged_classes(grouping), n_classes) == grouping


@pytest.mark.parametrize("merged", [[[0]], [[0, 1], [1, 2]], [[0, 0]], [[0, 9]], [[-1, 0]]])
def test_groupings_that_are_none(merged):
    with pytest.raises(ParameterError, match="Merged classes"):
        grouping_from_merged(merged, 4)


def test_parameters_that_make_no_sense():
    with pytest.raises(ParameterError, match="On failure"):
        fit(TABLE, TERMS, line(4), on_failure="ignore")
    with pytest.raises(ParameterError, match="between 0 and 1"):
        fit(TABLE, TERMS, line(4), most_suppressed=1.5)
    with pytest.raises(ParameterError, match="4 base classes"):
        fit(TABLE, TERMS, line(3))
    with pytest.raises(ParameterError, match="every base class"):
        HullLoss(np.zeros((2, 1)), np.zeros((2, 1)), (3, 3), np.ones(2))
    with pytest.raises(ParameterError, match="inside the domain"):
        HullLoss(np.zeros((2, 1)), np.full((2, 1), 3), (3,), np.ones(2))
    with pytest.raises(ParameterError, match="Masses"):
        line(2, np.array([1.0, -1.0]))
