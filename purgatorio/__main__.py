"""``python -m purgatorio``: the command, for environments whose scripts are not in the PATH."""

import sys

from purgatorio.admin.cli.main import main

sys.exit(main())
