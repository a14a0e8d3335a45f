"""The daemon without its sockets. Import `Service` and what it is given from here."""

from claimdagd.service.service import Service
from claimdagd.service.sessions import Clock, Config, Session, Storage

__all__ = ["Clock", "Config", "Service", "Session", "Storage"]
