"""Telling secrets by the name of their variable."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY)(?:$|_)", re.IGNORECASE)
_HARMLESS = re.compile(r"(?:MAX|NUM|BATCHED|TOKENS|TOKENIZER|TOKEN_(?:BUDGET|LIMIT|COUNT|THRESHOLD))", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds something nobody else may read."""
    return bool(_SECRET.search(name)) and not _HARMLESS.search(name)


def split_secrets(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The plain variables, and the secret ones. An empty value is no secret."""
    secret = {name: value for name, value in env.items() if value and is_secret_name(name)}
    return {name: value for name, value in env.items() if name not in secret}, secret
