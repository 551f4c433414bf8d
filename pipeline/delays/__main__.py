"""For ``python -m purgatorio.pipeline.delays`` and ``spark-submit``."""

import sys

from purgatorio.pipeline.delays.command import main

sys.exit(main())
