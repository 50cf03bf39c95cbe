"""The steps of the demo, in order, and the check after each. Shell.

A step that does not do what it says raises; the rules are in README.md.
"""

import time
from pathlib import Path
from typing import Any, Final

from ledgerstone.cli.admin_http import AdminApi, apis_of
from ledgerstone.client.blocking import Client
from ledgerstone.demo import forgetting, passing_time, streaming, table_side
from ledgerstone.demo.broker_process import DemoBroker
from ledgerstone.demo.checking import Check, check_equal
from ledgerstone.demo.encoding import AUTHORS, FILES, Author, definitions, listing
from ledgerstone.demo.errors import DemoFailed
from ledgerstone.demo.history import History, short
from ledgerstone.demo.table_side import SparkTables
from ledgerstone.demo.telling import Teller, counted, in_bytes
from ledgerstone.state.points import AtOffsets

SHOWN_ROWS: Final = 3


class Story:
    """The steps, in the order in which they are shown."""

    def __init__(
        self,
        teller: Teller,
        history: History,
        client: Client,
        broker: DemoBroker,
        directory: Path,
    ) -> None:
        self._teller = teller
        self._history = history
        self._client = client
        self._broker = broker
        self._directory = directory
        self._api: AdminApi = apis_of(client)[0]
        self._truth = history.truth(history.last.commit_id)
        self._definitions: dict[str, dict[str, Any]] = {}
        self.checks: list[Check] = []
        self.sizes: list[passing_time.Sizes] = []

    def tell(self, tables: SparkTables | None) -> None:
        streamed = self._stream()
        self._look_back(streamed)
        if tables is not None:
            self._fill_tables(tables)
        self._compact()
        self._let_a_day_pass()
        if tables is not None:
            self._verify_table(tables)
        self._forget(_least_known(streamed), tables)
        if tables is not None:
            tables.no_more()

    # -- into the log ----------------------------------------------------------------------------

    def _stream(self) -> streaming.Streamed:
        with self._teller.step("the history goes into a compacted topic") as step:
            started_s = time.monotonic()
            streaming.create_topics(self._client, self._history)

            def on_progress(written: int, total: int) -> None:
                step.progress(f"{written} of {total} records")

            done = streaming.stream(self._client, self._history, on_progress)
            rate = done.records / max(time.monotonic() - started_s, 0.001)
            step.say(
                f"{done.records} records, {done.tombstones} of them tombstones, "
                f"{in_bytes(done.bytes)}; {rate:.0f} records/s, acks=all, idempotent"
            )
            keys = {FILES: streaming.paths_of(self._history.commits), AUTHORS: done.encoder.authors}
            self._definitions = definitions(self._broker.bootstrap, keys)
        return done

    def _look_back(self, streamed: streaming.Streamed) -> None:
        with self._teller.step("the log is folded: now, and as it was") as step:
            state = self._check_state("the topic, folded")
            self._note("written", state)
            commit = self._history.commits[self._history.middle() - 1]
            past = streaming.fold(self._client, AtOffsets(streamed.middle_offsets))
            if past.because is not None:
                raise DemoFailed(f"the state at {streamed.middle_offsets}: {past.because}")
            truth = self._history.truth(commit.commit_id)
            what = "the topic at earlier offsets"
            self.checks.append(
                check_equal(what, short(commit.commit_id), found=past.listing, truth=truth)
            )
            ends = ", ".join(f"{each}:{end}" for each, end in streamed.middle_offsets.items())
            step.say(f"{state.live_keys} files now; {past.live_keys} at offsets {ends}")

    def _check_state(self, what: str) -> streaming.FoldedState:
        state = streaming.fold(self._client)
        self._check(what, state.listing)
        return state

    def _check(self, what: str, found: bytes) -> None:
        commit_id = short(self._history.last.commit_id)
        self.checks.append(check_equal(what, commit_id, found=found, truth=self._truth))

    def _note(self, when: str, state: streaming.FoldedState) -> None:
        disk = passing_time.on_disk(self._broker.data, FILES)
        self.sizes.append(passing_time.Sizes(when, disk, state.records, state.deleted_keys))

    # -- into a table ----------------------------------------------------------------------------

    def _fill_tables(self, tables: SparkTables) -> None:
        with self._teller.step("Spark has started meanwhile"):
            tables.wait()
        with self._teller.step("Spark makes tables of the topics") as step:
            status = tables.run(self._definitions[FILES])
            step.progress("the authors")
            tables.run(self._definitions[AUTHORS])
            self._check("the SQLite table", listing(table_side.tree_rows(tables.database)))
            step.say(f"{status['upserts']} rows, exactly the files that are left; the largest:")
            for path, size_bytes, author, commit in table_side.largest_files(
                tables.database, SHOWN_ROWS
            ):
                step.say(f"  {in_bytes(size_bytes):>8}  author {author}  {commit}  {path}")

    def _verify_table(self, tables: SparkTables) -> None:
        with self._teller.step("Spark compares table and compacted topic, key by key") as step:
            found = tables.verify(self._definitions[FILES])
            if not found["is_equal"]:
                raise DemoFailed(f"table and topic differ: {found['examples'][:3]}")
            step.say(f"{found['live']} rows, the same bytes")

    # -- time passes -----------------------------------------------------------------------------

    def _compact(self) -> None:
        with self._teller.step("compaction") as step:
            done = passing_time.compact(self._api, FILES)
            state = self._check_state("the topic, compacted")
            self._note("compacted", state)
            step.say(
                f"{done.superseded} superseded records are gone, {done.stamped} tombstones may be "
                "removed in a day"
            )

    def _let_a_day_pass(self) -> None:
        with self._teller.step("25 hours pass") as step:
            passing_time.advance(self._api, passing_time.PAST_THE_HORIZON_MS)
            passing_time.wait_for_tombstones(self._api, FILES)
            passing_time.advance(self._api, passing_time.PAST_THE_DELAY_MS)
            state = self._check_state("the topic, a day later")
            if state.deleted_keys:
                raise DemoFailed(f"{state.deleted_keys} tombstones are left after their horizon")
            self._note("a day later", state)
            step.say("no command was needed: the broker removed the tombstones when they were due")

    # -- a person is forgotten -------------------------------------------------------------------

    def _forget(self, author: Author, tables: SparkTables | None) -> None:
        name = author.key.decode("utf-8", "replace")
        with self._teller.step(f"{name!r} is erased, with a receipt") as step:

            def downstream() -> list[forgetting.Finding]:
                assert tables is not None
                step.progress("the table follows")
                definition = self._definitions[AUTHORS]
                tables.run(definition)
                if table_side.count_author(tables.database, author.key):
                    raise DemoFailed(f"the table still has {name!r}")
                return tables.purge(definition, author.key)

            erasing = forgetting.Forgetting(self._api, self._directory, self._broker.data, author)
            done = erasing.run(None if tables is None else downstream)
            self._check_state("the topic, in the end")
            step.say(
                f"{counted(author.commits, 'record')} in {counted(done.files_before, 'file')} "
                f"before; of {done.files_searched} files now, logs and tables, none holds the key"
            )
            step.say(
                f"{done.erasure_id}: {done.virtual_ms / passing_time.HOUR_MS:.1f} h of the broker's"
                f" time, a signed receipt of {in_bytes(done.receipt_bytes)} that verifies"
            )


def _least_known(streamed: streaming.Streamed) -> Author:
    """The author with the fewest commits, and of those the latest to appear."""
    return min(streamed.encoder.authors.values(), key=lambda each: (each.commits, -each.number))
