"""The build hook of a wheel: the man pages, made anew from the checkout, go to share/man.

Hatchling calls it. An editable install is of the checkout and gets none.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualsHook(BuildHookInterface[Any]):
    """Write the pages to a directory of their own, and add them to the wheel."""

    _directory = ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the pages before the wheel is put together."""
        if version == "editable":
            return
        self._directory = tempfile.mkdtemp(prefix="claimdag-man-")
        # A process of its own: what the pages are made from is imported there, and not by the builder.
        subprocess.run([sys.executable, str(Path(self.root) / "tools/manuals.py"), self._directory], check=True)
        for page in Path(self._directory).glob("man*/*"):
            build_data["shared_data"][str(page)] = f"share/man/{page.parent.name}/{page.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel now."""
        if self._directory:
            shutil.rmtree(self._directory)
