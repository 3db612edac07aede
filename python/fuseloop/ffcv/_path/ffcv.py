"""``import ffcv`` comes here where this folder is in ``sys.path``: in processes that a script starts under
``python -m fuseloop.ffcv``."""

import fuseloop.ffcv

fuseloop.ffcv.install()
