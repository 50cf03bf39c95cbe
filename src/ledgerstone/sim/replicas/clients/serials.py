"""Numbers of records, each given once in a run. Part of sim."""


class Serials:
    def __init__(self) -> None:
        self._next = 0

    def take(self) -> int:
        self._next += 1
        return self._next
