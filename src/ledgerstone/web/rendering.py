"""Templates to text. Grade S: reads the package's own files.

Loaded with the first page, in a thread: a broker whose pages are never opened does not pay for it.
Everything a template shows is escaped, an unknown name is an error instead of an empty text, and
all output goes through `wording.visible` first.
"""

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.server.http.asker import ANYBODY, Asker
from ledgerstone.web import wording
from ledgerstone.web.assets import Assets
from ledgerstone.web.peers import PeerWatch
from ledgerstone.web.router import Rendered
from ledgerstone.web.samples import Samples

if TYPE_CHECKING:
    from jinja2 import Environment


class PageFacts(NamedTuple):
    """The `page` of every template. Fragments are rendered once for all readers with the same
    rights, so for them `may_write` is never true and `csrf` is empty."""

    path: str
    now_ms: int
    node_id: int
    cluster_id: str
    bootstrap: str
    version: str
    is_virtual: bool  # the clock can be moved
    samples: Samples
    peers: PeerWatch
    is_cluster: bool = False  # it may have other nodes
    may_write: bool = False
    why_not: str = ""  # why nothing can be changed here
    csrf: str = ""
    notice: str = ""  # what an action has just done
    principal: str = ""  # who is logged in
    has_session: bool = False  # and can log out
    asker: Asker = ANYBODY

    def may(self, operation: str, topic: str) -> bool:
        """Whether a form is worth showing; whoever sends it is asked again."""
        return self.asker.may_on_topic(AclOperation[operation], topic)

    @property
    def may_create(self) -> bool:
        rights, create = self.asker.rights, AclOperation.CREATE
        if rights is None or self.asker.may_on_cluster(create):
            return True
        return rights.may_on_some(create, AclResourceType.TOPIC)


class Renderer:
    """Holds every template, compiled."""

    def __init__(self) -> None:
        self.assets = Assets.load()
        self._environment = _environment(self.assets)
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    def render(self, answer: Rendered, page: PageFacts) -> str:
        template = self._environment.get_template(answer.template)
        return template.render(page=page, **answer.facts)


def _environment(assets: Assets) -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: object) -> object:
        if isinstance(value, str) and not isinstance(value, Markup):
            return wording.visible(value)
        return value

    environment = Environment(
        loader=PackageLoader("ledgerstone.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
    )
    environment.filters |= {
        "as_text": wording.as_text,
        "size": wording.size,
        "grouped": wording.grouped,
        "span": wording.span,
        "away": wording.away,
        "moment": wording.moment,
        "percent": wording.percent,
        "part": _part,
    }
    environment.globals["asset"] = assets.url
    return environment


def _part(text: str) -> str:
    """A text as one part of a path; `urlencode` leaves slashes alone."""
    return quote(text, safe="")
