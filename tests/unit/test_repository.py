"""What the files around the code promise to each other and to a reader."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import ledgerstone
import tidy

ROOT = Path(__file__).resolve().parents[2]
ADR_HEADINGS = ("Context", "Choice", "What we give up", "How we would notice we were wrong")
PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+) \\$", re.MULTILINE)
# Pure by what they do; the contract names them in another role.
NOT_HELD = {
    "ledgerstone.fs": "the protocol that no other pure module may import",
}
LOCKS = ("base", "build", "connect", "dev", "docs", "pyspark-build", "spark")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pyproject() -> dict[str, Any]:
    return tomllib.loads(text_of("pyproject.toml"))


def pins(lock: str) -> dict[str, str]:
    return dict(PIN.findall(text_of(f"requirements/{lock}.txt")))


def names_of(requirements: list[str]) -> list[str]:
    return [re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0] for requirement in requirements]


def markdown_files() -> list[Path]:
    top = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")]
    return sorted(top)


def is_pure(name: str) -> bool:
    graded = name.startswith("src/ledgerstone/") and name.endswith(".py")
    if not graded or name.startswith(tidy.UNGRADED) or name.endswith("__init__.py"):
        return False
    return bool(tidy.PURE.search(tidy.Source(name, ast.parse(text_of(name))).docstring))


def module_of(name: str) -> str:
    return name.removeprefix("src/").removesuffix(".py").replace("/", ".")


def covered(module: str, expressions: list[str]) -> bool:
    package = module.rpartition(".")[0]
    return module in expressions or f"{package}.*" in expressions


def make_targets() -> list[str]:
    return re.findall(r"^([a-z-]+):.*## ", text_of("Makefile"), re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_hashes(lock: str) -> None:
    text = text_of(f"requirements/{lock}.txt")

    blocks = [block for block in re.split(r"\n(?=\S)", text) if PIN.match(block)]

    assert len(blocks) == len(pins(lock)) > 0
    assert [block for block in blocks if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_names_no_package_index(lock: str) -> None:
    text = text_of(f"requirements/{lock}.txt")

    assert re.findall(r"https?://|--index|--extra-index|--find-links|--trusted", text) == []


def test_base_lock_holds_every_dependency_at_the_version_the_tests_ran_with() -> None:
    base, dev = pins("base"), pins("dev")

    assert sorted(set(names_of(pyproject()["project"]["dependencies"])) - set(base)) == []
    assert base == {name: dev[name] for name in base}


def test_lock_of_the_demo_holds_base_and_spark_at_the_versions_the_tests_ran_with() -> None:
    spark, build, dev = pins("spark"), pins("pyspark-build"), pins("dev")

    asked = names_of(pyproject()["project"]["optional-dependencies"]["spark"])

    assert sorted({*asked, *pins("base")} - set(spark)) == []
    assert spark == {name: dev[name] for name in spark}
    assert build == {"setuptools": dev["setuptools"]}


def test_docs_lock_holds_what_the_site_needs_and_moves_nothing_else() -> None:
    docs, dev = pins("docs"), pins("dev")

    asked = names_of(pyproject()["project"]["optional-dependencies"]["docs"])

    assert sorted(set(asked) - set(docs)) == []
    assert {name: pin for name, pin in docs.items() if dev.get(name, pin) != pin} == {}


def test_dev_lock_holds_every_extra_and_the_build_backend() -> None:
    project = pyproject()
    extras = project["project"]["optional-dependencies"]
    asked = {name for extra in extras if extra != "docs" for name in names_of(extras[extra])}

    missing = sorted({*asked, *names_of(project["build-system"]["requires"])} - set(pins("dev")))

    assert missing == []


def test_makefile_has_few_targets_and_each_is_phony() -> None:
    targets = make_targets()
    phony = re.findall(r"^\.PHONY: (.*)$", text_of("Makefile"), re.MULTILINE)[0].split()

    assert len(targets) <= 15
    assert sorted(targets) == sorted(phony)


@pytest.mark.parametrize("path", markdown_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_links_in_a_document_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    commands = re.findall(r"`make ([a-z-]+)", text) + re.findall(r"^make ([a-z-]+)", text, re.M)
    links = [link for link in LINK.findall(text) if "://" not in link]

    assert [command for command in commands if command not in make_targets()] == []
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_ci_runs_the_command_the_readme_names() -> None:
    ci = text_of(".ci/run").splitlines()

    assert "make test" in ci
    assert "make test" in text_of("README.md")
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
    assert (ROOT / "tools/setup").stat().st_mode & 0o111


def test_decisions_are_numbered_without_gaps_and_answer_the_same_four_questions() -> None:
    records = sorted((ROOT / "docs/adr").glob("*.md"))

    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    for path in records:
        headings = re.findall(r"^## (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert tuple(headings) == ADR_HEADINGS, path.name


def test_architecture_fits_in_one_sitting() -> None:
    assert len(text_of("ARCHITECTURE.md").splitlines()) <= 200


def test_every_module_that_calls_itself_pure_is_held_to_it_through_its_imports() -> None:
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    held = next(contract["source_modules"] for contract in contracts if contract["id"] == "pure")

    modules = [module_of(name) for name in tidy.tracked_files() if is_pure(name)]

    assert modules
    assert [name for name in modules if not covered(name, held) and name not in NOT_HELD] == []


def test_every_main_package_explains_itself() -> None:
    packages = [path.parent for path in (ROOT / "src/ledgerstone").glob("*/__init__.py")]

    assert [path.name for path in packages if not (path / "README.md").exists()] == []


def test_every_package_has_its_tests_where_the_map_says() -> None:
    packages = [path.parent.name for path in (ROOT / "src/ledgerstone").glob("*/__init__.py")]

    # These need a broker, a browser or the whole repository, and have directories of their own.
    elsewhere = {"demo": "tests/demo", "testing": "tests/testing", "web": "tests/web"}
    expected = [elsewhere.get(name, f"tests/unit/{name}") for name in packages]

    assert [path for path in expected if not list((ROOT / path).glob("test_*.py"))] == []


def test_the_map_names_every_module_that_knows_asyncio() -> None:
    source = ROOT / "src/ledgerstone"
    imports = re.compile(r"^\s*(?:import|from) asyncio\b", re.MULTILINE)
    knowing = [
        path.relative_to(source).with_suffix("").as_posix().replace("/", ".")
        for path in sorted(source.rglob("*.py"))
        if imports.search(path.read_text(encoding="utf-8"))
    ]

    sentence = next(
        part for part in text_of("ARCHITECTURE.md").split("\n- ") if "know asyncio" in part
    )

    assert sorted(re.findall(r"`([\w.]+)`", sentence)) == knowing


def test_changelog_has_the_version_or_is_collecting_it() -> None:
    changelog = text_of("CHANGELOG.md")

    assert "## [Unreleased]" in changelog or f"## [{ledgerstone.__version__}]" in changelog
    assert "### Formats" in changelog
