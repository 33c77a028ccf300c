"""Where the agent takes over.

Theory of operation. Python imports a module of this name while it starts, before it looks at the script that
it was told to run. PID 1 of a sandbox is started as `python3 main.py` with this folder on PYTHONPATH, so it
stops here and serves as the agent. To run a caller's Python code, the agent lays it down as `main.py` and
forks; in the child, `serve` below returns, what the agent left in the interpreter is taken away, and the
start-up of Python simply goes on: the interpreter itself runs `main.py`. No frame of ours lies under the
program, and there is nothing to imitate: the child *is* `python3 main.py`, less the time to get there.
"""

import os
import sys

_BOOT = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(_BOOT))
_LOADED = frozenset(sys.modules)
_SEARCHED = sys.path_importer_cache.keys() - {_BOOT}

sys.path.remove(_BOOT)
sys.path.insert(0, _ROOT)

from airlock_agent.agent import serve  # noqa: E402
from airlock_agent.interpreter import hand_over  # noqa: E402

serve()

# From here on this is a child that becomes the program.
sys.path.remove(_ROOT)
hand_over(_LOADED, _SEARCHED)

# The system's own sitecustomize, if it has one; if not, the ImportError is what `site` expects.
import sitecustomize  # noqa: E402, F401
