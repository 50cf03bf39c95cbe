"""Keys of logins: SASL mechanisms, their users, how long a login counts. Pure.

Most of them can be set for one listener alone, as `listener.name.<name>.<key>`; `sasl.jaas.config`
must be, with the mechanism in between.
"""

from typing import Final

from ledgerstone.config.broker_key import BrokerKey, int_key, long_key, text_key
from ledgerstone.config.setting import ConfigType

SASL_KEYS: Final = (
    # Differs from Kafka, where GSSAPI is the default: there is none here.
    text_key(
        "sasl.enabled.mechanisms",
        None,
        "Mechanisms that clients may log in with, comma separated: PLAIN, SCRAM-SHA-256, "
        "SCRAM-SHA-512, OAUTHBEARER.",
    ),
    text_key(
        "sasl.mechanism.inter.broker.protocol",
        None,
        "The mechanism that this broker logs in to other brokers with.",
    ),
    text_key(
        "sasl.mechanism.controller.protocol",
        None,
        "The mechanism that this node logs in to controllers with.",
    ),
    BrokerKey(
        name="sasl.jaas.config",
        kind=ConfigType.PASSWORD,
        default=None,
        doc="Users of PLAIN, and the name and password of this broker itself, in one line of JAAS; "
        "set as listener.name.<name>.<mechanism>.sasl.jaas.config.",
        is_sensitive=True,
    ),
    # Differs from Kafka: 524288, which only Kerberos needs.
    int_key(
        "sasl.server.max.receive.size",
        65_536,
        "The largest request before a login is complete.",
    ),
    long_key(
        "connections.max.reauth.ms",
        0,
        "How long a login counts before the client must log in again; 0: as long as its "
        "credentials do.",
        at_least=0,
    ),
    int_key(
        "connection.failed.authentication.delay.ms",
        100,
        "How long the answer to a failed login, and the end of its connection, are held back.",
        at_least=0,
    ),
    text_key(
        "sasl.oauthbearer.jwks.endpoint.url",
        None,
        "Where the keys are that tokens are checked with: https://…, or file:///….",
    ),
    text_key(
        "sasl.oauthbearer.expected.issuer", None, "Who must have issued a token: its claim iss."
    ),
    text_key(
        "sasl.oauthbearer.expected.audience",
        None,
        "Whom a token must be for, comma separated: one of its claim aud.",
    ),
    text_key("sasl.oauthbearer.sub.claim.name", "sub", "The claim of a token that names the user."),
    text_key(
        "sasl.oauthbearer.scope.claim.name", "scope", "The claim of a token that has its scopes."
    ),
    int_key(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "How far the clocks of issuer and broker may be apart.",
        at_least=0,
    ),
    long_key(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "How often the keys are fetched again.",
    ),
    # Kafka leaves it to connections.max.idle.ms.
    int_key(
        "ledgerstone.login.timeout.ms",
        30_000,
        "How long a connection may take for its login.",
    ),
)
