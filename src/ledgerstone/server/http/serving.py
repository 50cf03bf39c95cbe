"""The HTTP port of a broker that starts: its routes, its API, its pages, its door. Grade S."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ledgerstone.config.broker import BrokerConfig, Listener
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.monitor_routes import routes
from ledgerstone.server.http.server import Api, HttpRequest, HttpServer, Page, Site, SlowPage

if TYPE_CHECKING:
    import socket

    from ledgerstone.server.http.doorkeeper import Doorkeeper
    from ledgerstone.server.tls_contexts import TlsContexts

# Makes the pages of a broker; the second argument is called when a page has changed something.
MakeSite = Callable[[Broker, Callable[[], None]], Site]


def check_settings(config: BrokerConfig) -> None:
    """Before anything is begun: what is wrong with the settings ends the start."""
    from ledgerstone.server.http.door_settings import certificate_names, trusted_proxy

    certificate_names(config)
    trusted_proxy(config.raw)


async def serve_http(
    broker: Broker,
    sock: "socket.socket",
    make_site: MakeSite | None,
    advertised: Sequence[Listener],
    *,
    tls: "TlsContexts | None",
    wake: Callable[[], None],
) -> tuple[HttpServer, str]:
    """The server, which listens, and its address. `wake` is called when something may be due."""
    config = broker.config

    def reads_only(path: str) -> bool:
        from ledgerstone.server.http import api

        return api.reads_only(path)

    def check_route(request: HttpRequest, page: Page) -> Page:
        from ledgerstone.server.http.gate import shown_to

        return shown_to(broker, request, page)

    site = None if make_site is None else make_site(broker, wake)
    server = HttpServer(
        routes(broker),
        _api(broker, wake),
        site=site,
        is_readonly=config.ledgerstone_http_readonly,
        host_names=(*config.ledgerstone_http_hosts, *(each.host for each in advertised)),
        reads_only=reads_only,
        door=_door(broker, site),
        check_route=check_route,
    )
    is_secure = config.ledgerstone_http_tls
    assert tls is not None or not is_secure
    host, port = await server.start(sock, tls.http if tls is not None and is_secure else None)
    scheme = "https" if is_secure else "http"
    return server, f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _door(broker: Broker, site: Site | None) -> "Doorkeeper | None":
    """Without an authorizer nobody is asked who they are."""
    if broker.authorizer is None:
        return None
    from ledgerstone.server.http.doorkeeper import Doorkeeper

    return Doorkeeper(broker, broker.authorizer, site)


def _api(broker: Broker, wake: Callable[[], None]) -> Api:
    def call(request: HttpRequest) -> Page | SlowPage | None:
        # Imported with the first request: many brokers are never asked anything this way.
        from ledgerstone.server.http import api

        page = api.begin(broker, request)
        # It may have made something due: a pass that was asked for, or what goes by the clock.
        wake()
        return page if page is None or isinstance(page, Page) else awaking(page)

    def awaking(page: SlowPage) -> SlowPage:
        """So may each attempt of a call that has to wait."""
        result: Any = None
        while True:
            try:
                step = page.send(result)
            except StopIteration as end:
                made: Page = end.value
                return made
            finally:
                wake()
            result = yield step

    return call
