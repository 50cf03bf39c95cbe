"""Who this node logs in as on the listeners of others. Pure.

The same line of JAAS that names the users of a listener has the node's own name and password, as in
Kafka: `username` and `password`.
"""

from typing import Final

from ledgerstone.clock import Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.listener_keys import listener_values
from ledgerstone.errors import ConfigError
from ledgerstone.security.accounts import CLIENT_MECHANISMS, Account, MakeLogin, login_maker
from ledgerstone.server.login.settings import jaas_key, jaas_of

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
    if mechanism not in CLIENT_MECHANISMS:
        raise ConfigError(key, mechanism, f"must be one of {', '.join(CLIENT_MECHANISMS)}")
    jaas = jaas_of(values, listener, mechanism)
    options = {} if jaas is None else jaas.options
    name, password = options.get("username"), options.get("password")
    if not name or not password:
        reason = "must have the username and password of this node itself"
        raise ConfigError(jaas_key(listener, mechanism), "[hidden]", reason)
    return Account(mechanism, name, password)
