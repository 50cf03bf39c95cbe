"""What a cell of a group, and a value that is compared, is as text."""

import json
import math
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.measures import Aggregate, MeasureKind, check_group, measured
from ledgerstone.pipeline.streams.totals import GroupTotals, group_texts, measure_column

# In Berlin the hour from two to three comes twice in this night.
FIRST = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
SECOND = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)


def in_berlin(*times: datetime) -> pa.Array:
    """As Spark gives them in a session of that zone."""
    return pa.array(times, pa.timestamp("us", tz="Europe/Berlin"))


def test_a_negative_zero_is_in_the_group_of_zero() -> None:
    one, other = group_texts([pa.array([0.0, -0.0])], 2).to_pylist()

    assert one == other == "[0.0]"


def test_a_group_is_json_also_where_a_float_is_no_number() -> None:
    floats = pa.array([math.nan, math.inf, -math.inf])

    texts = group_texts([floats], 3).to_pylist()

    assert texts == ['["NaN"]', '["Infinity"]', '["-Infinity"]']


def test_times_are_in_order_whatever_the_zone_of_the_session() -> None:
    of = measured(Aggregate(name="m", kind=MeasureKind.MIN, column="t"), "timestamp")

    one, other = measure_column(in_berlin(FIRST, SECOND), of).to_pylist()

    assert one < other
    assert one == "2026-10-25 00:30:00+00:00"


def test_a_group_of_a_time_is_the_same_whatever_the_zone_of_the_session() -> None:
    there = in_berlin(FIRST)
    here = there.cast(pa.timestamp("us", tz="UTC"))

    texts = [group_texts([each], 1)[0].as_py() for each in (there, here)]

    assert texts == [json.dumps(["2026-10-25 00:30:00+00:00"])] * 2


def test_a_group_by_what_has_parts_is_refused() -> None:
    for type_name in ("string", "decimal(9,2)", "timestamp_ntz", "double", "void"):
        check_group("value.c", type_name)

    for type_name in ("struct<a:int>", "array<int>", "map<string,int>", "interval day to second"):
        with pytest.raises(PipelineError, match="cannot name a group"):
            check_group("value.c", type_name)


def test_two_aggregates_of_one_name_are_refused() -> None:
    count = measured(Aggregate(name="n", kind=MeasureKind.COUNT), "int")

    with pytest.raises(PipelineError, match="another one of this name"):
        GroupTotals(by=("g",), measured=(count, count))
