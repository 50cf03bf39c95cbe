"""One micro-batch from its plan to the table's transaction. Shell.

The driver hands out ranges, gets counts and names back, and commits. The order is that of README,
rule 2: tasks sort out bad records and send dead letters before the table's positions move.
"""

from collections.abc import Sequence

from ledgerstone.pipeline.applying import BatchReport, moved_positions
from ledgerstone.pipeline.bad_records import refused
from ledgerstone.pipeline.batch_planning import BatchPlanner, PlannedBatch
from ledgerstone.pipeline.definition import OnBadRecord, Pipeline
from ledgerstone.pipeline.read_task import ReadDone, ReadJob, read_job
from ledgerstone.pipeline.tables.target import Executors, Positions, TableTarget


class BatchWriter:
    """Caches the table's positions, so that the table is read only once."""

    def __init__(
        self,
        pipeline: Pipeline,
        target: TableTarget,
        planner: BatchPlanner,
        executors: Executors,
    ) -> None:
        self._pipeline = pipeline
        self._target = target
        self._planner = planner
        self._executors = executors
        self.positions: Positions = target.positions()

    def write(self, batch: PlannedBatch) -> BatchReport:
        stage = self._target.stage(batch.incoming)
        topic_id = None if batch.followed is None else batch.followed.topic_id
        jobs = [
            ReadJob(
                self._pipeline, each, topic_id, self._planner.connection, self._planner.rows, stage
            )
            for each in batch.ranges
        ]
        done = self._executors.run(read_job, jobs)
        self._refuse(done)
        ends = {**batch.ends, **{each.partition: each.next_offset for each in done}}
        moved = moved_positions(self.positions, ends)
        applied = self._target.apply_staged(stage, [each.staged for each in done], moved)
        self.positions |= moved
        return BatchReport(
            changes=sum(each.changes for each in done),
            already_applied=0,
            bad=sum(each.bad for each in done),
            upserts=applied.upserts,
            deletes=applied.deletes,
            positions=dict(self.positions),
            topic=self._pipeline.source.topic,
        )

    def _refuse(self, done: Sequence[ReadDone]) -> None:
        bad = sum(each.bad for each in done)
        if bad and self._pipeline.on_bad_record is OnBadRecord.FAIL:
            named = [record for each in done for record in each.named]
            raise refused(named, bad)
