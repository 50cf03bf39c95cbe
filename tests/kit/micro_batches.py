"""The rows of a micro-batch without Spark: each piece is a partition, or one task has them all."""

import pickle
from collections.abc import Sequence
from typing import Any

from ledgerstone.pipeline.streams.staging import ArrowFunction, Columns


class HeldRows:
    def __init__(self, pieces: Sequence[Columns], *, alone: bool) -> None:
        self._pieces = [each for each in pieces if len(each[0])]
        self.at_most = sum(len(each[0]) for each in self._pieces) if alone else None

    def run(self, function: ArrowFunction, *, alone: bool) -> list[Any]:
        """The function goes to its tasks as bytes, as it does with Spark."""
        sent = pickle.dumps(function)
        tasks = [self._pieces] if alone else [[each] for each in self._pieces]
        found = [
            cell
            for pieces in tasks
            for array in pickle.loads(sent)(iter(pieces))
            for cell in array.to_pylist()
        ]
        assert len(found) == sum(len(each[0]) for each in self._pieces), "a cell for each row"
        return [pickle.loads(each) for each in found if each is not None]
