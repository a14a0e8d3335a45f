"""Check that a tag, the version of the package and the first entry of the changelog are the same: `vX.Y.Z`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def problems(tag: str) -> list[str]:
    """Return what keeps `tag` from being released."""
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "claimdagd/__init__.py").read_text())
    entry = re.search(r"^## \[?([\d.]+)\]?(.*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    found = []
    if version is None or tag != f"v{version[1]}":
        found.append(f"the tag is {tag}, claimdagd.__version__ is {version[1] if version else 'missing'}")
    if entry is None or tag != f"v{entry[1]}":
        found.append(f"the tag is {tag}, the changelog begins with {entry[1] if entry else 'no version'}")
    elif "unreleased" in entry[2].lower():
        found.append(f"the changelog still calls {entry[1]} unreleased")
    return found


if __name__ == "__main__":
    found = problems(sys.argv[1])
    sys.stdout.writelines(f"{problem}\n" for problem in found)
    sys.exit(1 if found else 0)
