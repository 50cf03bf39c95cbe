"""A transaction coordinator as plain as it can be: no log, no waiting, one record per id.

Written from Kafka's TransactionCoordinator.scala and TransactionMetadata.java (4.3), not from ours.
"""

from dataclasses import dataclass, field

OK, ABORTED_BY_FENCE = 0, 51
NONE = -1
Reply = tuple[int, int, int]


@dataclass
class PlainId:
    pid: int
    timeout: int
    epoch: int = NONE
    prev: int = NONE
    last: int = NONE
    state: str = "Empty"
    partitions: set[tuple[str, int]] = field(default_factory=set)
    start: int = NONE
    update: int = 0


@dataclass
class PlainCoordinator:
    """Every change is committed, and every marker written, before the call returns."""

    next_pid: int
    ids: dict[str, PlainId] = field(default_factory=dict)
    markers: list[tuple[int, int, bool, tuple[tuple[str, int], ...]]] = field(default_factory=list)

    def _fresh(self) -> int:
        self.next_pid += 1
        return self.next_pid - 1

    def init(self, name: str, timeout: int, expected: tuple[int, int] | None, now: int) -> Reply:
        if name not in self.ids:
            self.ids[name] = PlainId(self._fresh(), timeout)
        it = self.ids[name]
        is_right = (
            expected is None
            or it.epoch == NONE
            or expected[0] == it.pid
            or (expected[0] == it.prev and expected[1] >= 32766)
        )
        if not is_right:
            return (90, NONE, NONE)
        if it.state == "Ongoing":
            self._end(it, commit=False, bump=True, now=now)
            return (51, NONE, NONE)
        asked = None if expected is None else expected[1]
        if it.epoch >= 32766 and asked in (None, it.epoch):
            it.prev, it.last = it.pid, it.epoch if asked is not None else NONE
            it.pid, it.epoch = self._fresh(), 0
        elif asked is None:
            it.prev, it.last, it.epoch = it.pid, NONE, it.epoch + 1
        elif it.epoch in (NONE, asked):
            it.prev, it.last, it.epoch = it.pid, it.epoch, it.epoch + 1
        elif asked == it.last:
            it.prev = it.pid
        else:
            return (90, NONE, NONE)
        it.state, it.partitions, it.start = "Empty", set(), NONE
        it.timeout, it.update = timeout, now
        return (OK, it.pid, it.epoch)

    def add(self, name: str, pid: int, epoch: int, what: list[tuple[str, int]], now: int) -> int:
        it = self.ids.get(name)
        if it is None or it.pid != pid:
            return 49
        if it.epoch != epoch:
            return 90
        if it.state == "Ongoing" and set(what) <= it.partitions:
            return OK
        if it.state != "Ongoing":
            it.state, it.start = "Ongoing", now
        it.partitions |= set(what)
        it.prev, it.update = it.pid, now
        return OK

    def end(self, name: str, pid: int, epoch: int, *, commit: bool, v2: bool, now: int) -> Reply:
        it = self.ids.get(name)
        if it is None:
            return (49, NONE, NONE)
        code = self._judge_v2(it, pid, epoch, commit) if v2 else self._judge(it, pid, epoch, commit)
        if code == "write":
            self._end(it, commit=commit, bump=v2, now=now)
        elif code != OK:
            assert isinstance(code, int)
            return (code, NONE, NONE)
        return (OK, it.pid, it.epoch) if v2 else (OK, NONE, NONE)

    def _judge(self, it: PlainId, pid: int, epoch: int, commit: bool) -> int | str:
        if it.pid != pid:
            return 49
        if it.epoch != epoch:
            return 90
        if it.state == "Ongoing":
            return "write"
        return OK if it.state == ("CompleteCommit" if commit else "CompleteAbort") else 48

    def _judge_v2(self, it: PlainId, pid: int, epoch: int, commit: bool) -> int | str:
        overflowed = it.prev == pid and epoch == 32766 and it.epoch == 0
        if it.pid != pid and not overflowed:
            return 49
        repeated = it.epoch == epoch + 1 or overflowed
        if it.state in ("Ongoing", "Empty"):
            if it.epoch != epoch:
                return 90
            return "write" if it.state == "Ongoing" or not commit else 48
        if not repeated and it.epoch != epoch:
            return 90
        if repeated:
            return OK if it.state == ("CompleteCommit" if commit else "CompleteAbort") else 48
        return 48 if commit else "write"

    def _end(self, it: PlainId, *, commit: bool, bump: bool, now: int) -> None:
        """Prepare, markers and Complete."""
        epoch, next_pid = it.epoch, NONE
        if it.state != "Ongoing":
            it.start = now
        if bump:
            it.last = epoch
            if epoch >= 32766:
                next_pid = self._fresh()
            epoch = min(epoch + 1, 32767)
        self.markers.append((it.pid, epoch, commit, tuple(sorted(it.partitions))))
        it.prev, it.epoch = it.pid, epoch
        if next_pid != NONE:
            it.pid, it.epoch = next_pid, 0
        it.state = "CompleteCommit" if commit else "CompleteAbort"
        it.partitions, it.update = set(), now

    def time_out(self, now: int) -> None:
        for it in self.ids.values():
            if it.state == "Ongoing" and it.start + it.timeout < now:
                self._end(it, commit=False, bump=True, now=now)

    def expire(self, before: int) -> None:
        for name, it in list(self.ids.items()):
            if it.state != "Ongoing" and it.update <= before:
                del self.ids[name]

    def forget_last_epochs(self) -> None:
        """They are not in the log."""
        for it in self.ids.values():
            it.last = NONE
