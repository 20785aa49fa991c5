"""``python -m sparkrun``."""

from sparkrun.cli.__main__ import main

raise SystemExit(main())
