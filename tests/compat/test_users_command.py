"""`ledgerstone users` against a broker that asks for a login."""

import subprocess
import sys
from pathlib import Path

from ledgerstone.security.jaas import PLAIN_MODULE
from tests.kit.broker import FAST_GROUPS, BrokerProcess


def test_user_is_added_listed_changed_and_removed(tmp_path: Path) -> None:
    server, client = tmp_path / "server.properties", tmp_path / "client.properties"
    server.write_text(
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n"
        "listener.name.sasl_plaintext.plain.sasl.jaas.config="
        f'{PLAIN_MODULE} required user_admin="hush";\n',
        encoding="utf-8",
    )
    _account(client, "PLAIN", "admin", "hush")
    settings = {**FAST_GROUPS, "listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    with BrokerProcess(tmp_path, settings, arguments=("--config", str(server))) as broker:

        def users(*words: str, stdin: str = "", config: Path = client) -> tuple[int, str]:
            command = [sys.executable, "-m", "ledgerstone", "users", *words]
            command += ["--bootstrap", broker.bootstrap, "--command-config", str(config)]
            done = subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=60, check=False
            )
            return done.returncode, done.stdout + done.stderr

        added = users("add", "carol", "--mechanism", "SCRAM-SHA-512", stdin="pencil\n")
        twice = users("add", "carol", stdin="pencil\n")
        carol = tmp_path / "carol.properties"
        _account(carol, "SCRAM-SHA-512", "carol", "pencil")
        listed = users("list", "--json", config=carol)
        changed = users("password", "carol", stdin="brush\n")
        refused = users("list", config=carol)
        removed = users("remove", "carol")
        missing = users("password", "carol", stdin="brush\n")

    assert added == (0, "carol can log in by SCRAM-SHA-512\n")
    assert twice[0] == 1
    assert listed == (0, '{"name": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 8192}\n')
    assert changed[0] == 0
    assert refused[0] == 1
    assert "SASL_AUTHENTICATION_FAILED" in refused[1]
    assert removed == (0, "carol cannot log in by SCRAM-SHA-512 any more\n")
    assert missing == (1, "ledgerstone: there is no user carol\n")


def _account(path: Path, mechanism: str, name: str, password: str) -> None:
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.username={name}\nsasl.password={password}\n",
        encoding="utf-8",
    )
    path.chmod(0o600)
