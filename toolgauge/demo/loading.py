"""Filling an empty data directory with the demo fleet, through the real ports of the real ingest process."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day

from sli.data_directory import DataDirectory
from toolgauge.demo.days import Export, Outage, day_of
from toolgauge.demo.fleet import Fleet
from toolgauge.demo.loaded import Loaded, read_loaded
from toolgauge.demo.receiver import DemoReceiver, is_empty
from toolgauge.demo.sending import Sender
from toolgauge.exceptions import NotEmpty
from toolgauge.progress import Show


def what_is_loaded(directory: DataDirectory, fleet: Fleet) -> Loaded:
    """How far the demo is; `fleet` counts where none was begun.

    Raises:
        NotEmpty: there are events of others.
    """
    loaded = read_loaded(directory.demo)
    if loaded is not None:
        return loaded
    if not is_empty(directory):
        raise NotEmpty(directory.root)
    return Loaded.nothing_of(fleet)


def load(directory: DataDirectory, loaded: Loaded, retention_days: int | None, show: Show) -> None:
    """Load what is missing, day by day. A day that was cut off comes again, which stores nothing twice.

    Args:
        retention_days: as the service is going to have it.
        show: told about the progress.

    Raises:
        DemoNotLoaded: it could not be loaded to its end.
    """
    loaded.write(directory.demo)
    with ExitStack() as stack:
        receiver = DemoReceiver(directory, retention_days)
        stack.callback(receiver.stop)
        loading = _Loading(receiver, loaded.fleet)
        stack.callback(loading.hang_up)
        loading.begin(loaded.days_loaded)
        while loaded.days_loaded < loaded.days:
            day = loaded.fleet.day(loaded.days - 1 - loaded.days_loaded)
            show(f"loading the demo, {day}", loaded.days_loaded, loaded.days)
            loading.load_day(loaded.days_loaded)
            loaded = loaded.with_day()
            loaded.write(directory.demo)
        loading.hang_up()
        # The last thing written down is that the receiver was up until now, if it is still the last day.
        receiver.move(loading.end_of_day(loaded.days - 1))
        receiver.stop()
        receiver.remove_clock()
        loaded.at_end().write(directory.demo)


class _Loading:
    def __init__(self, receiver: DemoReceiver, fleet: Fleet) -> None:
        self._receiver = receiver
        self._fleet = fleet
        self._sender: Sender | None = None
        self._next: list[Export | Outage] = []

    def begin(self, days_loaded: int) -> None:
        """Start the receiver, at the beginning of a day."""
        self._connect(self._midnight(days_loaded))

    def load_day(self, number: int) -> None:
        """Send all of a day, each export when its time has come; of today no more than was until now."""
        steps, self._next = self._next or self._steps(number), []
        for step in steps:
            if isinstance(step, Export):
                if step.unix_nano <= time.time_ns():
                    self._receiver.move(step.unix_nano, goes_on=True)
                    self._connected.send(step.requests)
            elif step.until_unix_nano <= time.time_ns():
                self.hang_up()
                self._receiver.move(step.since_unix_nano)
                self._receiver.stop()
                self._connect(step.until_unix_nano)
        self._receiver.stand_still()
        # The next day is made while this one is being kept.
        self._next = self._steps(number + 1)
        # What is written down of a day is dated on it, so all of it must be in before the next.
        self._connected.wait()
        self._receiver.move(self.end_of_day(number))
        self._connected.show_life()

    def end_of_day(self, number: int) -> int:
        """The last moment of a day; of today, now."""
        return min(self._midnight(number + 1) - 1, time.time_ns())

    def _steps(self, number: int) -> list[Export | Outage]:
        ago = self._fleet.days - 1 - number
        return list(day_of(self._fleet, ago)) if ago >= 0 else []

    def hang_up(self) -> None:
        """Wait for the last answers, and close the connections."""
        if self._sender is not None:
            self._receiver.stand_still()
            sender, self._sender = self._sender, None
            with sender:
                sender.wait()

    def _connect(self, unix_nano: int) -> None:
        self._receiver.start(unix_nano)
        self._sender = Sender(self._receiver.grpc, self._receiver.http)

    @property
    def _connected(self) -> Sender:
        assert self._sender is not None
        return self._sender

    def _midnight(self, number: int) -> int:
        day = self._fleet.day(self._fleet.days - 1) + timedelta(days=number)
        return int(datetime.combine(day, time_of_day(), UTC).timestamp()) * 1_000_000_000
