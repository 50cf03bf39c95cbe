"""Whatever a broker leaves in its directory, `ledgerstone dump` has a name for it."""

from ledgerstone.fs import join
from ledgerstone.storage.dump_facts import FileFormat, format_of
from tests.kit.in_process import DATA, Client, InProcess
from tests.unit.server.asks import commit_offset
from tests.unit.server.test_cleaning import compact_now, compacted, put, roll


def formats(machine: InProcess, directory: str = DATA) -> dict[str, FileFormat]:
    found = {}
    for name in machine.fs.list_dir(directory):
        path = join(directory, name)
        if machine.fs.is_dir(path):
            found.update(formats(machine, path))
        else:
            found[path] = format_of(name)
    return found


def test_no_file_of_a_broker_that_works_is_foreign(machine: InProcess, client: Client) -> None:
    compacted(client)
    put(machine, client, ("a", "1"), ("a", "2"))
    commit_offset(client, "group", 1)
    compact_now(machine)
    machine.advance(120_000)
    # An unsynced end gets its mark, and what is replaced lies there for a while.
    put(machine, client, ("a", "3"))
    roll(machine)

    found = formats(machine)

    assert FileFormat.FOREIGN not in found.values()
    assert {FileFormat.CLEANING_HISTORY, FileFormat.FOLLOWS_MARK, FileFormat.LOCK} <= set(
        found.values()
    )
