"""The daemon without its sockets. Import `Service` and what it is given from here."""

from claimdagd.service.service import Service
from claimdagd.service.sessions import Clock, Config, Keeper, Session

__all__ = ["Clock", "Config", "Keeper", "Service", "Session"]
