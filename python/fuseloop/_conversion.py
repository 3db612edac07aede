"""Transforms of other libraries as ops: what their tables share.

A table has a row for each class of a library: the op, how its images differ, and the function that reads the
parameters. ``docs/migration.md`` is printed from the same rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import ops
from ._op import Op
from .errors import ConfigError, _warn

# How the images of an op compare with those of the transform, for equal draws.
BITS = "same bits"
LEVEL = "within a level"
DIFFER = "differ"
NOTHING = "no pixels change"
ABSENT = "absent"

Report = Callable[[str], object]
Made = Op | list[Op]


@dataclass(frozen=True)
class Row:
    """How a class of another library becomes ops.

    Attributes:
        ours: The op, as the documentation shows it; empty if there is none.
        same: How the images compare; empty for a list.
        note: What differs, which parameters are refused, or why there is no op and what to do.
        made: Returns the ops for a transform.
        is_random: Whether it draws numbers.
        unused: Parameters that change nothing here.
        is_list: Whether it holds other transforms.
    """

    ours: str
    same: str
    note: str = ""
    made: Callable[[Any, Conversion], Made] | None = None
    is_random: bool = False
    unused: tuple[str, ...] = ()
    is_list: bool = False

    def images(self) -> str:
        """Returns how the images compare, as a text."""
        draws = "other draws" if self.is_random and self.same != ABSENT else ""
        return ", ".join(text for text in (self.same, draws) if text)

    def printed(self, name: str) -> str:
        """Returns the line of a table of the documentation."""
        said = "; ".join(text for text in (self.images(), self.note) if text)
        said = f"{ABSENT}: {self.note}" if self.same == ABSENT else said
        ours = self.ours or ("" if self.same == ABSENT else f"`{name}`")
        return f"| `{name}` | {ours} | {said} |\n"


Table = Mapping[str, Row]


def absent(note: str) -> Row:
    """Returns the row of a class that has no op."""
    return Row("", ABSENT, note)


@dataclass(frozen=True)
class Library:
    """A library whose transforms become ops.

    Attributes:
        function: The function of ``fuseloop.ops`` that converts them.
        tables: A row for each of its classes, by the package that it is in.
        pairs: The functions that convert two transforms which follow each other to one op, by their classes. One that
            returns None leaves them to their own rows.
    """

    function: str
    tables: Mapping[str, Table]
    pairs: Mapping[tuple[str, str], Callable[[Any, Any, Conversion], Made | None]]


class Given:
    """A transform whose attributes are read, and which remembers which were."""

    def __init__(self, transform: Any, *, is_forced: bool = False) -> None:
        self._transform = transform
        self._is_forced = is_forced
        self._read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self._read.add(name)
        return 1.0 if name == "p" and self._is_forced else getattr(self._transform, name)

    def own(self, name: str) -> Any:
        """Returns an attribute, whatever the list does that the transform is in."""
        self._read.add(name)
        return getattr(self._transform, name)


class Conversion:
    """A list of transforms that becomes ops: what was found so far.

    Attributes:
        channels_first: Whether tensors are made, whose first axis is the channels.
        is_scaled: Whether values are of 0 to 1.
        is_normalized: Whether an op makes floats already.
        dtype: The type of the elements at the end, if it is not that of the last op.
        is_forced: Whether a container runs its transforms whatever their own ``p`` is.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.channels_first = False
        self.is_scaled = False
        self.is_normalized = False
        self.dtype: str | None = None
        self.is_forced = False
        self.lines: list[str] = []
        self.differences: list[str] = []
        self.errors: list[str] = []
        self._path: list[int] = []
        self._noted: list[str] = []

    def differs(self, text: str) -> None:
        """Notes that the images or targets of the transform at hand differ, and how."""
        self._noted.append(text)

    def all(self, transforms: Iterable[Any], *, is_forced: bool = False) -> list[Op]:
        """Returns the ops for transforms that run one after the other."""
        return [op for made in self.each(transforms, is_forced=is_forced) for op in made]

    def each(self, transforms: Iterable[Any], *, is_forced: bool = False) -> list[list[Op]]:
        """Returns the ops for each of several transforms."""
        listed, found, number = list(transforms), [], 0
        before, self.is_forced = self.is_forced, is_forced
        while number < len(listed):
            self._path.append(number)
            pair = None if is_forced else self._pair(listed[number : number + 2])
            found.append(self.one(listed[number]) if pair is None else pair)
            number += 1 if pair is None else 2
            self._path.pop()
        self.is_forced = before
        return found

    def one(self, transform: Any) -> list[Op]:
        """Returns the ops for a transform; none if it has none, which is then one of the errors."""
        if isinstance(transform, (list, tuple)):
            return self.all(transform)
        name = type(transform).__name__
        before, self._noted = self._noted, []
        try:
            made, row = self._made(transform, name)
        except ConfigError as error:
            text = str(error)
            self.errors.append(self._at(text if text.startswith(name) else f"{name}: {text}"))
            return []
        finally:
            noted, self._noted = self._noted, before
        self.differences += [self._at(f"{name}: {text}") for text in noted]
        if not row.is_list:
            shown = ", ".join(map(repr, made)) or "nothing"
            self.lines.append(self._at("; ".join([f"{name} -> {shown}: {row.images()}", *noted])))
        else:
            self.lines += [self._at(f"{name}: {text}") for text in noted]
        return made

    def _made(self, transform: Any, name: str) -> tuple[list[Op], Row]:
        """Returns the ops for a transform, and its row."""
        row = self._row(transform)
        if row is None:
            cure = _elsewhere(transform, self.library)
            raise ConfigError(f"{type(transform).__module__}.{name} has no op in Fuseloop: {cure}")
        if row.made is None:
            raise ConfigError(f"{name} has no op in Fuseloop: {row.note}")
        given = Given(transform, is_forced=self.is_forced)
        made = _listed(row.made(given, self))
        self._check_rest(given, row.unused)
        return made, row

    def _at(self, text: str) -> str:
        """Returns a text behind the indices of the transform at hand."""
        return " ".join(filter(None, ("".join(f"[{number}]" for number in self._path), text)))

    def _row(self, transform: Any) -> Row | None:
        """Returns the row of a transform's class."""
        kind = type(transform)
        return self.library.tables.get(kind.__module__.partition(".")[0], {}).get(kind.__name__)

    def _pair(self, two: list[Any]) -> list[Op] | None:
        """Returns the ops for two transforms that become one op, and None for others."""
        names = tuple(type(one).__name__ for one in two)
        made = self.library.pairs.get((names[0], names[1])) if len(names) == 2 else None
        rows = [self._row(one) for one in two]
        if made is None or None in rows:
            return None
        first, second = given = [Given(one) for one in two]
        before, self._noted = self._noted, []
        try:
            found = made(first, second, self)
            if found is not None:
                for one, row in zip(given, rows):
                    self._check_rest(one, row.unused if row else ())
        except ConfigError:  # converted by itself, the one that is at fault says so
            found = None
        finally:
            noted, self._noted = self._noted, before
        if found is None:
            return None
        both, listed = " and ".join(names), _listed(found)
        self.differences += [self._at(f"{both}: {text}") for text in noted]
        self.lines.append(self._at("; ".join([f"{both} -> {', '.join(map(repr, listed))}: {LEVEL}", *noted])))
        return listed

    def _check_rest(self, given: Given, unused: tuple[str, ...]) -> None:
        """Refuses parameters that were not read and have another value than by default."""
        kind = type(given._transform)
        for name, param in inspect.signature(kind.__init__).parameters.items():  # type: ignore[misc]
            if name in given._read or name in unused or name == "self":
                continue
            value = getattr(given._transform, name, param.default)
            if not _is_same(value, param.default):
                raise ConfigError(f"{name}={value!r} has no counterpart: leave the parameter at {param.default!r}")

    def finished(self, made: list[Op], report: Report | None) -> list[Op]:
        """Raises the errors, and reports the differences."""
        if self.errors:
            count = "1 transform" if len(self.errors) == 1 else f"{len(self.errors)} transforms"
            listed = "".join(f"\n  {text}" for text in self.errors)
            raise ConfigError(f"{self.library.function}: {count} can't be converted:{listed}")
        if report is not None:
            for line in self.lines:
                report(line)
        elif self.differences:
            listed = "".join(f"\n  {text}" for text in self.differences)
            _warn(f"{self.library.function}: images or targets differ from those of the transforms:{listed}")
        return made


