"""Stops against the rule as it is written; retention against what must stay; notices."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from perdure.policy.notice import MARGIN, Capturing, plan_notice
from perdure.policy.outcome import By
from perdure.policy.retention import Stock, Stored, victims, victims_when_full
from perdure.policy.stops import JOB, Resume, Scope, Stop, StopKind, Stops

SCOPES = st.sampled_from([JOB, Scope(1), Scope(2), Scope(1, "a"), Scope(1, "b")])
RECORDS = st.lists(
    st.builds(
        Stop,
        number=st.just(0),
        kind=st.sampled_from(StopKind),
        scope=SCOPES,
        by=st.sampled_from(By),
    )
    | st.builds(Resume, number=st.just(0), lifts=st.integers(0, 10), scope=SCOPES),
    max_size=10,
)


def numbered(records):
    kinds = {Stop: ("kind", "scope", "by"), Resume: ("lifts", "scope")}
    return [
        type(record)(number=number, **{name: getattr(record, name) for name in kinds[type(record)]})
        for number, record in enumerate(records, 1)
    ]


@given(RECORDS, SCOPES)
def test_stopped_is_the_rule_of_the_protocol(unnumbered, asked):
    records = numbered(unnumbered)
    standing = [
        stop
        for stop in records
        if isinstance(stop, Stop)
        and stop.scope.covers(asked)
        and (
            stop.kind is StopKind.CANCEL
            or not any(
                isinstance(later, Resume)
                and later.scope.covers(asked)
                and later.number > stop.number
                and later.lifts >= stop.number
                for later in records
            )
        )
    ]
    found = Stops(records).stopped(asked)
    assert (found is None) == (standing == [])
    assert found is None or found in standing
    if any(stop.kind is StopKind.CANCEL for stop in standing):
        assert found.kind is StopKind.CANCEL


NOW = datetime(2026, 11, 29, tzinfo=UTC)
STOCKS = st.builds(
    Stock,
    checkpoints=st.lists(
        st.builds(
            Stored,
            sequence=st.integers(1, 40),
            committed_at=st.timedeltas(timedelta(days=-2), timedelta(days=40)).map(
                lambda age: NOW - age
            ),
            size_bytes=st.integers(0, 1000),
            new_bytes=st.integers(0, 1000),
            is_void=st.booleans(),
            is_pinned=st.booleans(),
            is_verified=st.booleans(),
            supports_kept=st.booleans(),
        ),
        max_size=15,
        unique_by=lambda stored: stored.sequence,
    ).map(tuple),
    point=st.none() | st.integers(1, 40),
    bases=st.frozensets(st.integers(1, 40), max_size=4),
    free_bytes=st.none() | st.integers(0, 100_000),
)


@given(STOCKS)
def test_what_must_stay_stays(stock):
    gone, gone_when_full = set(victims(stock, now=NOW)), set(victims_when_full(stock))
    assert gone <= gone_when_full
    for stored in stock.checkpoints:
        if stored.is_pinned or stored.supports_kept or stored.sequence in stock.bases:
            assert stored.sequence not in gone_when_full
    assert stock.point not in gone_when_full
    verified = [s.sequence for s in stock.checkpoints if s.is_verified and not s.is_void]
    if verified:
        assert max(verified) not in gone_when_full
    if stock.checkpoints:
        assert len(gone_when_full) < len(stock.checkpoints)


@given(
    st.timedeltas(timedelta(0), timedelta(seconds=600)),
    st.none() | st.timedeltas(timedelta(seconds=-5), timedelta(hours=1)),
    st.none() | st.timedeltas(timedelta(0), timedelta(hours=1)),
    st.integers(0, 10**15),
    st.none() | st.floats(0.0, 1e10),
)
def test_a_notice_always_leaves_room_for_the_commit(template, left, learned, size, bandwidth):
    capturing = Capturing(
        learned=learned, declared_bytes=size, bandwidth_bytes_per_second=bandwidth
    )
    plan = plan_notice(template, time_left=left, capturing=capturing)
    assert timedelta(0) <= plan.period <= template
    if left is not None and plan.fits and plan.period:
        assert plan.period + MARGIN <= left
        if learned is not None:
            assert plan.period + MARGIN + learned <= left
