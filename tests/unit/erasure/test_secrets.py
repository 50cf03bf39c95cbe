"""The secrets file is made once, kept to its owner, and refused rather than replaced."""

import json
import os
from pathlib import Path

import pytest

from ledgerstone.clock import Clock
from ledgerstone.erasure.sealing import (
    box_of,
    is_signed_by,
    open_box,
    public_key_of,
    seal,
    seal_for,
    sign,
    unseal,
)
from ledgerstone.erasure.secrets_file import Secrets, load, load_or_create, set_aside, store
from ledgerstone.errors import CorruptFile, CorruptRecord, StorageError
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.system import OsFilesystem, SystemDice

PATH = "/data/erasure.keys"
CLOCK: Clock = VirtualClock()


def disk() -> SimFilesystem:
    fs = SimFilesystem(dice=SeededDice(1), clock=CLOCK)
    fs.make_dir("/data")
    fs.fsync_dir("/")
    return fs


def made(fs: SimFilesystem, seed: int = 2) -> Secrets:
    return load_or_create(fs, PATH, dice=SeededDice(seed), now_ms=77)


def test_nothing_is_loaded_before_the_first_use() -> None:
    assert load(disk(), PATH) is None


def test_secrets_are_the_same_at_every_later_use() -> None:
    fs = disk()

    first = made(fs, seed=2)
    again = made(fs, seed=3)

    assert again == first == load(fs, PATH)
    assert (len(first.salt), len(first.signing_seed), first.created_ms) == (32, 32, 77)
    assert first.salt != first.signing_seed


def test_file_is_private_and_survives_power_loss() -> None:
    fs = disk()
    secrets = made(fs)

    fs.power_loss("none")

    assert fs.mode_of(PATH) == 0o600
    assert load(fs, PATH) == secrets


def test_real_file_has_mode_0600_whatever_the_umask(tmp_path: Path) -> None:
    path = str(tmp_path / "erasure.keys")
    before = os.umask(0)
    try:
        load_or_create(OsFilesystem(), path, dice=SystemDice(), now_ms=1)
    finally:
        os.umask(before)

    assert os.stat(path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_file_that_others_may_touch_is_refused(tmp_path: Path, mode: int) -> None:
    path = str(tmp_path / "erasure.keys")
    load_or_create(OsFilesystem(), path, dice=SystemDice(), now_ms=1)
    os.chmod(path, mode)

    with pytest.raises(StorageError, match=f"has mode {mode:04o}"):
        load(OsFilesystem(), path)


def test_crash_at_any_operation_leaves_no_file_or_a_whole_one() -> None:
    whole = disk()
    made(whole)
    for point in range(disk().operation_count + 1, whole.operation_count + 1):
        fs = disk()
        fs.crash_at(point, torn=True)
        with pytest.raises(SimulatedCrash):
            made(fs)

        fs.power_loss("random")

        found = load(fs, PATH)
        assert found is None or found == load(whole, PATH)
        assert made(fs, seed=9) == (found or load(fs, PATH))


def torn(fs: SimFilesystem, content: bytes) -> None:
    file = fs.open(PATH)
    file.truncate(0)
    file.pwrite(content, 0)


def test_every_torn_prefix_is_refused_and_never_replaced() -> None:
    fs = disk()
    made(fs)
    whole = fs.files()[PATH]

    for size in range(len(whole) - 2):
        torn(fs, whole[:size])

        with pytest.raises(CorruptFile, match="no secrets"):
            made(fs)
        assert fs.files()[PATH] == whole[:size]


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"salt": "AAAA"},
        {"salt": None},
        {"signing_key": "not base64!"},
        {"created_ms": True},
    ],
)
def test_damaged_field_is_refused_without_showing_the_others(change: dict[str, object]) -> None:
    fs = disk()
    made(fs)
    content = json.loads(fs.files()[PATH])
    torn(fs, json.dumps({**content, **change}).encode())

    with pytest.raises(CorruptFile) as caught:
        load(fs, PATH)

    assert content["salt"] not in str(caught.value)
    assert content["signing_key"] not in str(caught.value)