def _elsewhere(transform: Any, library: Library) -> str:
    """Returns the cure for a transform that is in no table."""
    root = type(transform).__module__.partition(".")[0]
    if root in ("torchvision", "albumentations", "timm") and root not in library.tables:
        return f"ops.from_{root}(transform) converts transforms of {root}"
    return (
        "leave it out of the list, and call it on the batches (fuseloop.torch.Loader(after=...)) or on each picture "
        "(fuseloop.ops.Lambda)"
    )


def _listed(made: Made) -> list[Op]:
    return [made] if isinstance(made, Op) else made


def _is_same(value: Any, default: Any) -> bool:
    """True if a parameter has its default, whatever the kind of its list."""
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return len(value) == len(default) and all(map(_is_same, value, default))
    if isinstance(value, (list, tuple)) and isinstance(default, (int, float)):
        return all(_is_same(one, default) for one in value)
    return value is default or type(value) in (bool, int, float, str, dict) and bool(value == default)


def together(made: list[Op]) -> Op:
    """Returns one op that runs all of a list."""
    return made[0] if len(made) == 1 else ops.RandomApply(made, 1.0)


def for_a_share(made: list[Op], p: float) -> list[Op]:
    """Returns the ops that run for a share ``p`` of the images."""
    return made if p >= 1 or not made else [ops.RandomApply(made, p)]


def decimal(values: Any) -> tuple[float, ...]:
    """Returns numbers, those of single precision as the shortest decimals that are the same there."""
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    is_single = "32" in str(getattr(values, "dtype", "")) or any("32" in str(getattr(v, "dtype", "")) for v in values)
    return tuple(float(f"{float(value):.7g}") if is_single else float(value) for value in listed)
