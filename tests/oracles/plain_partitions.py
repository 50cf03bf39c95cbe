"""The partitions of a cluster as plainly as they can be kept: lists that are changed in place, and
every event walks over all of them.

Written from Kafka's PartitionChangeBuilder.java and ReplicationControlManager.java (4.3), not from
ours. Where we differ on purpose (README.md of metadata) the line says so.
"""

from dataclasses import dataclass, field

NONE = -1
MIGRATING, UNASSIGNED, LOST = (bytes(15) + bytes([number]) for number in (0, 1, 2))


@dataclass
class PlainPartition:
    replicas: list[int]
    isr: list[int]
    leader: int
    directories: list[bytes]
    leader_epoch: int = 0
    epoch: int = 0
    recovering: bool = False
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    elr: list[int] = field(default_factory=list)
    last_known: list[int] = field(default_factory=list)


@dataclass
class PlainBroker:
    dirs: list[bytes]
    fenced: bool = True
    stopping: bool = False


@dataclass
class PlainCluster:
    elr_on: bool = False
    brokers: dict[int, PlainBroker] = field(default_factory=dict)
    partitions: dict[tuple[str, int], PlainPartition] = field(default_factory=dict)
    min_isr: dict[str, int] = field(default_factory=dict)
    unclean: dict[str, bool] = field(default_factory=dict)

    # -- events ------------------------------------------------------------------------------

    def fence(self, broker: int) -> None:
        self._leave_isrs(broker)
        self.brokers[broker].fenced = True

    def stop(self, broker: int) -> None:
        self._leave_isrs(broker)
        self.brokers[broker].stopping = True

    def unfence(self, broker: int) -> None:
        self.brokers[broker].fenced = False
        for key, it in sorted(self.partitions.items()):
            if it.leader == NONE:
                self.change(key)

    def register(self, broker: int, dirs: list[bytes], clean: bool) -> None:
        if clean or not self.elr_on:
            self._leave_isrs(broker)
        else:
            self._lose(broker)
        self.brokers[broker] = PlainBroker(dirs)

    def unregister(self, broker: int) -> None:
        self._lose(broker)
        del self.brokers[broker]

    def lose_dirs(self, broker: int, gone: list[bytes]) -> None:
        for key, it in sorted(self.partitions.items()):
            if any(each in gone for each in it.directories):
                self.change(key, isr=[b for b in it.isr if b != broker], never=broker)
        self.brokers[broker].dirs = [d for d in self.brokers[broker].dirs if d not in gone]

    def set_min_isr(self, topic: str, value: int) -> None:
        self.min_isr[topic] = value
        if not self.elr_on:
            return
        for (name, _), it in self.partitions.items():
            if name == topic and (it.elr or it.last_known):
                it.elr, it.last_known = [], []
                it.epoch += 1

    def set_unclean(self, topic: str, value: bool) -> None:
        self.unclean[topic] = value
        # Ours elects at once; Kafka waits for the next event or for five minutes.
        for key, it in sorted(self.partitions.items()):
            if key[0] == topic and value and it.leader == NONE:
                self.change(key, kind="unclean")

    def balance(self) -> None:
        for key, it in sorted(self.partitions.items()):
            if it.leader != it.replicas[0]:
                self.change(key, kind="preferred")

    def alter(self, key: tuple[str, int], isr: list[int]) -> None:
        self.change(key, isr=isr, recovering=False)

    def reassign(self, key: tuple[str, int], target: list[int]) -> None:
        it = self.partitions[key]
        removing = sorted(set(it.replicas) - set(target))
        adding = sorted(set(target) - set(it.replicas))
        if not adding:
            adding = [b for b in it.adding if b in target]
        self.change(
            key, replicas=target + removing, adding=adding, removing=removing, kind="online"
        )

    def cancel(self, key: tuple[str, int]) -> bool:
        it = self.partitions[key]
        replicas = [b for b in it.replicas if b not in it.adding]
        isr = [b for b in it.isr if b not in it.adding]
        recovering = None
        if not isr:
            if not self.unclean.get(key[0]):
                return False
            # Ours says that records may be lost; Kafka does not.
            isr, recovering = [replicas[0]], True
        self.change(key, replicas=replicas, isr=isr, adding=[], removing=[], recovering=recovering)
        return True

    def assign(self, key: tuple[str, int], broker: int, directory: bytes) -> None:
        it = self.partitions[key]
        directories = list(it.directories)
        directories[it.replicas.index(broker)] = directory
        self.change(key, directories=directories, kind="online")

    def _leave_isrs(self, broker: int) -> None:
        for key, it in sorted(self.partitions.items()):
            if broker in it.isr:
                self.change(key, isr=[b for b in it.isr if b != broker], never=broker)

    def _lose(self, broker: int) -> None:
        for key, it in sorted(self.partitions.items()):
            if broker in it.isr or broker in it.elr:
                isr = [b for b in it.isr if b != broker]
                self.change(key, isr=isr, never=broker, lost=broker)

    # -- the change --------------------------------------------------------------------------

    def change(
        self,
        key: tuple[str, int],
        *,
        isr: list[int] | None = None,
        replicas: list[int] | None = None,
        adding: list[int] | None = None,
        removing: list[int] | None = None,
        directories: list[bytes] | None = None,
        recovering: bool | None = None,
        never: int = NONE,
        lost: int = NONE,
        kind: str = "",
    ) -> bool:
        """Whether anything changed."""
        it, topic = self.partitions[key], key[0]
        kind = kind or ("unclean" if self.unclean.get(topic) else "online")
        new_isr = list(it.isr if isr is None else isr)
        new_replicas = list(it.replicas if replicas is None else replicas)
        new_adding = list(it.adding if adding is None else adding)
        new_removing = list(it.removing if removing is None else removing)
        if _is_reassigned(new_replicas, new_isr, new_adding, new_removing):
            new_isr = [b for b in new_isr if b not in new_removing]
            new_replicas = [b for b in new_replicas if b not in new_removing]
            new_adding, new_removing = [], []
        new_elr = self._eligible(it, topic, new_isr, new_replicas, lost)

        leader, unclean = self._elect(it, kind, new_isr, new_elr, new_replicas, never)
        named = None
        if leader != it.leader:
            named = leader
            if unclean:
                new_isr, new_elr = [leader], []
            elif leader in new_elr:
                new_isr = [leader]
                new_elr.remove(leader)
        elif not set(it.replicas) <= set(new_replicas):
            named = leader
        if not self.elr_on:
            new_elr = []
        if not new_isr and not self.elr_on:
            new_isr = list(it.isr)

        new_last = self._last_known(it, named)
        new_directories = directories
        if new_directories is None:
            where = dict(zip(it.replicas, it.directories, strict=True))
            new_directories = [where.get(b, self._default(b)) for b in new_replicas]
        new_recovering = it.recovering if recovering is None else recovering
        if named is not None and unclean:
            new_recovering = True

        after = PlainPartition(
            replicas=new_replicas,
            isr=new_isr,
            leader=leader,
            directories=new_directories,
            leader_epoch=it.leader_epoch,
            epoch=it.epoch,
            recovering=new_recovering,
            adding=new_adding,
            removing=new_removing,
            elr=new_elr,
            last_known=new_last,
        )
        has_changed = after != it or named is not None
        after.epoch += has_changed
        after.leader_epoch += named is not None
        self.partitions[key] = after
        return has_changed

    def _last_known(self, it: PlainPartition, named: int | None) -> list[int]:
        if self.elr_on and named == NONE and not it.last_known and it.leader != NONE:
            return [it.leader]
        if self.elr_on and named not in (None, NONE):
            return []
        return list(it.last_known)

    def _eligible(
        self, it: PlainPartition, topic: str, isr: list[int], replicas: list[int], lost: int
    ) -> list[int]:
        if not self.elr_on:
            return list(it.elr)
        smallest = len(self.partitions[topic, 0].replicas)
        if len(isr) >= min(self.min_isr.get(topic, 1), smallest):
            return []
        # Ours never keeps one that is no replica any more.
        known = set(it.elr) | set(it.isr)
        return sorted(b for b in known if b in replicas and b != lost and b not in isr)

    def _elect(
        self,
        it: PlainPartition,
        kind: str,
        isr: list[int],
        elr: list[int],
        replicas: list[int],
        never: int,
    ) -> tuple[int, bool]:
        def alive(b: int) -> bool:
            broker = self.brokers.get(b)
            if broker is None or broker.fenced or broker.stopping or b == never:
                return False
            directory = MIGRATING
            if b in it.replicas:
                directory = it.directories[it.replicas.index(b)]
            if directory == LOST:
                return False
            return directory in (MIGRATING, UNASSIGNED) or directory in broker.dirs

        candidates = isr if isr else elr
        good = [b for b in replicas if b in candidates and alive(b)]
        if kind == "preferred" and replicas[0] in good:
            return replicas[0], False
        if it.leader in candidates and alive(it.leader):
            return it.leader, False
        if good:
            return good[0], False
        last = it.last_known
        if self.elr_on and not isr and not elr and len(last) == 1 and alive(last[0]):
            return last[0], True
        living = [b for b in replicas if alive(b)]
        if kind == "unclean" and living:
            return living[0], True
        return NONE, False

    def _default(self, broker: int) -> bytes:
        dirs = self.brokers[broker].dirs if broker in self.brokers else [MIGRATING, MIGRATING]
        return UNASSIGNED if len(dirs) > 1 else dirs[0] if dirs else MIGRATING


def _is_reassigned(
    replicas: list[int], isr: list[int], adding: list[int], removing: list[int]
) -> bool:
    if not adding and not removing:
        return False
    staying = [b for b in replicas if b not in removing]
    in_sync = [b for b in isr if b not in removing]
    is_done = bool(in_sync) and bool(staying) and set(adding) <= set(in_sync)
    if len(adding) < len(removing):
        is_done = is_done and set(staying) <= set(in_sync)
    return is_done
