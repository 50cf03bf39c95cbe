"""The stage that asks who a connection is before anything else is done for it. Grade D.

SaslHandshake and SaslAuthenticate look at the session themselves. ApiVersions may come before the
login. Everything else needs one that is complete and has not expired.
"""

from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request
from ledgerstone.server.session import Login
from ledgerstone.server.stages import Handler


def authenticated(api_key: int, handler: Handler[Broker]) -> Handler[Broker]:
    if api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        return handler

    def checked(broker: Broker, request: Request, message: ApiMessage) -> Answer:
        session = request.session
        if session.sasl is None:
            return handler(broker, request, message)
        is_complete = session.login is Login.COMPLETE
        if is_complete and not broker.logins.has_expired(session.sasl):
            return handler(broker, request, message)
        if api_key == ApiKey.API_VERSIONS and session.login is Login.AWAITED:
            broker.logins.versions_asked(request)
            return handler(broker, request, message)
        return broker.logins.refused(request, message)

    return checked
