"""The secret key of a site that was given none: made once, kept in the data folder, readable by its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def read_or_make_secret_key(data_dir: Path) -> str:
    """The key in ``data_dir/secret_key``. Two processes that start together end with the same one."""
    path = data_dir / "secret_key"
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        pass
    data_dir.mkdir(parents=True, exist_ok=True)
    fresh = data_dir / f".secret_key.{os.getpid()}"
    fresh.touch(mode=0o600)
    fresh.write_text(secrets.token_urlsafe(50), encoding="ascii")
    try:
        os.link(fresh, path)  # fails where another process was first; never overwrites
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return path.read_text(encoding="ascii").strip()
