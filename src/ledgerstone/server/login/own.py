"""Who this node logs in as on the listeners of others. Pure.

The same line of JAAS that names the users of a listener has the node's own name and password, as in
Kafka: `username` and `password`.
"""

from typing import Final

from ledgerstone.clock import Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.listener_keys import listener_values
from ledgerstone.errors import ConfigError
from ledgerstone.security.accounts import Account, MakeLogin, login_maker
from ledgerstone.security.plain import PLAIN
from ledgerstone.security.scram_keys import SCRAM_BY_TEXT
from ledgerstone.server.login.settings import jaas_key, jaas_of

_MECHANISMS: Final = (PLAIN, *SCRAM_BY_TEXT)
_BETWEEN_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"
_TO_CONTROLLERS: Final = "sasl.mechanism.controller.protocol"


def own_login(config: BrokerConfig, listener: str, dice: Dice) -> MakeLogin | None:
    """For connections to listeners of this name; None where they ask for no login."""
    protocol = config.listener_protocols.get(listener)
    if protocol is None or not protocol.uses_sasl:
        return None
    return login_maker(own_account(config, listener), dice)


def own_account(config: BrokerConfig, listener: str) -> Account:
    is_controller = listener in config.cluster.controller_listener_names
    key = _TO_CONTROLLERS if is_controller else _BETWEEN_BROKERS
    values = listener_values(config.raw, listener)
    mechanism = values.get(key, "")
    if mechanism not in _MECHANISMS:
        raise ConfigError(key, mechanism, f"must be one of {', '.join(_MECHANISMS)}")
    if is_controller and config.cluster.is_controller and mechanism in SCRAM_BY_TEXT:
        # As in Kafka, where such a quorum starts and never elects anybody.
        reason = "users of SCRAM are metadata, and voters log in before there is any: use PLAIN"
        raise ConfigError(key, mechanism, reason)
    jaas = jaas_of(values, listener, mechanism)
    options = {} if jaas is None else jaas.options
    name, password = options.get("username"), options.get("password")
    if not name or not password:
        reason = "must have the username and password of this node itself"
        raise ConfigError(jaas_key(listener, mechanism), "[hidden]", reason)
    return Account(mechanism, name, password)
