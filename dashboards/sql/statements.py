"""What may run: SELECT and EXPLAIN, that read the tables and do nothing else.

The statement's type is not enough: a SELECT can hold a COPY or an INSERT in a WITH clause, and EXPLAIN
ANALYZE runs what it explains. So the engine's own syntax tree is looked at, and whatever in it is not
known to be harmless is refused.
"""

from __future__ import annotations

import re

import duckdb

from dashboards.sql.exceptions import QueryFailed, QueryRefused

# Everything else in a FROM clause that looks like a function reads files, or runs SQL given as text, or
# changes how the engine works.
TABLE_FUNCTIONS = frozenset(
    {
        "duckdb_columns",
        "duckdb_databases",
        "duckdb_functions",
        "duckdb_keywords",
        "duckdb_schemas",
        "duckdb_tables",
        "duckdb_types",
        "duckdb_views",
        "generate_series",
        "generate_subscripts",
        "json_each",
        "json_tree",
        "pg_timezone_names",
        "pragma_show",
        "pragma_table_info",
        "pragma_version",
        "range",
        "regexp_split_to_table",
        "repeat",
        "repeat_row",
        "unnest",
    }
)
_REFUSED_FUNCTIONS = frozenset({"getenv", "nextval", "write_log"})
# The engine's own building blocks: given other arguments than it would give them, they may crash it.
_INTERNAL_PREFIX = "__internal"

_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
# A table of such a name would be a file.
_FILE_NAME = re.compile(r"[./\\:*?]")

_LEADING_COMMENTS = re.compile(r"\A(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_EXPLAIN = re.compile(
    r"EXPLAIN\b\s*(?P<analyze>ANALYZE\b)?\s*(?P<options>\(\s*(?:ANALYZE|FORMAT)\b[^()]*\))?", re.IGNORECASE
)

_PARTS = """
    SELECT
        coalesce(json_extract_string(tree, '$.error'), 'true'),
        json_extract_string(tree, '$..type'),
        json_extract_string(tree, '$..info_type'),
        json_extract_string(tree, '$..function_name'),
        json_extract_string(tree, '$..function.function_name'),
        json_extract_string(tree, '$..table_name')
    FROM (SELECT json_serialize_sql(?)::JSON AS tree)
"""


def readable_statements(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    """The statements of `sql`, one by one, as they may be run.

    Args:
        connection: where they are parsed; nothing is run.
        sql: any text.

    Returns:
        No statement for an empty text or one of comments only.

    Raises:
        QueryRefused: one of them does more than reading the tables.
        QueryFailed: it is not SQL.
    """
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryFailed(str(error)) from error
    return [_readable(connection, statement) for statement in statements]


def _readable(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> str:
    kind = statement.type
    if kind == duckdb.StatementType.SELECT:
        _check_select(connection, statement.query)
        return statement.query
    if kind == duckdb.StatementType.EXPLAIN:
        return _readable_explain(connection, statement.query)
    if kind == duckdb.StatementType.MULTI:
        raise QueryRefused("PIVOT must name its values, as in PIVOT t ON c IN ('a', 'b')")
    raise QueryRefused(f"only SELECT and EXPLAIN are answered, this is {kind.name.replace('_', ' ')}")


def _readable_explain(connection: duckdb.DuckDBPyConnection, text: str) -> str:
    """An EXPLAIN put together anew from what was checked, so that nothing else can be in it."""
    text = _without_leading_comments(text)
    head = _EXPLAIN.match(text)
    if head is None:
        raise QueryRefused("write EXPLAIN, then ANALYZE or options if any, then the query")
    try:
        statements = connection.extract_statements(_without_leading_comments(text[head.end() :]))
    except duckdb.Error as error:
        raise QueryFailed(str(error)) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise QueryRefused("only a SELECT is explained")
    _check_select(connection, statements[0].query)
    analyze, options = head["analyze"] or "", head["options"] or ""
    return f"EXPLAIN {analyze} {options} {statements[0].query}"


def _check_select(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    try:
        rows = connection.execute(_PARTS, [text]).fetchall()
    except duckdb.Error as error:
        raise QueryRefused(f"its syntax cannot be looked through ({type(error).__name__})") from error
    failed, types, infos, functions, table_functions, tables = rows[0]
    if failed != "false":
        raise QueryRefused("its syntax cannot be looked through")
    nodes = {name for name in types if name.endswith("_NODE")}
    if not nodes <= _QUERY_NODES or any(infos):
        raise QueryRefused("a part of it writes")
    if types.count("TABLE_FUNCTION") != len(table_functions):
        raise QueryRefused("its syntax cannot be looked through")
    for name in table_functions:
        if name.lower() not in TABLE_FUNCTIONS:
            raise QueryRefused(
                f"{_shown(name)} is not among the functions that a FROM clause may use "
                f"({', '.join(sorted(TABLE_FUNCTIONS))})"
            )
    for name in functions:
        if name.lower() in _REFUSED_FUNCTIONS or name.lower().startswith(_INTERNAL_PREFIX):
            raise QueryRefused(f"the function {_shown(name)} does more than reading")
    if any(_FILE_NAME.search(name) for name in tables):
        raise QueryRefused("a file is no table; SHOW TABLES lists the tables")


def _without_leading_comments(text: str) -> str:
    found = _LEADING_COMMENTS.match(text)
    return text[found.end() :] if found else text


def _shown(name: str) -> str:
    """A name from a query, cut and without what a terminal would act on."""
    return ascii(name[:60])[1:-1]
