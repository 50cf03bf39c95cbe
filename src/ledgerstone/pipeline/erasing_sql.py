"""Searches a table that SQLAlchemy reaches for a key, and removes it. Shell.

Rows are looked at, files of the database are not: where they are and how they are read is each
database's own. So the verdict is never "clean" where there is a table.
"""

from contextlib import closing

from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.erasing_files import FileVerdict, Finding
from ledgerstone.pipeline.erasing_key import WantedKey
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.tables.sql_table import SqlTable


def search_sql(pipeline: Pipeline, wanted: WantedKey, output: str) -> Finding:
    with closing(_table_of(pipeline)) as table:
        if not table.is_there():
            return Finding(output=output, verdict=FileVerdict.CLEAN, evidence="there is no table")
        staged, rows = table.staged(), table.rows_of_key(wanted.columns)
    if staged:
        evidence = f"{len(staged)} staging tables hold changes that were not applied"
        return Finding(output=output, verdict=FileVerdict.RESIDUE, evidence=evidence)
    if rows:
        evidence = f"{rows} rows of the table are the key's"
        return Finding(output=output, verdict=FileVerdict.RESIDUE, evidence=evidence)
    evidence = "no row is the key's; the files and logs of the database are not looked at"
    return Finding(output=output, verdict=FileVerdict.UNKNOWN, evidence=evidence)


def purge_sql(pipeline: Pipeline, wanted: WantedKey) -> None:
    with closing(_table_of(pipeline)) as table:
        if table.is_there():
            table.drop_staged()
            table.drop_key(wanted.columns)
            table.write_anew()


def _table_of(pipeline: Pipeline) -> SqlTable:
    target = pipeline.target
    return SqlTable(target.location, target.name, pipeline.source.topic, layout_of(pipeline))
