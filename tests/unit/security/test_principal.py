"""Principals are written as ACLs write them."""

from ledgerstone.security.principal import ANONYMOUS, Principal


def test_a_principal_is_written_as_kind_and_name() -> None:
    assert str(Principal("User", "CN=ann,O=x")) == "User:CN=ann,O=x"
    assert str(ANONYMOUS) == "User:ANONYMOUS"
