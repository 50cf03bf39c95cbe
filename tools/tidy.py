"""House rules no linter knows, as checks that name the replacement. Shell; part of `make check`.

Each rule is a generator over one parsed file, so a test can feed it a snippet. The rules and their
reasons are in CONTRIBUTING.md; what ruff, mypy and import-linter already say is not said again.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from import_rings import graph_of, module_name, rings_of

REPOSITORY: Final = Path(__file__).resolve().parent.parent
MAX_FUNCTION_LINES: Final = 70
# The ratchet: functions that are longer, and how long each may be at most. Numbers only go down.
LONG_FUNCTIONS: Final[Mapping[str, int]] = {}
LARGEST_SHOWN: Final = 5
# The ratchet: import rings, each by one of its modules, and how many modules it may have at most.
# Numbers only go down, and no ring is added.
RINGS: Final[Mapping[str, int]] = {}
# Class names that several modules define because they mean the same thing there.
SAME_NOUN: Final[Mapping[str, str]] = {
    "CommittedOffset": "what a group committed, at both ends of the wire",
    "ConfigEntry": "one setting in DescribeConfigs, at both ends of the wire",
    "ConfigSource": "Kafka's numbers for where a setting was made, at both ends of the wire",
    "Endpoint": "host and port of a broker, at both ends of the wire",
    "Member": "a member of a group, and the simulated client that plays one",
    "Producer": "our producer, and the simulated one",
    "ResourceType": "Kafka's numbers for what has settings, at both ends of the wire",
    "VirtualClock": "a clock that tests move: the simulator's, and that of our pytest plugin",
}
# The ratchet: class names that still stand for two things. Names are only taken out.
# fmt: off
TWO_MEANINGS: Final = (
    # of the quorum, and of the broker or its clients
    "Answered", "Applied", "Asked", "Candidate", "Failed", "Follower", "Following", "Leader",
    "Leadership", "Listener", "Now", "Peer", "Peers", "Progress", "Send",
    # of the simulated quorum, and of the simulated cluster
    "Cluster", "Config", "Hands", "Host", "Network", "Scenario",
    # of transactions: the client's, the coordinator's, the simulated ones
    "TxnState",
)
# fmt: on
GENERATED: Final = ("requirements/",)
MADE_BY_CODEGEN: Final = "src/ledgerstone/protocol/messages/"
# The simulated world stands in for the outside one; grades say nothing about it.
UNGRADED: Final = ("src/ledgerstone/sim/",)

GRADE: Final = re.compile(r"\b(?:Grade [PDS]|Pure|Disk|Shell)\b")
PURE: Final = re.compile(r"\b(?:Grade P|Pure)\b")
SHELL: Final = re.compile(r"\b(?:Grade S|Shell)\b")
# Leftovers must name the issue that will remove them, as in "(#12)".
MARKER: Final = re.compile(r"\b(?:TODO|FIXME|XXX)(?=[:\s(]|$)(?!.{0,3}#\d)")
MACHINE_PATH: Final = re.compile(r"(?<![\w.:/$}>~-])/(?:work|farm|root|tmp|home/\w+)/\w")
INDEX_HOST: Final = re.compile(r"\bpypi\.org\b|pythonhosted\.org|https?://[^\s/]+/simple\b")

# What the outside world comes in through. import-linter follows these through other modules for a
# list kept by hand; here they hold for every module that calls itself pure, new ones included.
# fmt: off
OUTSIDE: Final = (
    "asyncio", "concurrent", "fcntl", "io", "logging", "mmap", "multiprocessing", "os",
    "pathlib", "random", "secrets", "select", "selectors", "shutil", "signal", "socket", "ssl",
    "subprocess", "tempfile", "threading", "time",
)
# fmt: on
ALLOWED_WITH_A_DISK: Final = ("io", "logging")


class Finding(NamedTuple):
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the repository's root, and its tree."""

    path: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Of the whole tree. To walk it costs more than every rule that looks at its nodes."""
        return list(ast.walk(self.tree))

    @property
    def is_library(self) -> bool:
        return self.path.startswith("src/")

    @cached_property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree) or ""


Rule = Callable[[Source], Iterator[Finding]]


def docstring_present(source: Source) -> Iterator[Finding]:
    if not source.docstring.strip():
        yield Finding(
            source.path, 1, "no module docstring: say what it owns, its grade, its contract"
        )


def grade_named(source: Source) -> Iterator[Finding]:
    if not source.is_library or source.path.endswith(("/__init__.py", "/__main__.py")):
        return
    if source.path.startswith(UNGRADED) or not source.docstring:
        return
    if not GRADE.search(source.docstring):
        yield Finding(source.path, 1, "docstring names no grade: write Grade P, Grade D or Shell")


def pure_means_pure(source: Source) -> Iterator[Finding]:
    if not (source.is_library and PURE.search(source.docstring)):
        return
    for node in source.nodes:
        for module in _imported_modules(node):
            if module.partition(".")[0] in OUTSIDE:
                message = f"a pure module imports {module}: have it handed in, or change the grade"
                yield Finding(source.path, node.lineno, message)  # type: ignore[attr-defined]


def only_shells_touch_the_world(source: Source) -> Iterator[Finding]:
    if not source.is_library or source.path.startswith(UNGRADED) or not source.docstring:
        return
    if SHELL.search(source.docstring) or PURE.search(source.docstring):
        return  # The rule for pure modules is stricter.
    for node in source.nodes:
        for module in _imported_modules(node):
            name = module.partition(".")[0]
            if name in OUTSIDE and name not in ALLOWED_WITH_A_DISK:
                message = f"imports {module} and is no shell: have it handed in, or call it Shell"
                yield Finding(source.path, node.lineno, message)  # type: ignore[attr-defined]


def _imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module]
    return []


def dataclasses_are_ours(source: Source) -> Iterator[Finding]:
    if not source.is_library or source.path == "src/ledgerstone/dataclasses.py":
        return
    for node in source.nodes:
        if not (isinstance(node, ast.ImportFrom) and node.module == "dataclasses"):
            continue
        if any(alias.name == "dataclass" for alias in node.names):
            message = "a dataclass of the standard library: take ledgerstone.dataclasses"
            yield Finding(source.path, node.lineno, message)


def no_print(source: Source) -> Iterator[Finding]:
    if not source.is_library or source.path.startswith("src/ledgerstone/cli/"):
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            yield Finding(source.path, node.lineno, "print: return the fact, or log it in a shell")


def no_wall_clock(source: Source) -> Iterator[Finding]:
    if not source.path.startswith(("src/", "tests/")):
        return
    calls = ("datetime.now", "datetime.utcnow", "datetime.today", "date.today")
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and ast.unparse(node).endswith(calls):
            yield Finding(source.path, node.lineno, f"{ast.unparse(node)}: use the Clock handed in")


def no_naked_except(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield Finding(source.path, node.lineno, "naked except: name what you can handle")


def no_set_iteration(source: Source) -> Iterator[Finding]:
    if not source.is_library:
        return
    for scope in source.nodes:
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            yield from _set_iterations_of(source.path, scope)


def _set_iterations_of(path: str, scope: ast.AST) -> Iterator[Finding]:
    nodes = list(_walk_scope(scope))
    set_names = _names_bound_to_sets(nodes)
    for node in nodes:
        for walked in _walked_expressions(node):
            if _is_set(walked) or (isinstance(walked, ast.Name) and walked.id in set_names):
                message = f"iterates a set ({ast.unparse(walked)}): order differs between runs"
                yield Finding(path, walked.lineno, f"{message}; sorted() it, or keep a dict")


def _walk_scope(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of one scope, without those of the functions defined inside it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _walk_scope(child)


def _names_bound_to_sets(nodes: list[ast.AST]) -> dict[str, None]:
    names: dict[str, None] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_set(value):
                names[name] = None
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                if _is_set(value):
                    names[name] = None
    return names


def _walked_expressions(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.For(iter=walked) | ast.AsyncFor(iter=walked) | ast.comprehension(iter=walked):
            return [walked]
        case ast.Starred(value=walked):
            return [walked]
        case ast.Call(func=ast.Name(id="list" | "tuple" | "enumerate" | "iter"), args=[walked]):
            return [walked]
    return []


def _is_set(node: ast.expr) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
    return False


def functions_fit_a_screen(source: Source) -> Iterator[Finding]:
    for qualified, node in _functions(source.tree, ""):
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        limit = LONG_FUNCTIONS.get(f"{source.path}:{qualified}", MAX_FUNCTION_LINES)
        if length > limit:
            message = f"{qualified} has {length} lines, at most {limit}: branches up, loops down"
            yield Finding(source.path, node.lineno, message)
        elif MAX_FUNCTION_LINES < limit != length:
            message = f"{qualified} shrank to {length} lines: lower its number in LONG_FUNCTIONS"
            yield Finding(source.path, node.lineno, message)


def _functions(
    node: ast.AST, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # Most of a tree, and it defines no function.
        name = prefix
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}.{child.name}" if prefix else child.name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, child
        yield from _functions(child, name)


RULES: Final[tuple[Rule, ...]] = (
    docstring_present,
    grade_named,
    pure_means_pure,
    only_shells_touch_the_world,
    dataclasses_are_ours,
    no_print,
    no_wall_clock,
    no_naked_except,
    no_set_iteration,
    functions_fit_a_screen,
)


def check_python(path: str, text: str) -> list[Finding]:
    return check_source(Source(path, ast.parse(text, path)))


def check_source(source: Source) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(source)]


def check_text(path: str, text: str) -> list[Finding]:
    """The rules that hold for every tracked file: leftovers, and traces of one machine."""
    found: list[Finding] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if MARKER.search(line):
            found.append(Finding(path, number, "leftover marker without an issue number"))
        if MACHINE_PATH.search(line):
            found.append(Finding(path, number, "a path of one machine"))
        if INDEX_HOST.search(line):
            found.append(Finding(path, number, "a package index by name: leave it to the user"))
    return found


def check_rings(
    trees: Mapping[str, ast.Module], allowed: Mapping[str, int]
) -> tuple[list[Finding], str]:
    """Of the modules given by path; and the largest ring in words."""
    paths = {module_name(path): path for path in trees}
    rings = rings_of(graph_of({module_name(path): tree for path, tree in trees.items()}))
    found: list[Finding] = []
    shown = "none"
    for ring in rings:
        names = [name for name in allowed if name in ring]
        limit = max((allowed[name] for name in names), default=0)
        name = names[0] if names else ring[0]
        if ring is rings[0]:
            shown = f"{name} {len(ring)}"
        if len(ring) > limit:
            message = f"an import ring of {len(ring)} modules, at most {limit}: {', '.join(ring)}"
            found.append(Finding(paths[name], 1, message))
        elif len(ring) < limit:
            message = f"its import ring shrank to {len(ring)} modules: lower its number in RINGS"
            found.append(Finding(paths[name], 1, message))
    in_a_ring = {name for ring in rings for name in ring}
    for name in allowed:
        if name not in in_a_ring:
            message = f"{name} is in no import ring any more: take it out of RINGS"
            found.append(Finding(paths.get(name, "tools/tidy.py"), 1, message))
    return found, shown


def check_class_names(
    trees: Mapping[str, ast.Module], same_noun: Mapping[str, str], two_meanings: Sequence[str] = ()
) -> list[Finding]:
    """One class name, one thing. Names with an underscore are a module's own. Protocols that share
    a name are narrow views of the same thing."""
    homes: dict[str, list[tuple[str, int]]] = {}
    classes: dict[str, None] = {}
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append((path, node.lineno))
                if not any(ast.unparse(base).startswith("Protocol") for base in node.bases):
                    classes[node.name] = None
    found: list[Finding] = []
    for name, places in homes.items():
        if name in (*same_noun, *two_meanings) or name not in classes:
            continue
        for path, line in places[1:]:
            message = f"{name} is also a class of {places[0][0]}: give one a name of its own"
            found.append(Finding(path, line, message))
    for name in (*same_noun, *two_meanings):
        if len(homes.get(name, ())) < 2:
            listed = "SAME_NOUN" if name in same_noun else "TWO_MEANINGS"
            message = f"{name} is one class now: take it out of {listed}"
            found.append(Finding("tools/tidy.py", 1, message))
    return found


def tracked_files() -> list[str]:
    """What git would commit; in a tree without git, every file outside hidden directories."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:
        everything = (path.relative_to(REPOSITORY) for path in REPOSITORY.rglob("*"))
        names = [
            str(path)
            for path in everything
            if not any(part.startswith(".") or part == "__pycache__" for part in path.parts)
        ]
    return sorted(name for name in names if (REPOSITORY / name).is_file())


def _read_text(name: str) -> str | None:
    try:
        return (REPOSITORY / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def main() -> int:
    findings: list[Finding] = []
    sizes: list[tuple[int, str]] = []
    trees: dict[str, ast.Module] = {}
    for name in tracked_files():
        text = _read_text(name)
        if text is None:
            continue
        if not name.startswith(GENERATED):
            findings += check_text(name, text)
        if name.endswith(".py"):
            source = Source(name, ast.parse(text, name))
            findings += check_source(source)
            if name.startswith("src/") and not name.startswith(MADE_BY_CODEGEN):
                sizes.append((text.count("\n"), name))
                trees[name] = source.tree
    ring_findings, largest_ring = check_rings(trees, RINGS)
    findings += ring_findings
    findings += check_class_names(trees, SAME_NOUN, TWO_MEANINGS)
    for finding in findings:
        print(finding)
    largest = sorted(sizes, reverse=True)[:LARGEST_SHOWN]
    print("largest:", ", ".join(f"{name.removeprefix('src/')} {lines}" for lines, name in largest))
    print("largest import ring:", largest_ring)
    print(f"tidy: {len(findings)} findings" if findings else "tidy: clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
