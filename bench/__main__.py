"""`make bench`: every benchmark, one after the other; exit 1 where a target was missed.

The site on all runbooks takes half an hour of core time: `python -m bench --quick` takes 24 of them.
"""

from __future__ import annotations

import subprocess
import sys

ALL = (["bench.keyword_index"], ["bench.codes"], ["bench.wild"], ["bench.site"])
QUICK = (["bench.keyword_index"], ["bench.codes"], ["bench.wild"], ["bench.site", "--documents", "24"])


def main() -> int:
    chosen = QUICK if "--quick" in sys.argv else ALL
    codes = [subprocess.run([sys.executable, "-m", *module], check=False).returncode for module in chosen]
    return max(codes)


if __name__ == "__main__":
    raise SystemExit(main())
