"""Shell command text: taken apart with every place kept, and edited without being re-formatted."""

from sparkrun.core.shell_text.arguments import (
    Arity,
    FlagForm,
    FlagUse,
    FlagValue,
    QuotedEngineError,
    canonical,
    flag_name,
    flag_uses,
    flag_value,
    insert_flags,
    model_word,
    remove_flag,
    replace_engine_words,
    replace_flag,
    swap_flag,
)
from sparkrun.core.shell_text.edits import TextEdit, apply_edits
from sparkrun.core.shell_text.engine import EngineCall, EngineSyntax, find_engine
from sparkrun.core.shell_text.lexer import Context, Lexed, Token, TokenKind, lex
from sparkrun.core.shell_text.quoting import quote_word, unquote
from sparkrun.core.shell_text.words import Word, simple_commands

__all__ = [
    "Arity",
    "Context",
    "EngineCall",
    "EngineSyntax",
    "FlagForm",
    "FlagUse",
    "FlagValue",
    "Lexed",
    "QuotedEngineError",
    "TextEdit",
    "Token",
    "TokenKind",
    "Word",
    "apply_edits",
    "canonical",
    "find_engine",
    "flag_name",
    "flag_uses",
    "flag_value",
    "insert_flags",
    "lex",
    "model_word",
    "quote_word",
    "remove_flag",
    "replace_engine_words",
    "replace_flag",
    "simple_commands",
    "swap_flag",
    "unquote",
]
