"""The reader answers from exactly what is published, within its limits, and does nothing else."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from analytics.refresh import refresh
from dashboards.sql.exceptions import (
    EventsBusy,
    NewerResults,
    PublishedUnreadable,
    QueryFailed,
    QueryRefused,
    QueryTimedOut,
    ResultsUnavailable,
    SegmentsDamaged,
    SegmentsMissing,
    SqlError,
    TooManyBytes,
    TooManyRows,
)
from dashboards.sql.reader import Reader
from dashboards.sql.snapshot import Limits
from sli.data_directory import DataDirectory
from sli.manifest import Manifest
from sli.schemas import EVENT_DATASETS, RESULT_DATASETS
from tests.analytics.segments import EventFolder

DAY = date(2026, 11, 30)


def answer(reader: Reader, sql: str, parameters: Any = None) -> Any:
    return reader.query(sql, parameters=parameters).to_pylist()


def fill(folder: EventFolder) -> EventFolder:
    folder.publish(folder.call("2026-11-30T10:00"), folder.call("2026-11-30T11:00", "error"))
    folder.directory.owner_key.write_bytes(b"k" * 32)
    refresh(folder.directory)
    return folder


@pytest.fixture
def published(folder: EventFolder) -> EventFolder:
    return fill(folder)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventFolder]:
    """A data directory for tests that only read; that they do is part of the test."""
    with duckdb.connect() as connection:
        yield fill(EventFolder(tmp_path_factory.mktemp("unchanged") / "data", connection))


@pytest.fixture(scope="module")
def unchanged_reader(unchanged: EventFolder) -> Iterator[Reader]:
    with Reader(unchanged.directory, Limits(seconds=5.0)) as reader:
        yield reader


@pytest.fixture
def reader(published: EventFolder) -> Iterator[Reader]:
    with Reader(published.directory, Limits(seconds=5.0)) as reader:
        yield reader


def everything_under(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_events_and_results_are_read(unchanged_reader: Reader) -> None:
    assert answer(unchanged_reader, "SELECT count(*) AS n FROM tool_calls") == [{"n": 2}]
    assert answer(unchanged_reader, "SELECT total, error FROM sli_daily") == [{"total": 2, "error": 1}]
    assert answer(unchanged_reader, "SELECT count(*) AS n FROM guard_decisions") == [{"n": 0}]


def test_times_are_utc(unchanged_reader: Reader) -> None:
    table = unchanged_reader.query("SELECT time FROM sli_daily")
    assert table.schema.field("time").type == pa.timestamp("us", "UTC")
    assert table.to_pylist() == [{"time": datetime(2026, 11, 30, tzinfo=UTC)}]


def test_every_table_is_there_with_its_types_without_any_data(tmp_path: Path) -> None:
    with Reader(DataDirectory(tmp_path)) as reader:
        for dataset in (*EVENT_DATASETS, *RESULT_DATASETS):
            described = answer(reader, f"DESCRIBE {dataset.name}")
            types = {column["column_name"]: column["column_type"] for column in described}
            expected = {
                column.name: column.type.replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")
                for column in dataset.columns
            }
            assert types == expected
            assert answer(reader, f"FROM {dataset.name}") == []


def test_types_are_the_same_with_data(reader: Reader, tmp_path: Path) -> None:
    with Reader(DataDirectory(tmp_path / "nothing")) as empty:
        for name in ("tool_calls", "sli_daily", "runs"):
            assert empty.query(f"FROM {name}").schema == reader.query(f"FROM {name}").schema


def test_only_what_the_manifest_lists_is_read(published: EventFolder) -> None:
    (segment,) = published.segments
    path = published.path(segment)
    path.with_name("000000000009-000000000009.parquet").write_bytes(path.read_bytes())
    with Reader(published.directory) as reader:
        assert answer(reader, "SELECT count(*) AS n FROM tool_calls") == [{"n": 2}]


def test_what_is_published_later_is_read_too(published: EventFolder, reader: Reader) -> None:
    count = (
        "SELECT (SELECT count(*) FROM tool_calls) AS calls, (SELECT sum(total) FROM sli_daily)::INT AS total"
    )
    assert answer(reader, count) == [{"calls": 2, "total": 2}]
    published.publish(published.call("2026-12-01T10:00"))
    assert answer(reader, count) == [{"calls": 3, "total": 2}]
    refresh(published.directory)
    assert answer(reader, count) == [{"calls": 3, "total": 3}]


def test_a_merge_between_opening_and_reading_is_followed(published: EventFolder, reader: Reader) -> None:
    published.publish(published.call("2026-11-30T12:00"))
    assert answer(reader, "SELECT count(*) AS n FROM tool_calls") == [{"n": 3}]
    snapshot = reader._snapshot
    assert snapshot is not None
    published.merge(DAY)
    # As if the manifest had been replaced just after the look at it.
    snapshot.is_current = lambda: True  # type: ignore[method-assign]
    assert answer(reader, "SELECT count(*) AS n FROM tool_calls") == [{"n": 3}]


def test_a_reader_keeps_up_with_merges(
    published: EventFolder, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_manifest() -> None:
        manifest = Manifest(published.store, published.published_through, tuple(published.segments))
        fresh = published.directory.manifest.with_suffix(".tmp")
        fresh.write_text(manifest.render(), "utf-8")
        fresh.replace(published.directory.manifest)

    # As ingest does it; only that it keeps the merged segments for two minutes.
    monkeypatch.setattr(published, "write_manifest", replace_manifest)
    stop = threading.Event()
    counts: list[int] = []
    failures: list[BaseException] = []

    def ask() -> None:
        while not stop.is_set():
            try:
                (row,) = answer(reader, "SELECT count(DISTINCT call_id) AS n FROM tool_calls")
                counts.append(row["n"])
            except EventsBusy:
                pass
            except BaseException as error:
                failures.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(15):
        published.publish(published.call("2026-11-30T12:00"))
        published.merge(DAY)
        time.sleep(0.02)
    stop.set()
    asking.join()
    assert failures == []
    counts.append(answer(reader, "SELECT count(DISTINCT call_id) AS n FROM tool_calls")[0]["n"])
    assert counts == sorted(counts)
    assert counts[-1] >= 15


def test_missing_segments_are_named(published: EventFolder, reader: Reader) -> None:
    path = published.path(published.segments[0])
    path.unlink()
    with pytest.raises(SegmentsMissing) as raised:
        reader.query("FROM tool_calls")
    assert raised.value.paths == [path]


@pytest.mark.parametrize("place", [-12, -30, -60])
def test_a_damaged_segment_is_named(published: EventFolder, reader: Reader, place: int) -> None:
    path = published.path(published.segments[0])
    content = bytearray(path.read_bytes())
    content[place:-4] = bytes(len(content[place:-4]))
    path.write_bytes(content)
    with pytest.raises(SegmentsDamaged, match="start the service") as raised:
        reader.query("FROM tool_calls")
    assert raised.value.paths == [path]


@pytest.mark.parametrize("content", [None, b"", b"PAR1, but nothing else"])
def test_a_segment_that_cannot_be_opened_is_named_and_other_tables_are_read(
    published: EventFolder, reader: Reader, content: bytes | None
) -> None:
    path = published.path(published.segments[0])
    path.unlink() if content is None else path.write_bytes(content)
    assert answer(reader, "SELECT count(*) > 0 AS there FROM sli_daily") == [{"there": True}]
    assert answer(reader, "FROM guard_decisions") == []
    for query in (
        "FROM tool_calls",
        "SELECT count(*) FROM tool_calls",
        "SELECT environment FROM tool_calls WHERE environment = 'x'",
        "FROM tool_calls WHERE environment IS NULL",
        "FROM tool_calls WHERE environment IS NOT NULL AND day > DATE '2020-01-01'",
        "SELECT * FROM tool_calls JOIN sli_daily USING (environment)",
        "SELECT * FROM sli_daily s LEFT JOIN tool_calls c ON c.environment = s.environment",
        "SELECT * FROM sli_daily WHERE environment NOT IN (SELECT environment FROM tool_calls)",
        "SELECT EXISTS (FROM tool_calls WHERE status = 'error') AS any",
        "SELECT max(time), sum(duration_ms) FROM tool_calls",
        "FROM tool_calls UNION ALL FROM tool_calls",
    ):
        with pytest.raises((SegmentsDamaged, SegmentsMissing)) as raised:
            reader.query(query)
        assert str(path) in str(raised.value), query


def test_a_damaged_manifest_is_an_error(published: EventFolder, reader: Reader) -> None:
    published.directory.manifest.write_text("{")
    with pytest.raises(PublishedUnreadable):
        reader.query("SELECT 1")


@pytest.mark.parametrize("content", [b"", b"not a database" * 1000])
def test_damaged_results_are_an_error(published: EventFolder, reader: Reader, content: bytes) -> None:
    published.directory.results.write_bytes(content)
    with pytest.raises(ResultsUnavailable, match="toolgauge rebuild"):
        reader.query("SELECT 1")


def test_results_of_another_format_are_an_error(published: EventFolder, reader: Reader) -> None:
    for found, error in ((99, NewerResults), (0, ResultsUnavailable)):
        with duckdb.connect(str(published.directory.results)) as connection:
            connection.execute(f"UPDATE results_info SET format = {found}")
        with pytest.raises(error, match=f"format {found}"):
            reader.query("SELECT 1")


@pytest.mark.parametrize("name", ["it's [here]", "a*b?{c,d}", "späte Daten"])
def test_the_data_directory_may_be_called_anything(tmp_path: Path, name: str) -> None:
    with duckdb.connect() as connection:
        (tmp_path / "plain").mkdir()
        folder = EventFolder(tmp_path / "plain", connection)
        folder.publish(folder.call("2026-11-30T10:00"))
        refresh(folder.directory)
    (tmp_path / "plain").rename(tmp_path / name)
    with Reader(DataDirectory(tmp_path / name)) as reader:
        assert len(answer(reader, "FROM tool_calls, sli_daily")) == 1


def test_the_data_directory_may_be_reached_through_a_link(published: EventFolder, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(published.directory.root)
    with Reader(DataDirectory(tmp_path / "link")) as reader:
        assert len(answer(reader, "FROM tool_calls, sli_daily")) == 2


READABLE = [
    "SELECT 1",
    "select 1;",
    " /* a */ -- b\n SELECT 1",
    "FROM tool_calls",
    "TABLE sli_daily",
    "VALUES (1), (2)",
    "WITH a AS (SELECT 1 AS x) SELECT * FROM a",
    "WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM a WHERE x < 3) SELECT * FROM a",
    "SELECT * FROM range(3), generate_series(1, 2), unnest([1, 2])",
    "SELECT status, count(*) FROM tool_calls GROUP BY ALL ORDER BY ALL LIMIT 1",
    "SELECT row_number() OVER (PARTITION BY day ORDER BY time) FROM tool_calls",
    "PIVOT tool_calls ON status IN ('success', 'error')",
    "UNPIVOT (SELECT total, error FROM sli_daily) ON total, error",
    "SELECT * FROM main.tool_calls JOIN sli_daily USING (environment)",
    "SELECT current_setting('TimeZone'), version(), now()",
    "SELECT table_name FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM duckdb_tables()",
    "SHOW TABLES",
    "DESCRIBE tool_calls",
    "SUMMARIZE sli_daily",
    "EXPLAIN SELECT * FROM tool_calls",
    "/* a */ explain analyze select count(*) from tool_calls",
    "EXPLAIN (FORMAT json) SELECT 1",
    "EXPLAIN (ANALYZE, FORMAT json) SELECT 1",
    "EXPLAIN (SELECT 1)",
    "SELECT 1; SELECT 2; EXPLAIN SELECT 3;",
    "SELECT " + "1 + " * 400 + "1",
    "SELECT 'COPY x TO ''y''', '/* ; */', 'ATTACH' AS \"INSERT\" -- DROP TABLE x",
]


@pytest.mark.parametrize("sql", READABLE, ids=range(len(READABLE)))
def test_reading_is_allowed(unchanged_reader: Reader, sql: str) -> None:
    unchanged_reader.query(sql)


# Each with the data directory for {root}.
REFUSED = [
    # Statements that are no questions.
    "CREATE TABLE z AS SELECT 1",
    "CREATE TEMP TABLE z AS SELECT 1",
    "CREATE VIEW z AS SELECT 1",
    "CREATE MACRO z() AS 1",
    "CREATE SECRET (TYPE s3)",
    "INSERT INTO runs SELECT * FROM runs",
    "UPDATE sli_daily SET total = 0",
    "DELETE FROM sli_daily",
    "TRUNCATE sli_daily",
    "DROP VIEW tool_calls",
    "ALTER VIEW tool_calls RENAME TO x",
    "MERGE INTO sli_daily USING runs ON true WHEN MATCHED THEN DELETE",
    "COPY tool_calls TO '{root}/events/x.csv'",
    "COPY (SELECT 1) TO '{root}/x.csv'",
    "COPY runs FROM '{root}/events/x.csv'",
    "EXPORT DATABASE '{root}/events/e'",
    "IMPORT DATABASE '{root}/events/e'",
    "ATTACH '{root}/events.duckdb' AS x",
    "ATTACH ':memory:' AS x",
    "DETACH results",
    "USE results",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{root}/x.so'",
    "SET threads = 4",
    "SET VARIABLE a = 1",
    "SET lock_configuration = false",
    "SET enable_external_access = true",
    "RESET memory_limit",
    "PRAGMA enable_profiling",
    "PRAGMA threads = 4",
    "CALL checkpoint()",
    "CALL enable_logging()",
    "CHECKPOINT",
    "VACUUM",
    "ANALYZE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
    "PIVOT tool_calls ON status",
    # Several, of which one is none.
    "SELECT 1; DROP VIEW tool_calls",
    "SELECT 1; COPY (SELECT 1) TO '{root}/events/x.csv'; SELECT 2",
    "COMMIT; COPY (SELECT 1) TO '{root}/events/x.csv'",
    # Writing inside of a question.
    "WITH x AS (COPY (SELECT 1) TO '{root}/events/x.csv') SELECT * FROM x",
    "WITH x AS (INSERT INTO runs SELECT * FROM runs RETURNING *) SELECT * FROM x",
    "WITH x AS (DELETE FROM runs RETURNING *) SELECT * FROM x",
    "SELECT * FROM (WITH x AS (COPY (SELECT 1) TO '{root}/events/x.csv') SELECT * FROM x)",
    "SELECT (WITH x AS (COPY (SELECT 1) TO '{root}/events/x.csv') SELECT count(*) FROM x)",
    "SELECT 1 UNION ALL (WITH x AS (COPY (SELECT 1) TO '{root}/events/x.csv') SELECT 1 FROM x)",
    "DESCRIBE WITH x AS (COPY (SELECT 1) TO '{root}/events/x.csv') SELECT * FROM x",
    # EXPLAIN ANALYZE runs what it explains.
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{root}/events/x.csv'",
    "EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{root}/events/x.csv'",
    "EXPLAIN /* SELECT */ ANALYZE -- SELECT 1\n COPY (SELECT 1) TO '{root}/events/x.csv'",
    "EXPLAIN ANALYZE CREATE TABLE z AS SELECT 1",
    "EXPLAIN ANALYZE INSERT INTO runs SELECT * FROM runs",
    "EXPLAIN ANALYZE WITH x AS (COPY (SELECT 1) TO '{root}/events/x.csv') SELECT * FROM x",
    "EXPLAIN ANALYZE SET threads = 4",
    "EXPLAIN COPY (SELECT 1) TO '{root}/events/x.csv'",
    "EXPLAIN PIVOT tool_calls ON status",
    # Files.
    "SELECT * FROM read_text('{root}/owner.key')",
    "SELECT * FROM READ_TEXT('{root}/owner.key')",
    "SELECT * FROM \"read_text\"('{root}/owner.key')",
    "SELECT * FROM system.main.read_blob('{root}/owner.key')",
    "SELECT * FROM read_blob('{root}/owner.key')",
    "SELECT * FROM read_blob('{root}/events/../owner.key')",
    "SELECT * FROM read_blob('{root}/events/../*.key')",
    "SELECT * FROM read_blob(['{root}/owner.key'])",
    "SELECT * FROM read_csv('{root}/owner.key')",
    "SELECT * FROM read_csv_auto('{root}/owner.key')",
    "SELECT * FROM sniff_csv('{root}/owner.key')",
    "SELECT * FROM read_json('{root}/owner.key')",
    "SELECT * FROM read_ndjson_objects('{root}/owner.key')",
    "SELECT * FROM read_parquet('{root}/events/tool_calls/*/*.parquet')",
    "SELECT * FROM parquet_metadata('{root}/events/tool_calls/*/*.parquet')",
    "SELECT * FROM read_duckdb('{root}/results/results.duckdb')",
    "SELECT * FROM '{root}/owner.key'",
    "SELECT * FROM '{root}/events/x.csv'",
    'SELECT * FROM "x.parquet"',
    "DESCRIBE '{root}/events/x.parquet'",
    "SELECT * FROM 'http://127.0.0.1:1/x.parquet'",
    "SELECT * FROM read_text('http://127.0.0.1:1/x')",
    "SELECT * FROM glob('{root}/*')",
    "SELECT * FROM glob('{root}/events/**')",
    "SELECT * FROM tool_calls, LATERAL (SELECT * FROM read_text('{root}/owner.key'))",
    "SELECT (SELECT content FROM read_text('{root}/owner.key'))",
    "SELECT 1 WHERE 1 IN (SELECT 1 FROM read_text('{root}/owner.key'))",
    "SELECT 1 ORDER BY (SELECT content FROM read_text('{root}/owner.key'))",
    "SELECT 1 LIMIT (SELECT count(*) FROM read_text('{root}/owner.key'))",
    "SELECT count(*) FILTER (WHERE EXISTS (FROM read_text('{root}/owner.key')))",
    "SELECT [(SELECT content FROM read_text('{root}/owner.key')) FOR x IN [1]]",
    "PIVOT (FROM read_text('{root}/owner.key')) ON size IN (1)",
    "SUMMARIZE FROM read_text('{root}/owner.key')",
    "EXPLAIN SELECT * FROM read_text('{root}/owner.key')",
    "FROM histogram('{root}/events/x.parquet', x)",
    # SQL as text.
    "SELECT * FROM query('SELECT * FROM read_text(''{root}/owner.key'')')",
    "SELECT * FROM query_table('{root}/events/x.parquet')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    # The engine, its settings, and what surrounds it.
    "SELECT getenv('HOME')",
    "SELECT write_log('x')",
    "SELECT nextval('x')",
    "SELECT __internal_decompress_string(1::UTINYINT)",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM duckdb_settings()",
    "FROM enable_logging('QueryLog', storage = 'file', storage_path = '{root}/events/log')",
    "FROM enable_profiling(save_location = '{root}/events/p.json')",
    "FROM checkpoint()",
    "FROM force_checkpoint('results')",
    "FROM truncate_duckdb_logs()",
    "FROM register_external_resource('x')",
    "FROM add_grammar_extension('x')",
]


@pytest.mark.parametrize("sql", REFUSED, ids=range(len(REFUSED)))
def test_everything_else_is_refused_and_leaves_no_trace(
    unchanged: EventFolder, unchanged_reader: Reader, sql: str
) -> None:
    root = unchanged.directory.root
    before = everything_under(root)
    # What the parser does not know at all fails, and is refused as well as anything.
    with pytest.raises((QueryRefused, QueryFailed)):
        unchanged_reader.query(sql.format(root=root))
    assert everything_under(root) == before
    assert answer(unchanged_reader, "SELECT count(*) AS n FROM tool_calls") == [{"n": 2}]


@pytest.mark.parametrize("sql", ["", "  ", ";", "-- ping", "/* nothing */"])
def test_no_statement_is_refused(unchanged_reader: Reader, sql: str) -> None:
    with pytest.raises(QueryRefused, match="no statement"):
        unchanged_reader.query(sql)


@pytest.mark.parametrize(
    "sql", ["SELEC 1", "SELECT * FROM nowhere", "SELECT 'x'::INT", "(" * 5000, "SELECT '"]
)
def test_mistakes_are_told_in_the_engines_words(unchanged_reader: Reader, sql: str) -> None:
    with pytest.raises(QueryFailed, match="Error"):
        unchanged_reader.query(sql)
    assert answer(unchanged_reader, "SELECT 1 AS x") == [{"x": 1}]


def test_the_key_is_unreadable_even_without_a_look_at_the_syntax(
    unchanged: EventFolder, unchanged_reader: Reader
) -> None:
    """The layers below hold on their own."""
    connection = unchanged_reader._cursor()
    root = unchanged.directory.root
    for sql in (
        f"FROM read_blob('{root}/owner.key')",
        f"FROM read_blob('{root}/events/../owner.key')",
        f"FROM glob('{root}/*')",
        f"COPY (SELECT 1) TO '{root}/x.csv'",
        f"ATTACH '{root}/x.duckdb' AS x",
        "LOAD httpfs",
    ):
        with pytest.raises(duckdb.PermissionException):
            connection.execute(sql)
    for sql in ("SET lock_configuration = false", "SET enable_external_access = true", "SET threads = 1"):
        with pytest.raises(duckdb.InvalidInputException):
            connection.execute(sql)
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
        connection.execute("DELETE FROM results.main.sli_daily")


def test_control_c_ends_a_query(unchanged_reader: Reader) -> None:
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        unchanged_reader.query("SELECT sum(a.range * b.range) FROM range(10000000) a, range(1000000) b")
    timer.join()
    assert answer(unchanged_reader, "SELECT 1 AS x") == [{"x": 1}]


def test_variables_of_python_are_no_tables(unchanged_reader: Reader) -> None:
    secret = pa.table({"x": [1]})
    with pytest.raises(QueryFailed, match="secret"):
        unchanged_reader.query("FROM secret")
    assert len(secret) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(a.range * b.range) FROM range(10000000) a, range(1000000) b",
        "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t",
        "SELECT sleep_ms(60000)",
        "EXPLAIN ANALYZE SELECT sum(a.range * b.range) FROM range(10000000) a, range(1000000) b",
        "SELECT range FROM range(1000000000000)",
    ],
)
def test_time_is_limited(unchanged: EventFolder, sql: str) -> None:
    with Reader(unchanged.directory, Limits(seconds=0.3, rows=10**12)) as reader:
        with pytest.raises(QueryTimedOut) as raised:
            reader.query(sql)
        assert raised.value.limit_seconds == 0.3
        assert answer(reader, "SELECT 1 AS x") == [{"x": 1}]


def test_rows_are_limited(unchanged: EventFolder) -> None:
    with Reader(unchanged.directory, Limits(rows=10)) as reader:
        assert len(answer(reader, "FROM range(10)")) == 10
        with pytest.raises(TooManyRows) as raised:
            reader.query("FROM range(1000000000000)")
        assert raised.value.limit == 10


def test_the_size_of_an_answer_is_limited(unchanged: EventFolder) -> None:
    with (
        Reader(unchanged.directory, Limits(memory_bytes=64 * 1024**2)) as reader,
        pytest.raises(TooManyBytes),
    ):
        reader.query("SELECT repeat('x', 10000) FROM range(100000)")


def test_memory_is_limited(unchanged: EventFolder) -> None:
    with (
        Reader(unchanged.directory, Limits(memory_bytes=32 * 1024**2)) as reader,
        pytest.raises(QueryFailed, match="Memory"),
    ):
        reader.query("SELECT count(*) FROM (SELECT DISTINCT range, md5(range::TEXT) FROM range(5000000))")


def test_parameters_are_values(unchanged_reader: Reader) -> None:
    malicious = "error' OR true --"
    sql = "SELECT count(*) AS n FROM tool_calls WHERE status = ?"
    assert answer(unchanged_reader, sql, parameters=["error"]) == [{"n": 1}]
    assert answer(unchanged_reader, sql, parameters=[malicious]) == [{"n": 0}]
    assert answer(unchanged_reader, sql.replace("?", "$s"), parameters={"s": "error"}) == [{"n": 1}]
    with pytest.raises(QueryRefused):
        unchanged_reader.query(f"{sql}; {sql}", parameters=["error"])
    with pytest.raises(SqlError):
        unchanged_reader.query(sql)


def test_the_last_of_several_statements_is_answered(unchanged_reader: Reader) -> None:
    assert answer(unchanged_reader, "SELECT 1 AS a; SELECT 2 AS b") == [{"b": 2}]
