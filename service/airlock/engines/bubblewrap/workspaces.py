"""Named workspaces on disk: `<key>/files` is what sandboxes mount, `<key>/workspace.json` says whose."""

import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from airlock.model import Workspace, new_id

FILES = "files"
DESCRIPTION = "workspace.json"


def ensure(directory: Path, workspace: Workspace, owner: int) -> None:
    """Make it if it is not there, for the user that sandboxes run as."""
    home = directory / workspace.key
    files = home / FILES
    if (home / DESCRIPTION).exists():
        files.chmod(0o700)  # a program may have locked everybody out
        return
    home.mkdir(exist_ok=True)
    home.chmod(0o711)
    files.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(files, owner, owner)
    description = asdict(workspace) | {"created_at": datetime.now(UTC).isoformat()}
    new = home / new_id(DESCRIPTION)  # two runs may be the first in it at once
    new.write_text(json.dumps(description, indent=1))
    new.rename(home / DESCRIPTION)
