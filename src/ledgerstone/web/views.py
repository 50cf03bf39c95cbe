"""The routes of all views, and the fragments that are sent again when they change. Grade D.

The first matching route wins, so fixed words come before names. To add a page: a module
with a view, a template that extends `layout.html`, a line here.
"""

from collections.abc import Mapping
from typing import Final

from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import Asker
from ledgerstone.web.actions import (
    abort_transaction,
    acknowledge_missed,
    cancel_erasure,
    compact_topic,
    erase_key,
)
from ledgerstone.web.anatomy import anatomy_fragment, anatomy_view
from ledgerstone.web.cleaner_view import (
    cleaner_fragment,
    cleaner_internal_fragment,
    cleaner_ratios_fragment,
    cleaner_runs_fragment,
    cleaner_view,
)
from ledgerstone.web.cluster import cluster_fragment, cluster_view
from ledgerstone.web.erasures import (
    erasure_fragment,
    erasure_view,
    erasures_fragment,
    erasures_view,
    receipt_json,
    receipt_text,
    supplement_json,
)
from ledgerstone.web.groups import group_view, groups_fragment, groups_view
from ledgerstone.web.key_history import key_history_view
from ledgerstone.web.latest import latest_view
from ledgerstone.web.logging_in import login_view
from ledgerstone.web.overview import overview_fragment, overview_view
from ledgerstone.web.pipelines import pipelines_fragment, pipelines_view
from ledgerstone.web.producing import produce_record, produce_view
from ledgerstone.web.quotas import quotas_view
from ledgerstone.web.records import record_view, records_view
from ledgerstone.web.replicas import replicas_view
from ledgerstone.web.router import Fragment, Rendered, Route
from ledgerstone.web.topic import partitions_fragment, topic_view
from ledgerstone.web.topics import (
    create_topic,
    internal_topics_fragment,
    topics_fragment,
    topics_view,
)
from ledgerstone.web.transactions import transactions_view

ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/", overview_view),
    Route("GET", "/topics", topics_view),
    Route("POST", "/topics", create_topic),
    Route("GET", "/topics/{topic}", topic_view),
    Route("GET", "/topics/{topic}/records", records_view),
    Route("GET", "/topics/{topic}/records/{partition}/{offset}", record_view),
    Route("GET", "/topics/{topic}/latest", latest_view),
    Route("GET", "/topics/{topic}/produce", produce_view),
    Route("POST", "/topics/{topic}/produce", produce_record),
    Route("POST", "/topics/{topic}/compact", compact_topic),
    Route("GET", "/topics/{topic}/anatomy", anatomy_view),
    Route("GET", "/topics/{topic}/replicas", replicas_view),
    Route("GET", "/topics/{topic}/keys", key_history_view),
    Route("POST", "/topics/{topic}/keys", key_history_view),
    Route("GET", "/cluster", cluster_view, asks_peers=True),
    Route("GET", "/cleaner", cleaner_view),
    Route("GET", "/erasures", erasures_view),
    Route("POST", "/erasures", erase_key),
    Route("GET", "/erasures/{erasure}", erasure_view),
    Route("POST", "/erasures/{erasure}/cancel", cancel_erasure),
    Route("GET", "/erasures/{erasure}/receipt.json", receipt_json),
    Route("GET", "/erasures/{erasure}/receipt.txt", receipt_text),
    Route("GET", "/erasures/{erasure}/supplements/{number}", supplement_json),
    Route("GET", "/transactions", transactions_view),
    Route("POST", "/transactions/abort", abort_transaction),
    Route("GET", "/quotas", quotas_view),
    Route("GET", "/groups", groups_view),
    Route("GET", "/groups/{group}", group_view),
    Route("POST", "/groups/{group}/missed", acknowledge_missed),
    Route("GET", "/pipelines", pipelines_view),
)

# Only where there is an authorizer.
LOGIN_ROUTES: Final = (Route("GET", "/login", login_view),)


def _samples(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("samples_fragment.html", {})


# `/events?show=overview,samples`, or with an argument: `/events?show=partitions:orders`.
FRAGMENTS: Final[Mapping[str, Fragment]] = {
    "overview": overview_fragment,
    "samples": _samples,
    "topics": topics_fragment,
    "internal_topics": internal_topics_fragment,
    "partitions": partitions_fragment,
    "anatomy": anatomy_fragment,
    "cluster": cluster_fragment,
    "cleaner": cleaner_fragment,
    "cleaner_runs": cleaner_runs_fragment,
    "cleaner_internal": cleaner_internal_fragment,
    "cleaner_ratios": cleaner_ratios_fragment,
    "erasures": erasures_fragment,
    "erasure": erasure_fragment,
    "groups": groups_fragment,
    "pipelines": pipelines_fragment,
}
