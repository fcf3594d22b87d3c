"""Remakes the screenshots of pages that the documentation shows; the tests of the pages take them.

    python tests/browser/screenshots.py                      # into docs/pictures
    python tests/browser/screenshots.py --out /tmp/views -k planner

A test keeps a view with `visit.picture(page, name)`, so that what is shown has passed its test.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import pytest
from visiting import PICTURES

HERE = Path(__file__).parent
MOST = 150_000  # bytes of a picture


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=HERE.parents[1] / "docs" / "pictures", help="folder for the pictures"
    )
    parser.add_argument("-k", default="", help="only tests whose name has this in it, as in pytest")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    os.environ[PICTURES] = str(given.out.resolve())
    begun = time.time()
    code = int(pytest.main(["-q", str(HERE), "-k", given.k]))
    large = 0
    for path in sorted(given.out.glob("*.png")):
        facts = path.stat()
        if facts.st_mtime >= begun:
            print(f"{path.name}: {facts.st_size / 1000:.0f} kB")
            large += facts.st_size > MOST
    if large:
        print(f"{large} of them are larger than {MOST / 1000:.0f} kB; take a smaller view")
    return code or int(large > 0)


if __name__ == "__main__":
    sys.exit(main())
