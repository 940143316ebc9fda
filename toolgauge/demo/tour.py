"""What there is to see in the demo."""

from __future__ import annotations

from toolgauge.demo.fleet import LOSSES, OUTAGE, Fleet
from toolgauge.demo.versions import BAD, FIRST, FIXED, STEADY, nightly

_TEXT = """\
In the demo ({first} to {last}, made up):
  a bad release    {bad}: `edit` fails far more often, until {fixed} (internal, public_cloud)
  a new definition {old} to {new}: commands with an exit code became failures (private_cloud, {redefined})
  an outage        {outage}, 09:10 to 14:20 UTC: nothing was received; private_cloud's part came later
  lost batches     {losses}: counters of public_cloud count more calls than came
  guard            internal: off, shadow, warn, a first wave of enforce; elsewhere shadow
  quieter things   {nightly} stops in staging; 0.15.10 says no environment; `dev` often says no status"""


def tour(fleet: Fleet) -> str:
    """A few lines about what is in it, with the dates of this one."""
    return _TEXT.format(
        first=fleet.day(fleet.days - 1),
        last=fleet.last_day,
        bad=BAD.name,
        fixed=FIXED.name,
        old=FIRST.name,
        new=STEADY.name,
        redefined=fleet.day(21),
        outage=fleet.day(OUTAGE),
        losses=" and ".join(str(fleet.day(ago)) for ago in LOSSES),
        nightly=nightly(fleet.last_day).name,
    )
