"""How far a run has come: rate, lag, and when it will be through. Pure.

The rate is that of the whole run so far, in offsets: what the topic counts, also where records were
compacted away. It is zero before anything is known.
"""

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.applying import BatchReport


@dataclass(slots=True, kw_only=True)
class RunProgress:
    started_ms: int
    batches: int = 0
    done: int = 0  # offsets in the table
    deletes: int = 0
    lag: int = 0  # offsets that are left, as far as they are known
    coming: int = 0  # offsets of the batch that is on its way

    def begins(self, offsets: int, backlog: int) -> None:
        self.coming, self.lag = offsets, backlog

    def ends(self, report: BatchReport) -> None:
        self.batches += 1
        self.done += self.coming
        self.lag = max(self.lag - self.coming, 0)
        self.coming = 0
        self.deletes += report.deletes

    def rows_per_s(self, now_ms: int) -> float:
        return self.done * 1000 / max(now_ms - self.started_ms, 1)

    def eta_s(self, now_ms: int) -> float | None:
        """None if nothing is known yet."""
        rate = self.rows_per_s(now_ms)
        return self.lag / rate if rate else None

    def line(self, now_ms: int, tasks: tuple[int, int] | None = None) -> str:
        """For people; `tasks` are those that have ended, and all, of what runs now."""
        said = [f"{_short(self.rows_per_s(now_ms))} rows/s", f"{_short(self.lag)} behind"]
        said.append(f"{_short(self.deletes)} deletes applied")
        if self.coming:
            where = "" if tasks is None else f", {tasks[0]} of {tasks[1]} tasks"
            said.append(f"batch of {_short(self.coming)}{where}")
        eta_s = self.eta_s(now_ms)
        if self.lag and eta_s is not None:
            said.append(f"{_duration(eta_s)} left")
        return " · ".join(said)


def _short(number: float) -> str:
    for limit, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= limit:
            return f"{number / limit:.1f} {unit}"
    return f"{number:.0f}"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {whole % 60:02d} s" if minutes else f"{whole} s"
