"""`verify-receipt`: whose signature counts, and what is said to forgeries and to odd files."""

import json
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.cli import receipt_keys
from ledgerstone.erasure.erasure import Stage
from ledgerstone.erasure.receipt import canonical
from ledgerstone.erasure.receipt_issue import issue
from ledgerstone.erasure.sealing import fingerprint_of, public_key_of, sign
from tests.kit.command_line import Done, ledgerstone
from tests.unit.erasure import test_supplement as supplement_making
from tests.unit.erasure.making import SEED, T0, at_stage

KEY = public_key_of(SEED)
MAYBE = {"deadline": (str, type(None)), "met_deadline": (bool, type(None))}
FORGER = bytes([9]) * 32


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A receipt; nobody is trusted yet."""
    monkeypatch.setenv("LEDGERSTONE_RECEIPT_KEYS", str(tmp_path / "settings" / "receipt-keys"))
    path = tmp_path / "receipt.json"
    path.write_bytes(made(SEED))
    return path


def made(seed: bytes) -> bytes:
    erasure = at_stage(Stage.VERIFIED)
    return issue(erasure, cluster_id="c1", signing_seed=seed, now_ms=T0 + 900_000)


def check(path: Path, *arguments: str) -> Done:
    done = ledgerstone("verify-receipt", str(path), *arguments)
    assert "Traceback" not in done.stderr
    return done


def test_without_a_trusted_key_nothing_is_ok(paper: Path) -> None:
    done = check(paper)
    as_json = check(paper, "--json")

    assert done.code == as_json.code == 3
    assert "ok:" not in done.stdout
    assert "UNPROVEN" in done.stdout
    assert "anybody can sign" in done.stdout
    assert fingerprint_of(KEY) in done.stdout
    said = json.loads(as_json.stdout)
    assert (said["ok"], said["intact"], said["trusted"]) == (False, True, False)
    assert said["reasons"]


def with_supplements(path: Path, *, seed: bytes = SEED) -> list[Path]:
    """A receipt that names a group as not verified, and a supplement beside it."""
    erasure = supplement_making.with_receipt()
    added = supplement_making.supplemented(erasure, supplement_making.word(), seed=seed)
    receipt, papers = supplement_making.papers(added)
    path.write_bytes(receipt)
    beside = path.with_name(f"{path.stem}.supplement-1.json")
    beside.write_bytes(papers[0])
    return [beside]


def test_receipt_and_the_supplements_beside_it_are_checked_together(
    paper: Path, tmp_path: Path
) -> None:
    (beside,) = with_supplements(paper)
    elsewhere = tmp_path / "s.json"

    both = check(paper, "--public-key", KEY.hex())
    as_json = check(paper, "--public-key", KEY.hex(), "--json")
    beside.rename(elsewhere)
    alone = check(paper, "--public-key", KEY.hex())
    named = check(paper, str(elsewhere), "--public-key", KEY.hex())

    assert (both.code, alone.code, named.code) == (0, 0, 0), both
    assert "ok: supplement 1 belongs to the receipt" in both.stdout
    assert "Every output that was not verified is by now." in both.stdout
    assert "NOT VERIFIED: group people" in alone.stdout
    assert both.stdout == named.stdout
    said = json.loads(as_json.stdout)
    assert (said["ok"], said["supplements"], said["not_verified"]) == (True, 1, [])


def test_supplement_that_is_altered_foreign_or_forged_is_refused(paper: Path) -> None:
    (beside,) = with_supplements(paper, seed=FORGER)
    forged = check(paper, "--public-key", KEY.hex())
    with_supplements(paper)
    content = beside.read_bytes()
    beside.write_bytes(content.replace(b"0 rows", b"9 rows"))
    altered = check(paper, "--public-key", KEY.hex(), "--json")
    beside.write_bytes(content)
    paper.write_bytes(made(SEED))
    foreign = check(paper, "--public-key", KEY.hex())

    assert (forged.code, altered.code, foreign.code) == (1, 1, 1)
    assert "NOT GOOD: receipt.supplement-1.json: signed by" in forged.stdout
    assert "the signature does not fit" in json.loads(altered.stdout)["reasons"][0]
    assert "that of the receipt: it belongs to another" in foreign.stdout


def test_key_in_a_file_in_hex_or_its_fingerprint_makes_it_ok(paper: Path, tmp_path: Path) -> None:
    file = tmp_path / "public.hex"
    file.write_text(KEY.hex() + "\n")
    given = (str(file), KEY.hex(), KEY.hex().upper(), fingerprint_of(KEY))

    for each in given:
        done = check(paper, "--public-key", each)
        assert (done.code, "ok: signed with" in done.stdout) == (0, True), (each, done)
    as_json = json.loads(check(paper, "--public-key", given[0], "--json").stdout)

    assert (as_json["ok"], as_json["trusted"], as_json["reasons"]) == (True, True, [])


@pytest.mark.parametrize("how", ["hex", "fingerprint", "pinned"])
def test_forgery_signed_by_another_key_is_not_good(paper: Path, how: str) -> None:
    given: tuple[str, ...] = ()
    if how == "pinned":
        receipt_keys.pin(json.loads(paper.read_bytes()))
    else:
        given = ("--public-key", KEY.hex() if how == "hex" else fingerprint_of(KEY))
    paper.write_bytes(made(FORGER))

    done = check(paper, *given)

    assert done.code == 1
    assert f"NOT GOOD: signed by {public_key_of(FORGER).hex()}, not by" in done.stdout


def test_key_that_was_pinned_when_the_receipt_came_is_trusted(paper: Path) -> None:
    receipt_keys.pin(json.loads(paper.read_bytes()))

    done = check(paper)

    assert done.code == 0
    assert "pinned for its cluster since" in done.stdout


def test_pinned_key_is_not_replaced_by_a_later_one(
    paper: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt_keys.pin(json.loads(paper.read_bytes()))

    receipt_keys.pin(json.loads(made(FORGER)))

    assert "WARNING: the broker signs with" in capsys.readouterr().err
    known = receipt_keys.pinned("c1")
    assert known is not None
    assert known.public_key == KEY


@pytest.mark.parametrize("cluster_id", ["a b", "a\nc1 " + "0" * 64 + " x", "", "x" * 65, 7])
def test_odd_name_of_a_cluster_is_not_pinned(paper: Path, cluster_id: object) -> None:
    receipt_keys.pin({"cluster_id": cluster_id, "public_key": KEY.hex()})

    assert receipt_keys.pinned("c1") is None


def test_settings_that_cannot_be_written_are_told_and_nothing_else(
    paper: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEDGERSTONE_RECEIPT_KEYS", str(paper / "no directory" / "keys"))

    receipt_keys.pin(json.loads(paper.read_bytes()))

    assert "was not written down" in capsys.readouterr().err


def test_file_of_keys_that_cannot_be_read_is_one_line(paper: Path, tmp_path: Path) -> None:
    keys = tmp_path / "settings" / "receipt-keys"
    keys.parent.mkdir()
    keys.write_bytes(b"\xff\xfe\x00")
    unreadable = check(paper)
    keys.unlink()
    keys.mkdir()
    directory = check(paper)

    for done in (unreadable, directory):
        assert done.code == 1
        assert "cannot be read" in done.stderr


@pytest.mark.parametrize("given", ["0011", "SHA256:12", "/nowhere/at/all", "SHA256:" + "0" * 65])
def test_what_is_no_key_is_a_usage_error(paper: Path, given: str) -> None:
    assert check(paper, "--public-key", given).code == 2


@pytest.mark.parametrize("odd", [None, True, 7, -1.5, "x", [], {}, [1], {"a": 1}])
def test_odd_kinds_end_in_a_line_and_an_exit_code(paper: Path, odd: Any) -> None:
    content = json.loads(paper.read_bytes())
    for name in content:
        changed = {**content, name: odd}
        if name != "signature":
            del changed["signature"]
            changed["signature"] = sign(SEED, canonical(changed)).hex()
        paper.write_bytes(canonical(changed))

        done = check(paper, "--public-key", KEY.hex())

        # Of the same kind it is a receipt that its owner has signed, whatever it says.
        may_be = (type(content[name]), *MAYBE.get(name, ()))
        assert done.code in ((0, 1) if type(odd) in may_be else (1,)), (name, odd, done)
        assert done.code == 0 or "NOT GOOD" in done.stdout


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"7", b"\xff\xfe", b"{" * 100_000])
def test_file_that_is_no_receipt_is_not_good(paper: Path, content: bytes) -> None:
    paper.write_bytes(content)

    done = check(paper)

    assert done.code == 1
    assert "NOT GOOD" in done.stdout
