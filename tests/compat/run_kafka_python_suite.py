"""kafka-python's own integration suite against a running Ledgerstone. A program, not a test file.

Its source package carries test/integration, but not the Java brokers those tests usually start. So
the package is unpacked under .cache/, a broker of ours is started, and the suite is told that its
broker is an external one. Its tests of logins and TLS want brokers of their own: those are ours,
too (`kafka_python_brokers`). Arguments go to pytest: `-k test_group`. README.md has the results.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

from tests.kit.broker import BrokerProcess  # noqa: E402

VERSION = "3.0.12"
CACHE = REPOSITORY / ".cache" / "kafka-python-suite"
TREE = CACHE / f"kafka_python-{VERSION}"
EXTRAS = CACHE / "extras"
# Missing in a development environment of ours: what the suite needs beside the package itself.
EXTRA_PACKAGES = ("pytest-timeout", "python-snappy")

# The suite imports this module, which its source package leaves out, and uses nothing of it when
# the broker is an external one.
SERVICE_MODULE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    pass
"""

# What the suite writes into the properties of the brokers it starts itself.
SETTINGS = {
    "node.id": "0",
    "num.partitions": "4",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}

# Each starts brokers with settings of its own.
WITH_OWN_BROKERS = ("test_sasl_integration.py", "test_ssl_integration.py")


def unpack() -> None:
    """Once; the cache is kept."""
    if (TREE / "test" / "service.py").exists():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = [*pip, "download", "--no-deps", "--no-binary", ":all:", f"kafka-python=={VERSION}"]
    subprocess.run(source, cwd=CACHE, check=True)
    extras = [*pip, "install", "--no-deps", "--target", str(EXTRAS), *EXTRA_PACKAGES]
    subprocess.run(extras, check=True)
    with tarfile.open(CACHE / f"kafka_python-{VERSION}.tar.gz") as archive:
        archive.extractall(CACHE, filter="data")
    # Without this file Python's own package `test` would win.
    (TREE / "test" / "__init__.py").touch()
    (TREE / "test" / "service.py").write_text(SERVICE_MODULE, encoding="utf-8")


def run(bootstrap: str | None, arguments: list[str]) -> int:
    """None: the tests that start brokers themselves."""
    environment = os.environ | {
        "KAFKA_VERSION": "4.3",
        # Only looked at to see that it is a directory.
        "KAFKA_ROOT": str(CACHE),
        "PYTHONPATH": os.pathsep.join([str(TREE), str(EXTRAS), str(REPOSITORY)]),
    }
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(TREE), "-q"]
    command += ["-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning", "--tb=short"]
    command += ["--timeout=120", "--durations=5", "--log-level=WARNING", "-rs", *arguments]
    files = [f"test/integration/{name}" for name in WITH_OWN_BROKERS]
    if bootstrap is None:
        command += ["-p", "tests.compat.kafka_python_brokers", *files]
    else:
        environment["KAFKA_URI"] = f"kafka://{bootstrap}"
        command += [f"--ignore={file}" for file in files]
        command += ["test/integration"]
    return subprocess.run(command, cwd=TREE, env=environment, check=False).returncode


def main() -> int:
    unpack()
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory), dict(SETTINGS))
        with broker:
            code = run(broker.bootstrap, sys.argv[1:])
            broker.stop()
    return run(None, sys.argv[1:]) or code


if __name__ == "__main__":
    sys.exit(main())
