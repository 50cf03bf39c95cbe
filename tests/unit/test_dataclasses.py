"""Classes of `ledgerstone.dataclasses` beside the same ones of the standard library."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from ledgerstone import dataclasses as ours

T = TypeVar("T")
Maker = Callable[..., Callable[[type], Any]]
MAKERS = pytest.mark.parametrize("dataclass", [dataclasses.dataclass, ours.dataclass])
FORMS: list[dict[str, bool]] = [
    {"frozen": frozen, "kw_only": kw_only, "eq": eq}
    for frozen in (False, True)
    for kw_only in (False, True)
    for eq in (False, True)
]


@ours.dataclass(frozen=True, slots=True)
class Kept:
    """At the top of a module, where pickles find it."""

    offset: int
    names: tuple[str, ...] = ()


def three(dataclass: Maker, **form: bool) -> Any:
    class Three:
        known: ClassVar[list[int]] = [7]
        first: int
        second: list[str] = ours.field(default_factory=list)
        third: str = ours.field(default="x", repr=False)
        fourth: int = ours.field(default=0, compare=False)

        def doubled(self) -> int:
            return self.first * 2

    return dataclass(slots=True, **form)(Three)


@pytest.mark.parametrize("form", FORMS)
def test_a_class_behaves_as_the_standard_librarys(form: dict[str, bool]) -> None:
    seen = []
    modules: list[Any] = [dataclasses, ours]
    for module in modules:
        cls = three(module.dataclass, **form)
        one, same, other = cls(first=1), cls(first=1, fourth=9), cls(first=2, second=["a"])
        facts = [
            repr(one), one == same, one == other, one != other, one == 1, one.doubled(),
            one.second is same.second, cls.known, cls.__slots__, cls.__match_args__,
            cls.__name__, cls.__qualname__, cls.__module__, hasattr(one, "__dict__"),
            cls.__hash__ is None, dataclasses.is_dataclass(cls), dataclasses.asdict(other),
            [(each.name, each.type) for each in dataclasses.fields(cls)],
            repr(module.replace(other, first=3)), repr(module.replace(same)),
            module.replace(other, third="y", second=[]).third,
            copy.copy(other).second is other.second,
        ]  # fmt: skip
        seen.append(facts)

    assert seen[0] == seen[1]


@MAKERS
def test_frozen_instances_have_a_hash_by_value_and_refuse_changes(dataclass: Maker) -> None:
    class Place:
        topic: str
        partition: int

    cls = dataclass(slots=True, frozen=True)(Place)
    place = cls("t", 1)

    assert {place: 1}[cls("t", 1)] == 1
    with pytest.raises(dataclasses.FrozenInstanceError, match="topic"):
        place.topic = "u"
    with pytest.raises(dataclasses.FrozenInstanceError, match="topic"):
        del place.topic


@MAKERS
def test_a_missing_a_doubled_and_an_unknown_argument_are_refused(dataclass: Maker) -> None:
    cls = three(dataclass)

    for arguments, named in (((), {}), ((1,), {"first": 1}), ((1,), {"fifth": 1})):
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            cls(*arguments, **named)
    with pytest.raises(TypeError, match="positional"):
        three(dataclass, kw_only=True)(1)


@MAKERS
def test_a_subclass_adds_fields_behind_those_of_its_base(dataclass: Maker) -> None:
    @dataclass(slots=True)
    class Base:
        first: int
        second: str = "b"

    class Plain(Base):
        __slots__ = ()

    @dataclass(slots=True, kw_only=True)
    class Derived(Plain):
        third: int
        second: str = "d"

    derived: Any = Derived

    assert repr(derived(1, third=3)).endswith("Derived(first=1, second='d', third=3)")
    assert derived.__slots__ == ("third",)
    assert [each.name for each in dataclasses.fields(Derived)] == ["first", "second", "third"]
    assert [each.name for each in dataclasses.fields(Plain)] == ["first", "second"]
    assert Plain(1) == Plain(1) != Base(1)


@MAKERS
def test_fields_that_are_not_given_are_set_by_their_default_or_after_the_others(
    dataclass: Maker,
) -> None:
    @dataclass(slots=True, frozen=True)
    class Sum:
        parts: list[int]
        made: list[int] = ours.field(init=False, default_factory=list)
        count: int = ours.field(init=False, default=4)
        total: int = ours.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", sum(self.parts))

    found: Any = Sum([1, 2])

    assert (found.made, found.count, found.total) == ([], 4, 3)


@MAKERS
def test_what_the_class_body_defines_stays(dataclass: Maker) -> None:
    @dataclass(slots=True, frozen=True)
    class Own:
        value: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __repr__(self) -> str:
            return "own"

    @dataclass(slots=True)
    class Hashed:
        value: int

        def __hash__(self) -> int:
            return 7

    own: Any = Own

    assert own(1) == own(2)
    assert repr(own(1)) == "own"
    assert hash(own(1)) == hash(own(1))
    assert hash(Hashed(1)) == 7


@MAKERS
def test_generic_and_recursive_classes_work(dataclass: Maker) -> None:
    @dataclass(slots=True)
    class Box(Generic[T]):
        content: T

    box: Any = Box[object](1)
    box.content = box

    assert repr(box).endswith("Box(content=...)")


@MAKERS
def test_a_mutable_default_is_refused(dataclass: Maker) -> None:
    class Shared:
        names: list[str] = []  # noqa: RUF012

    with pytest.raises(ValueError, match="names"):
        dataclass(slots=True)(Shared)


def test_instances_are_matched_copied_and_pickled() -> None:
    kept = Kept(3, ("a",))

    match kept:
        case Kept(offset, names):
            found = offset, names

    assert found == (3, ("a",))
    assert pickle.loads(pickle.dumps(kept)) == kept == copy.deepcopy(kept)


def test_nothing_is_compiled_before_the_first_instance() -> None:
    cls = three(ours.dataclass)
    before = cls.__init__

    cls(1)

    assert cls.__init__ is not before
    assert cls.__init__.__code__.co_varnames == ("self", "first", "second", "third", "fourth")
