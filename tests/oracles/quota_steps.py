"""Our quota machines, driven by the same lines as Apache Kafka's (tools/golden/quota_oracle.py)."""

from collections.abc import Sequence

from ledgerstone.errors import ThrottlingQuotaExceeded
from ledgerstone.quotas.counters import QuotaCounters, RateCounter, mutation_counters, rate_counters
from ledgerstone.quotas.entities import QuotaEntity
from ledgerstone.quotas.mutations import MutationQuota
from ledgerstone.quotas.rate import NO_BOUND

NANOS_OF_A_PERCENT = 1e7
JAVAS_LARGEST = 1.7976931348623157e308


class OurQuotas:
    def __init__(self, samples: int = 11, window_s: int = 1) -> None:
        window_ms = window_s * 1000
        self._samples, self._window_s = samples, window_s
        self._rates: dict[str, QuotaCounters[RateCounter]] = {
            "produce": rate_counters(samples=samples, window_ms=window_ms),
            "fetch": rate_counters(samples=samples, window_ms=window_ms),
            "request": rate_counters(
                samples=samples,
                window_ms=window_ms,
                longest_ms=window_ms,
                scale=NANOS_OF_A_PERCENT,
            ),
        }
        self._mutations = mutation_counters(samples=samples, window_ms=window_ms)
        self._bounds: dict[str, dict[QuotaEntity, float]] = {}
        self._now_ms = 0

    def answer(self, step: Sequence[str]) -> str:
        verb, quota, user, client, value = step[:5]
        if verb == "set":
            self._set(quota, user, client, value)
            return "ok"
        self._now_ms = int(step[5])
        if quota == "mutation":
            return self._mutate(verb, user, client, int(value), int(step[6]))
        return self._count(verb, quota, user, client, int(value))

    def _set(self, quota: str, user: str, client: str, value: str) -> None:
        parts = {
            kind: None if name == "*" else name
            for kind, name in (("user", user), ("client-id", client))
            if name != "-"
        }
        bounds = self._bounds.setdefault(quota, {})
        entity = QuotaEntity.of(parts)
        if value == "-":
            bounds.pop(entity, None)
        else:
            bounds[entity] = float(value)
        counters = self._mutations if quota == "mutation" else self._rates[quota]
        counters.follow(bounds)

    def _count(self, verb: str, quota: str, user: str, client: str, value: int) -> str:
        counters, now_ms = self._rates[quota], self._now_ms
        if verb == "most":
            if not counters.is_active:
                return str(JAVAS_LARGEST).replace("e+", "E").replace("e", "E")
            bound = counters.get(user, client).bound
            if quota == "request":
                bound /= NANOS_OF_A_PERCENT
            most = JAVAS_LARGEST
            if bound < NO_BOUND / 2:
                most = bound * (self._samples - 1) * self._window_s
            return java_double(most)
        if verb == "record":
            # Nothing is counted while nobody has a quota.
            if not counters.is_active:
                return "0"
            return str(counters.get(user, client).record(value, now_ms))
        counters.get(user, client).record_only(-value if verb == "back" else value, now_ms)
        return "ok"

    def _mutate(self, verb: str, user: str, client: str, count: int, later_ms: int) -> str:
        if not self._mutations.is_active:
            return "0 0 0"
        counter = self._mutations.get(user, client)
        quota = MutationQuota(counter, lambda: self._now_ms, is_strict=verb == "strict")
        outcome = 0
        try:
            quota.take(count)
        except ThrottlingQuotaExceeded as error:
            outcome = error.code
        at_once = quota.throttle_ms()
        self._now_ms += later_ms
        return f"{outcome} {at_once} {quota.throttle_ms()}"


def java_double(value: float) -> str:
    """As Java writes a double."""
    text = repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return text
    mantissa, exponent = f"{value:.17e}".split("e")
    digits = repr(float(text)).replace(".", "").split("e")[0].rstrip("0")
    return f"{digits[0]}.{digits[1:] or '0'}E{int(exponent)}" if mantissa else text
