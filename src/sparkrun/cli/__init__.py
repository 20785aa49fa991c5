"""The command line: Click commands and rendering. It knows nothing of how anything is done."""