def test_huge_file_is_refused() -> None:
    fs = disk()
    made(fs)
    torn(fs, b"[" * 100_000)

    with pytest.raises(CorruptFile):
        load(fs, PATH)


def test_repr_shows_no_secret() -> None:
    assert repr(made(disk())) == "Secrets(created_ms=77)"


# -- sealing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [b"", b"alice", b"\0" * 100_000])
def test_sealed_key_opens_for_its_erasure(key: bytes) -> None:
    print_key = made(disk()).print_key

    sealed = seal(key, erasure_id="ER-1", print_key=print_key, dice=SeededDice(3))

    assert unseal(sealed, erasure_id="ER-1", print_key=print_key) == key
    assert not key or key not in sealed


def test_sealed_key_opens_for_no_other_erasure_salt_or_bytes() -> None:
    print_key, other = made(disk(), 2).print_key, made(disk(), 3).print_key
    sealed = seal(b"alice", erasure_id="ER-1", print_key=print_key, dice=SeededDice(3))

    with pytest.raises(CorruptRecord, match="ER-2"):
        unseal(sealed, erasure_id="ER-2", print_key=print_key)
    with pytest.raises(CorruptRecord):
        unseal(sealed, erasure_id="ER-1", print_key=other)
    for at in range(len(sealed)):
        changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        with pytest.raises(CorruptRecord):
            unseal(changed, erasure_id="ER-1", print_key=print_key)
    with pytest.raises(CorruptRecord):
        unseal(sealed[:20], erasure_id="ER-1", print_key=print_key)


def test_signature_holds_for_its_bytes_and_its_key_only() -> None:
    seed, other = bytes(32), bytes([1]) * 32
    signature = sign(seed, b"data")

    assert is_signed_by(public_key_of(seed), signature, b"data")
    assert not is_signed_by(public_key_of(other), signature, b"data")
    assert not is_signed_by(public_key_of(seed), signature, b"dato")
    assert not is_signed_by(b"short", signature, b"data")
    assert not is_signed_by(public_key_of(seed), b"", b"data")


# -- on the way to another broker -----------------------------------------------------------------


def test_what_is_sealed_for_a_broker_opens_there_and_nowhere_else() -> None:
    seed, other = bytes([1]) * 32, bytes([2]) * 32
    sealed = seal_for(box_of(seed), b"the secrets", context=b"cluster 3", dice=SeededDice(1))

    assert b"the secrets" not in sealed
    assert open_box(seed, sealed, context=b"cluster 3") == b"the secrets"
    for wrong_seed, context in ((other, b"cluster 3"), (seed, b"cluster 2")):
        with pytest.raises(ValueError, match="sealed for another"):
            open_box(wrong_seed, sealed, context=context)
    again = seal_for(box_of(seed), b"the secrets", context=b"cluster 3", dice=SeededDice(2))
    assert again != sealed


def test_sealed_secrets_that_were_changed_do_not_open() -> None:
    seed = bytes([1]) * 32
    sealed = seal_for(box_of(seed), b"the secrets", context=b"c", dice=SeededDice(1))

    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1
        with pytest.raises(ValueError, match=r"."):
            open_box(seed, bytes(changed), context=b"c")
    for length in (0, 31, 59, len(sealed) - 1):
        with pytest.raises(ValueError, match=r"."):
            open_box(seed, sealed[:length], context=b"c")


def test_crash_at_any_operation_of_a_replacement_loses_neither_secrets() -> None:
    base = disk()
    own, others = made(base, seed=2), made(disk(), seed=3)
    public_key = public_key_of(own.signing_seed).hex()

    for n in range(1, 40):
        fs = base.clone()
        fs.crash_at(n)
        try:
            set_aside(fs, PATH, own, public_key=public_key)
            store(fs, PATH, others)
        except SimulatedCrash:
            fs.power_loss("random")
            found = [
                load(fs, f"/data/{name}") for name in fs.list_dir("/data") if ".tmp" not in name
            ]
            assert own in found, n
            assert load(fs, PATH) in (None, own, others), n
        else:
            assert load(fs, PATH) == others
            assert load(fs, f"{PATH}.aside-{public_key[:16]}") == own
            return
    raise AssertionError("it never came to its end")
