"""`ledgerstone audit` on the files of a broker that ran."""

import json
from pathlib import Path
from typing import Any

from tests.kit import command_line
from tests.kit.broker import BrokerProcess, wait_until


def _run(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    done = command_line.ledgerstone("audit", *arguments)
    return done.code, [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]


def _in_topic(bootstrap: str, head: str) -> bool:
    """Once the topic has this line, which comes a moment later."""
    code, _ = _run("verify", "--topic", "--json", "--expect", head, "--bootstrap", bootstrap)
    return code == 0


def test_log_is_verified_shown_redacted_and_broken(tmp_path: Path) -> None:
    audit = tmp_path / "audit"
    settings = {"ledgerstone.audit.dir": str(audit), "ledgerstone.audit.topic.enable": "true"}
    home = tmp_path / "broker"
    home.mkdir()
    with BrokerProcess(home, settings=settings) as broker:
        here = {"LEDGERSTONE_BOOTSTRAP": broker.bootstrap}
        for name in ("tea", "coffee"):
            done = command_line.ledgerstone("topics", "create", name, environment=here)
            assert done.code == 0, done.stderr
        code, (whole,) = _run("verify", str(audit), "--json")
        shown = _run("show", str(audit), "--kind", "topic", "--json")[1]
        at = broker.bootstrap
        wait_until(lambda: _in_topic(at, whole["head"]), "it is in the topic")
        there = _run("show", "--topic", "--kind", "topic", "--json", "--bootstrap", at)[1]
        broker.stop()

    assert there == shown
    assert (code, whole["ok"], whole["last"]) == (0, True, 5)
    assert [each["what"] for each in shown if each["outcome"] == "asked"] == [["tea"], ["coffee"]]
    assert shown[0]["who"]["principal"] == "User:ANONYMOUS"
    assert all(each.stat().st_mode & 0o077 == 0 for each in audit.iterdir())
    (file,) = audit.glob("audit-*.jsonl")
    key = command_line.ledgerstone("audit", "public-key", str(audit)).stdout.strip()
    code, (sealed,) = _run("verify", str(audit), "--json", "--public-key", key)
    assert (code, sealed["sealed_by"], sealed["unsealed"]) == (0, [key], 0)
    assert [each["kind"] for each in _run("show", str(audit), "--json", "--last", "2")[1]] == [
        "stop",
        "audit.seal",
    ]
    assert _run("verify", str(audit), "--public-key", "00" * 32)[0] == 1
    assert _run("redact", str(audit), "2")[0] == 2, "the broker may be writing"
    assert _run("redact", str(audit), "2", "--stopped")[0] == 0
    assert _run("verify", str(audit), "--json", "--expect", whole["head"])[1][0]["redacted"] == 1
    assert "(redacted)" in command_line.ledgerstone("audit", "show", str(audit)).stdout
    kept = file.read_bytes()
    file.write_bytes(b"".join(kept.splitlines(keepends=True)[:4]))
    code, (cut,) = _run("verify", str(audit), "--json", "--expect", whole["head"])
    assert (code, cut["ok"]) == (1, False)
    file.write_bytes(kept.replace(b'"what":["coffee"]', b'"what":["cocoa."]'))
    code, (changed,) = _run("verify", str(audit), "--json")
    assert (code, changed["line"]) == (1, 4)
