"""Import rings of the library: modules that import each other, directly or through others. Pure.

Imports under TYPE_CHECKING and inside functions count: they hide a ring from the interpreter, not
from a reader, who has to understand all of its modules at once.
"""

import ast
from collections.abc import Iterator, Mapping

Graph = Mapping[str, frozenset[str]]


def module_name(path: str) -> str:
    """`src/ledgerstone/clock.py` is `ledgerstone.clock`."""
    name = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def graph_of(trees: Mapping[str, ast.Module]) -> Graph:
    """Which modules each module imports, of those that are given by name."""
    return {
        name: frozenset(_imported(tree, trees)) - {name} for name, tree in sorted(trees.items())
    }


def _imported(tree: ast.Module, known: Mapping[str, object]) -> Iterator[str]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [each if each in known else node.module for each in inside]
        yield from (name for name in names if name in known)


def rings_of(graph: Graph) -> list[tuple[str, ...]]:
    """The largest first; each sorted. Every module of a ring is reachable from every other."""
    order: list[str] = []
    seen: set[str] = set()
    for name in graph:
        _visit(graph, name, seen, order)
    backwards: dict[str, list[str]] = {name: [] for name in graph}
    for name, imported in graph.items():
        for other in sorted(imported):
            backwards[other].append(name)
    rings: list[tuple[str, ...]] = []
    seen = set()
    for name in reversed(order):
        ring: list[str] = []
        _visit(backwards, name, seen, ring)
        if len(ring) > 1:
            rings.append(tuple(sorted(ring)))
    return sorted(rings, key=lambda ring: (-len(ring), ring))


def _visit(
    graph: Mapping[str, frozenset[str] | list[str]], start: str, seen: set[str], left: list[str]
) -> None:
    """Depth first from `start` through what was not seen; notes modules as it leaves them."""
    if start in seen:
        return
    seen.add(start)
    path = [(start, iter(sorted(graph[start])))]
    while path:
        name, others = path[-1]
        other = next((each for each in others if each not in seen), None)
        if other is None:
            path.pop()
            left.append(name)
        else:
            seen.add(other)
            path.append((other, iter(sorted(graph[other]))))
