"""A broker in process with users, ACLs and the door of its HTTP port, on a virtual clock."""

import asyncio
from base64 import b64encode
from typing import Any
from urllib.parse import urlencode

from ledgerstone.protocol.messages.create_acls import (
    CreateAclsCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ledgerstone.security.acl import Acl, AclOperation, AclResourceType
from ledgerstone.security.plain import PlainClient
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.doorkeeper import Doorkeeper
from ledgerstone.server.http.server import BadRequest, HttpLine, HttpRequest, Page, Rerouted
from ledgerstone.web.access import Access
from ledgerstone.web.site import PageSite
from tests.kit.in_process import ADDRESS, InProcess
from tests.unit.server.login_kit import LISTENER, SASL, connect, log_in

TOKEN = "00112233445566778899aabbccddeeff"
PORT = 8080
HERE = HttpLine("127.0.0.1")
THERE = HttpLine("192.0.2.7", is_secure=True)
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice",
    "connection.failed.authentication.delay.ms": "0",
}
JSON = {"content-type": "application/json"}


def basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}


def machine_with_users(**settings: str) -> InProcess:
    """`alice` with `secret` is a super user of PLAIN, `bob` with `s` another one."""
    more = {key.replace("_", "."): value for key, value in settings.items()}
    own = (ADDRESS._replace(name=LISTENER),)
    machine = InProcess(settings={**SASL, **AUTHORIZER, **more}, advertised=own)
    machine.advance(1)
    return machine


def allow(
    machine: InProcess,
    name: str,
    operation: AclOperation,
    resource: str,
    kind: AclResourceType = AclResourceType.TOPIC,
) -> None:
    admin = connect(machine)
    log_in(admin, PlainClient("alice", "secret"))
    acl = Acl(kind, resource, 3, f"User:{name}", "*", operation, 3)
    answer = admin.ask(CreateAclsRequest([CreateAclsCreation(*acl)]), CreateAclsResponse)
    assert [each.error_code for each in answer.results] == [0]


class Visit:
    """Requests to the door of a broker, as they come from a connection."""

    def __init__(self, machine: InProcess) -> None:
        broker = machine.broker
        assert broker.authorizer is not None
        self.machine = machine
        self.site = PageSite(Access(TOKEN), broker, lambda: None)
        self.site.opened(PORT, is_local=True)
        self.door = Doorkeeper(broker, broker.authorizer, self.site)
        self.door.opened(PORT)

    def request(self, method: str, path: str, headers: dict[str, str], body: bytes) -> HttpRequest:
        path, _, query = path.partition("?")
        pairs = dict(each.partition("=")[::2] for each in query.split("&")) if query else {}
        given = {"host": f"localhost:{PORT}", **headers}
        return HttpRequest(method, path, pairs, given, body)

    async def admitted(
        self, path: str, headers: dict[str, str] | None = None, line: HttpLine = HERE
    ) -> Asker:
        asked = self.request("GET", path, headers or {}, b"")
        return (await self.door.admit(asked, line)).asker

    def asker(
        self, path: str, headers: dict[str, str] | None = None, line: HttpLine = HERE
    ) -> Asker:
        return asyncio.run(self.admitted(path, headers, line))

    def refusal(
        self, path: str, headers: dict[str, str] | None = None, line: HttpLine = HERE
    ) -> BadRequest:
        try:
            asker = self.asker(path, headers, line)
        except BadRequest as refused:
            return refused
        raise AssertionError(f"{path} lets in {asker}")

    def sent(
        self, path: str, fields: dict[str, str], headers: dict[str, str], line: HttpLine = HERE
    ) -> Page | Rerouted | None:
        """A form, through the door and to it."""

        async def send() -> Page | Rerouted | None:
            asked = self.request("POST", path, headers, urlencode(fields).encode())
            return await self.door.answer(await self.door.admit(asked, line), line)

        return asyncio.run(send())

    def log_in(
        self, name: str, password: str, line: HttpLine = HERE, **fields: str
    ) -> Page | Rerouted | None:
        given = {"username": name, "password": password, **fields}
        return self.sent("/login", given, OWN, line)

    def cookie(self, name: str, password: str) -> dict[str, str]:
        page = self.log_in(name, password)
        assert isinstance(page, Page), page
        return {"cookie": header(page, "Set-Cookie").partition(";")[0]}


OWN = {"origin": f"http://localhost:{PORT}"}


def header(page: Any, name: str) -> str:
    (found,) = [value for key, value in page.headers if key == name]
    return str(found)
