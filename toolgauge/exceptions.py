"""What can go wrong around a command. Each error carries its facts and says what to do."""

from __future__ import annotations

from pathlib import Path

_MOST_NAMED = 20


class ToolgaugeError(Exception):
    """A command could not be done.

    Attributes:
        exit_status: of the process: 2 if the command was used wrongly, else 1.
    """

    exit_status = 1


class WrongUsage(ToolgaugeError):
    """The command line, or the settings, ask for something that there is not."""

    exit_status = 2


class UnknownSetting(WrongUsage):
    """A name that is no setting's.

    Attributes:
        name: as it was written.
        where: the file, or the environment.
        nearest: a name that may have been meant.
    """

    def __init__(self, name: str, where: str, nearest: str | None) -> None:
        hint = f"did you mean {nearest}?" if nearest else "`toolgauge config` lists all settings"
        super().__init__(f"{name} in {where} is no setting; {hint}")
        self.name = name
        self.where = where
        self.nearest = nearest


class BadSetting(WrongUsage):
    """A setting has a value that it cannot have.

    Attributes:
        name: of the setting.
        origin: where the value came from.
        reason: what is wrong with it.
    """

    def __init__(self, name: str, origin: str, reason: str) -> None:
        super().__init__(f"{name} ({origin}): {reason}")
        self.name = name
        self.origin = origin
        self.reason = reason


class SettingsFileUnreadable(WrongUsage):
    """The settings file cannot be read.

    Attributes:
        path: the file.
        reason: what is wrong with it.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the settings file {path} cannot be read: {reason}")
        self.path = path
        self.reason = reason


class BadTime(WrongUsage):
    """A point in time that cannot be understood.

    Attributes:
        option: which option it was given to.
        text: as it was written.
    """

    def __init__(self, option: str, text: str) -> None:
        super().__init__(
            f"{option} {text!r} is no point in time; write a date (2026-10-01), a time with its offset "
            "(2026-10-01T06:00:00Z), or how long ago (7d, 24h)"
        )
        self.option = option
        self.text = text


class UnknownDataset(WrongUsage):
    """A name that is no table's.

    Attributes:
        name: as it was written.
        known: the tables that there are.
    """

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"--dataset {name!r} is no table; there are {', '.join(known)}")
        self.name = name
        self.known = known


class UnknownPart(WrongUsage):
    """An environment or a version that nobody ever reported.

    Attributes:
        option: where it was named.
        name: as it was written.
        known: the ones that were reported.
    """

    def __init__(self, option: str, name: str, known: list[str]) -> None:
        more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
        # The newest versions are last.
        named = ", ".join(known[-_MOST_NAMED:])
        super().__init__(f"{option} {name!r} was never reported; there are {named}{more}")
        self.option = option
        self.name = name
        self.known = known


class NotSplit(WrongUsage):
    """A filter by something that a table does not tell apart.

    Attributes:
        option: the filter.
        table: the table.
    """

    def __init__(self, option: str, table: str) -> None:
        super().__init__(f"{option} cannot be used here: {table} does not tell what it is of")
        self.option = option
        self.table = table


class BadDay(WrongUsage):
    """A day that is none.

    Attributes:
        text: as it was written.
    """

    def __init__(self, text: str) -> None:
        super().__init__(f"--day {text!r} is no day; write a date (2026-10-01)")
        self.text = text


class NothingClosed(ToolgaugeError):
    """There is no closed day to report on."""

    def __init__(self) -> None:
        super().__init__("no day with events has closed yet; a day closes at 01:00 UTC of the next")


class NoBaseline(ToolgaugeError):
    """There is no baseline to compare.

    Attributes:
        reason: why the latest one was refused; None where none was ever tried.
    """

    def __init__(self, environment: str, version: str, reason: str | None) -> None:
        why = reason or "no day of it has closed yet"
        super().__init__(f"there is no baseline of {version} in {environment}: {why}")
        self.environment = environment
        self.version = version
        self.reason = reason


class EmptyPeriod(WrongUsage):
    """A period that ends before it begins."""

    def __init__(self) -> None:
        super().__init__("--since is not before --until, so there is nothing between them")


class NotEmpty(WrongUsage):
    """The demo was asked for where other events are.

    Attributes:
        path: the data directory.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} holds events that are not the demo's, and made-up ones must not come among them; "
            "name another directory with --data-dir, or leave --demo away"
        )
        self.path = path


class DemoOfAHalf(WrongUsage):
    """The demo was asked for together with one half of the service."""

    def __init__(self) -> None:
        super().__init__("--demo starts the whole service; leave --only away")


class DemoNotLoaded(ToolgaugeError):
    """The demo fleet could not be loaded to its end.

    Attributes:
        reason: why.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the demo was not loaded: {reason}; the same command goes on where this one stopped"
        )
        self.reason = reason


class NoDataDirectory(ToolgaugeError):
    """There is nothing to read from.

    Attributes:
        path: where the data directory was looked for.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"no data directory at {path}; start `toolgauge serve`, or name another with --data-dir"
        )
        self.path = path


class RecordDamaged(ToolgaugeError):
    """The record of a rollout's acts is not what was written.

    Attributes:
        path: the file.
        reason: which act is the first that is wrong, and how.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path}: {reason}. Nothing is added to it and the control plane is answered `shadow`; "
            "put back the file of the last backup, and find out who changed it"
        )
        self.path = path
        self.reason = reason


class RecordUnreadable(ToolgaugeError):
    """The record of a rollout's acts cannot be read or written.

    Attributes:
        path: the file.
        reason: what the system says.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the record of acts {path} cannot be read or written: {reason}")
        self.path = path
        self.reason = reason


class ActRefused(ToolgaugeError):
    """An act is not put on record.

    Attributes:
        environment: that it would be about.
        reason: why not, and what to do.
    """

    def __init__(self, environment: str, reason: str) -> None:
        super().__init__(f"{environment}: {reason}")
        self.environment = environment
        self.reason = reason


class NoOwnerKey(ToolgaugeError):
    """There is no key to hash owners with.

    Attributes:
        path: where it would be.
        reason: what the system says.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"owners cannot be hashed: {path}: {reason}. The receiver makes the key at its first start; "
            "without it, ask with hashes (--hashed)"
        )
        self.path = path
        self.reason = reason


class NotAHash(WrongUsage):
    """A hash of an owner was asked for, and something else was given.

    Attributes:
        place: which, from 1.
    """

    def __init__(self, place: int) -> None:
        super().__init__(
            f"owner {place} is no hash: 64 hexadecimal digits in lower case, as the column owner has them"
        )
        self.place = place
