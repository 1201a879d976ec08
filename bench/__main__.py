"""`make bench` (or `make bench PART=levels`): benchmarks one after the other; exit 1 where a target was missed.

The site on all runbooks takes half an hour of core time: `python -m bench --quick` takes 24 of them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

PARTS = (
    "keyword_index",
    "codes",
    "wild",
    "retrieval",
    "levels",
    "enrichment",
    "hot_reload",
    "reconcile",
    "reliability",
    "site",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="the site on 24 runbooks")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.parts) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    # A tenth: `python -m bench.reliability` takes twenty minutes.
    more = {"reliability": ["--small"], **({"site": ["--documents", "24"]} if arguments.quick else {})}
    chosen = [[f"bench.{part}", *more.get(part, [])] for part in arguments.parts or PARTS]
    codes = [subprocess.run([sys.executable, "-m", *module], check=False).returncode for module in chosen]
    return max(codes)


if __name__ == "__main__":
    raise SystemExit(main())
