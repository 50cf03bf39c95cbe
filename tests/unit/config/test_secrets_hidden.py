"""What is printed of settings, by a log line or a traceback, shows no secret of them."""

from ledgerstone.client.security import client_security
from ledgerstone.config.broker import (
    load_broker_config,
    secrets_of,
    secrets_of_command_line,
)
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.server.login.settings import listener_logins
from ledgerstone.tls.settings import tls_settings

SECRET = "hunter2"
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGIN = f'{JAAS} username="a" password="{SECRET}" user_a="{SECRET}";'
SENSITIVE = [name for name, key in BROKER_KEYS.items() if key.is_sensitive]


def every_secret() -> dict[str, str]:
    """Each sensitive key there is, for all listeners and for one."""
    given = dict.fromkeys(SENSITIVE, SECRET)
    given |= {f"listener.name.outside.{name}": SECRET for name in SENSITIVE}
    given |= {name: LOGIN for name in given if name.endswith("sasl.jaas.config")}
    return given


def test_settings_of_a_broker_hide_every_sensitive_key() -> None:
    overrides = [f"{name}={value}" for name, value in every_secret().items()]
    overrides += ["listeners=OUTSIDE://127.0.0.1:1", "no.such.password=" + SECRET]
    overrides += ["listener.security.protocol.map=OUTSIDE:PLAINTEXT"]

    loaded = load_broker_config(overrides=overrides)

    assert loaded.config.raw["ssl.key.password"] == SECRET
    assert SECRET not in repr(loaded)
    assert len(SENSITIVE) >= 6


def test_logins_of_a_listener_hide_passwords() -> None:
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    overrides = ["listeners=SASL_PLAINTEXT://127.0.0.1:1", "sasl.enabled.mechanisms=PLAIN"]
    config = load_broker_config(overrides=[*overrides, f"{key}={LOGIN}"]).config

    logins = listener_logins(config, b"k" * 32)

    assert len(logins["SASL_PLAINTEXT"].plain or ()) == 1
    assert SECRET not in repr(logins)


def test_settings_of_a_client_hide_passwords_and_keys() -> None:
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": LOGIN,
        "ssl.keystore.location": "/k.p12",
        "ssl.keystore.password": SECRET,
        "ssl.key.password": SECRET,
        "ssl.truststore.location": "/t.p12",
        "ssl.truststore.password": SECRET,
    }

    security = client_security(properties)

    assert security.account is not None
    assert security.account.password == SECRET
    assert security.tls is not None
    assert security.tls.keystore is not None
    assert security.tls.keystore.password == SECRET
    assert SECRET not in repr(security)


def test_key_that_stands_in_the_settings_is_hidden() -> None:
    settings = tls_settings(
        {
            "ssl.keystore.key": SECRET,
            "ssl.keystore.certificate.chain": "C",
            "ssl.keystore.type": "PEM",
        }
    )

    assert settings.keystore is not None
    assert settings.keystore.key == SECRET
    assert SECRET not in repr(settings)


def test_secrets_in_a_file_and_on_the_command_line_are_found_by_their_keys() -> None:
    own = "listener.name.outside.ssl.keystore.password"
    text = f"node.id=1\n{own}=x\nssl.key.password=\nunknown.password=x\n"

    assert secrets_of(text.encode()) == [own]
    assert secrets_of_command_line(["node.id=1", f"{own}=x"]) == [own]


def test_later_file_goes_before_an_earlier_one() -> None:
    files = [b"node.id=1\nlog.dirs=/a\n", b"log.dirs=/b\n"]

    config = load_broker_config(properties=files, environment={}).config

    assert (config.node_id, config.log_dirs) == (1, ("/b",))


def test_setting_that_names_a_file_or_a_variable_is_plain_text() -> None:
    """Kafka's providers read files for whoever may set a key (CVE-2024-31141)."""
    text = "${file:/etc/hostname:x} ${env:PATH} ${directory:/etc:hostname}"

    config = load_broker_config(properties=f"ssl.key.password={text}".encode()).config

    assert config.raw["ssl.key.password"] == text
