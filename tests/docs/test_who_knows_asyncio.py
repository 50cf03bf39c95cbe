"""ARCHITECTURE.md, "Invariants": which modules know asyncio."""

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ledgerstone"
ABOVE = ("cli", "demo", "testing", "web")
IN_SERVER = {"runtime", "dialling", "bootstrap", "http/server", "worker_process"}


def knows_asyncio(path: Path) -> bool:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if any(name.partition(".")[0] == "asyncio" for name in names):
            return True
    return False


def test_only_shells_of_the_server_know_asyncio() -> None:
    knowing = {
        path.relative_to(SOURCE).with_suffix("").as_posix()
        for path in SOURCE.rglob("*.py")
        if knows_asyncio(path)
    }
    below = {name for name in knowing if name.partition("/")[0] not in ABOVE}
    in_server = {name.removeprefix("server/") for name in below if name.startswith("server/")}

    assert {name for name in below if not name.startswith("server/")} == set()
    assert {name for name in in_server if not name.endswith("/process")} == IN_SERVER
