"""The one error of the embedded server.

The server runs as a program of its own and imports nothing else of sparkrun, so its error is not a `SparkrunError`.
"""

FAILED = 1
WRONG_USAGE = 2


class LauncherError(Exception):
    """The server cannot start or go on.

    `hint` says what to do next; `exit_code` is what the process ends with (`FAILED` or `WRONG_USAGE`).
    """

    def __init__(self, message: str, *, hint: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code
