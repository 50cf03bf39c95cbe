"""The page with the login form. Grade D. The form itself is answered by the HTTP server's door."""

from collections.abc import Mapping

from ledgerstone.server.broker import Broker
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.web.router import Rendered


def login_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    facts = {"why": request.query.get("why", ""), "next": request.query.get("next", "/")}
    return Rendered("login.html", facts)
