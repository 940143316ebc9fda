"""Old days leave the store and the segments together, and nothing of them comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ingest.keep.publisher import Publisher
from ingest.keep.retention import oldest_kept_day
from ingest.keep.store import Store
from ingest.keep.upkeep import Upkeep
from sli.data_directory import DataDirectory
from sli.manifest import Manifest
from sli.vocabulary import Rejection

DAY = 86_400 * 10**9
# The calls of these tests lie at noon of 2026-11-30 and the days before it.
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def _body(otlp: Any, *days_ago: int) -> bytes:
    unstamped = {k: v for k, v in otlp.tool_call.items() if k != "event.timestamp"}
    body: bytes = otlp.logs(
        *(otlp.log(unstamped | {"call_id": f"d{n}"}, time=otlp.noon - n * DAY) for n in days_ago)
    )
    return body


def _segments(directory: DataDirectory) -> list[str]:
    return [segment.day.isoformat() for segment in Manifest.parse(directory.manifest.read_text()).segments]


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path)


@pytest.fixture
def upkeep_of() -> Callable[..., Upkeep]:
    """Upkeep of a keeper, as of 2026-11-30."""

    def make(keeper: Any, publisher: Publisher, days: int | None) -> Upkeep:
        return Upkeep(keeper.store, publisher, days, lambda: int(NOON.timestamp()) * 10**9)

    return make


@pytest.mark.parametrize(
    ("now", "oldest"),
    [
        (datetime(2026, 12, 1, 0, 0, tzinfo=UTC), date(2026, 11, 24)),
        (datetime(2026, 12, 1, 23, 59, 59, tzinfo=UTC), date(2026, 11, 24)),
        # Half past seven in Shanghai is still the day before in UTC.
        (datetime.fromisoformat("2026-12-01T07:30:00+08:00"), date(2026, 11, 23)),
    ],
)
def test_whole_utc_days_are_kept(now: datetime, oldest: date) -> None:
    assert oldest_kept_day(7, now) == oldest


def test_old_days_leave_store_and_segments_together(
    otlp: Any, keeper: Any, directory: DataDirectory, upkeep_of: Any
) -> None:
    keeper.keep(_body(otlp, 0, 1, 2, 3, 4))
    publisher = Publisher(keeper.store, directory)
    publisher.publish()
    assert not upkeep_of(keeper, publisher, None).step(NOON)
    assert keeper.calls().total() == 5
    upkeep_of(keeper, publisher, 2).step(NOON)
    assert set(keeper.calls()) == {"d0", "d1", "d2"}
    assert _segments(directory) == ["2026-11-28", "2026-11-29", "2026-11-30"]
    # A day later one day more.
    upkeep = upkeep_of(keeper, publisher, 2)
    upkeep.step(NOON + timedelta(days=1))
    assert set(keeper.calls()) == {"d0", "d1"}
    # Readers that hold the manifest of before still find its files; the next start removes them.
    assert len(list(directory.events.rglob("*.parquet"))) == 5
    Publisher(keeper.store, directory)
    assert len(list(directory.events.rglob("*.parquet"))) == 2
    assert not (directory.events / "tool_calls" / "day=2026-11-26").exists()


def test_what_was_removed_is_refused_and_says_why(
    otlp: Any, keeper: Any, directory: DataDirectory, upkeep_of: Any
) -> None:
    keeper.keep(_body(otlp, 0, 3))
    publisher = Publisher(keeper.store, directory)
    publisher.publish()
    upkeep_of(keeper, publisher, 2).step(NOON)
    (outcome,) = keeper.keep(_body(otlp, 0, 1, 3, 4))
    assert (outcome.stored, outcome.duplicates, outcome.rejected) == (1, 1, {Rejection.TOO_OLD: 2})
    # Also after a restart, and where the setting was taken back.
    keeper.restart()
    upkeep_of(keeper, Publisher(keeper.store, directory), None)
    (outcome,) = keeper.keep(_body(otlp, 3))
    assert (outcome.stored, outcome.rejected) == (0, {Rejection.TOO_OLD: 1})
    assert set(keeper.calls()) == {"d0", "d1"}


def test_from_the_start_nothing_comes_in_that_would_be_removed(
    otlp: Any, keeper: Any, directory: DataDirectory, upkeep_of: Any
) -> None:
    upkeep_of(keeper, Publisher(keeper.store, directory), 2)
    (outcome,) = keeper.keep(_body(otlp, 2, 3))
    assert (outcome.stored, outcome.rejected) == (1, {Rejection.TOO_OLD: 1})


def test_each_request_is_told_its_own_rejections(otlp: Any, keeper: Any) -> None:
    keeper.store.keep_since(date(2026, 11, 28))
    first, second, third = keeper.keep(_body(otlp, 3, 4, 0), _body(otlp, 1), _body(otlp, 5))
    assert [first.rejected, second.rejected, third.rejected] == [
        {Rejection.TOO_OLD: 2},
        {},
        {Rejection.TOO_OLD: 1},
    ]
    assert [first.stored, second.stored, third.stored] == [1, 1, 0]


def test_the_first_moment_of_a_kept_day_is_kept(otlp: Any, keeper: Any) -> None:
    midnight = otlp.noon - DAY // 2
    sent = {k: v for k, v in otlp.tool_call.items() if k != "event.timestamp"}
    records = [otlp.log(sent | {"call_id": f"{n}"}, time=midnight + n) for n in (-1, 0, 1)]
    keeper.store.keep_since(date(2026, 11, 30))
    (outcome,) = keeper.keep(otlp.logs(*records))
    assert (outcome.stored, outcome.rejected) == (2, {Rejection.TOO_OLD: 1})
    assert set(keeper.calls()) == {"0", "1"}


def test_what_is_too_old_is_counted_and_an_impossible_time_stays_impossible(otlp: Any, keeper: Any) -> None:
    keeper.store.keep_since(date(2026, 11, 30))
    sent = {k: v for k, v in otlp.tool_call.items() if k != "event.timestamp"}
    records = [otlp.log(sent | {"call_id": f"{n}"}, time=time) for n, time in enumerate((1, otlp.noon - DAY))]
    (outcome,) = keeper.keep(otlp.logs(*records, otlp.log(otlp.guard, time=otlp.noon - DAY)))
    assert (outcome.stored, outcome.rejected) == (0, {Rejection.TOO_OLD: 2, Rejection.IMPOSSIBLE_TIME: 1})
    rows = keeper.query("SELECT reason, sum(records)::INT FROM rejected GROUP BY ALL ORDER BY ALL")
    assert rows == [("impossible_time", 1), ("too_old", 2)]


def test_killed_between_store_and_manifest_the_next_start_goes_on(
    otlp: Any, keeper: Any, directory: DataDirectory
) -> None:
    keeper.keep(_body(otlp, 0, 1, 2, 3))
    Publisher(keeper.store, directory).publish()
    published_through = keeper.store.last_commit
    assert keeper.store.remove_before(date(2026, 11, 29)) == 2
    keeper.restart()
    # A missing segment of a removed day is not written again.
    (directory.events / "tool_calls" / "day=2026-11-27" / f"{1:012d}-{1:012d}.parquet").unlink()
    publisher = Publisher(keeper.store, directory)
    assert _segments(directory) == ["2026-11-29", "2026-11-30"]
    assert publisher.published_through == published_through


def test_commit_numbers_are_not_given_twice_when_all_rows_are_gone(
    otlp: Any, keeper: Any, directory: DataDirectory
) -> None:
    for days_ago in (1, 2, 3):
        keeper.keep(_body(otlp, days_ago))
    Publisher(keeper.store, directory).publish()
    keeper.close()
    # All of it, also what the writer notes of itself.
    store = Store(directory.store)
    through = store.last_commit
    store.remove_before(date(2100, 1, 1))
    store.close()
    store = Store(directory.store)
    assert store.last_commit == through
    publisher = Publisher(store, directory)
    assert (publisher.published_through >= 3, _segments(directory)) == (True, [])
    store.close()
    keeper.open()
    assert keeper.store.last_commit == through
    assert not list(directory.root.rglob("*.damaged-*"))


def test_a_removal_that_fails_is_tried_again(
    otlp: Any, keeper: Any, directory: DataDirectory, upkeep_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.keep(_body(otlp, 0, 5))
    publisher = Publisher(keeper.store, directory)
    publisher.publish()
    upkeep = upkeep_of(keeper, publisher, 2)
    with monkeypatch.context() as patch:
        patch.setattr("ingest.keep.publisher.write_whole", _fails)
        with pytest.raises(OSError, match="no space"):
            upkeep.step(NOON)
    assert _segments(directory) == ["2026-11-25", "2026-11-30"]
    upkeep.step(NOON)
    assert _segments(directory) == ["2026-11-30"]


def _fails(path: Path, text: str) -> None:
    raise OSError(28, "no space left on device")


def test_the_space_of_removed_days_is_used_again(
    keeper: Any, directory: DataDirectory, upkeep_of: Any
) -> None:
    def fill(day: str) -> int:
        keeper.store.reader().execute(
            "INSERT INTO tool_calls BY NAME SELECT uuid() AS event_id, day, day::TIMESTAMPTZ AS time, "
            "(epoch_ns(day::TIMESTAMP) + range)::BIGINT AS time_unix_nano, md5(range::VARCHAR) AS call_id, "
            f"1 AS commit_number FROM range(300_000), (SELECT DATE '{day}' AS day)"
        ).fetchall()
        keeper.restart()
        return keeper.path.stat().st_size

    first = fill("2026-11-20")
    publisher = Publisher(keeper.store, directory)
    upkeep_of(keeper, publisher, 2).step(NOON)
    assert keeper.query("SELECT count(*) FROM tool_calls") == [(0,)]
    assert fill("2026-11-29") < first * 1.2


def test_a_service_with_retention_refuses_what_is_too_old(
    otlp: Any, start_service: Any, toolgauge: Any
) -> None:
    today = int(datetime.now(UTC).timestamp()) * 10**9
    sent = {k: v for k, v in otlp.tool_call.items() if k != "event.timestamp"}
    records = [otlp.log(sent | {"call_id": f"d{n}"}, time=today - n * DAY) for n in (0, 1, 2, 3)]
    service = start_service(only="ingest", TOOLGAUGE_RETENTION_DAYS="2")
    answer = service.post("logs", otlp.logs(*records))
    assert answer.status_code == 200
    assert b"1 rejected: it is of a day that retention has removed" in answer.content
    assert service.stop() == 0
    done = toolgauge(
        "sql",
        "SELECT call_id FROM tool_calls ORDER BY ALL",
        "--format",
        "json",
        "--data-dir",
        str(service.data_dir),
    )
    assert [row["call_id"] for row in json.loads(done.stdout)] == ["d0", "d1", "d2"]
    with duckdb.connect(str(service.data_dir / "events.duckdb"), read_only=True) as connection:
        ((kept_since,),) = connection.execute("SELECT kept_since FROM store_info").fetchall()
    assert kept_since == oldest_kept_day(2, datetime.now(UTC))
