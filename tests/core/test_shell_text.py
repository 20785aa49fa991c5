"""Taking command text apart."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.shell_text import Context, TokenKind, Word, lex, quote_word, simple_commands, unquote
from sparkrun.core.shell_text.words import command_start, shell_script

SHELL_TEXT = st.text(alphabet="ab-1 \t\n\\'\"$`{}()<>|&;#=", max_size=60)
WORD_TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
HEREDOC = "cat > /x.py <<'EOF'\nprint('''vllm serve \"x # no comment\nEOF\nvllm serve m # note\n"


def kinds(text: str) -> list[TokenKind]:
    return [token.kind for token in lex(text).tokens]


def commands(text: str) -> list[list[str]]:
    return [[word.text for word in words] for words in simple_commands(lex(text))]


def only_words(text: str) -> list[str]:
    (words,) = commands(text)
    return words


def context_of(text: str, part: str) -> Context:
    return lex(text).run_at(text.index(part)).context


@given(SHELL_TEXT)
def test_tokens_and_runs_tile_any_text(text: str) -> None:
    lexed = lex(text)
    assert "".join(text[token.start : token.end] for token in lexed.tokens) == text
    assert all(token.start < token.end for token in lexed.tokens)
    starts = [run.start for run in lexed.runs]
    assert starts == sorted(set(starts))
    assert starts[:1] == ([0] if text else [])


@given(st.lists(WORD_TEXT, min_size=1, max_size=6))
def test_quoted_words_come_back(words: list[str]) -> None:
    assert only_words(" ".join(map(quote_word, words))) == words


@given(WORD_TEXT)
def test_unquote_is_the_inverse_of_quote_word(text: str) -> None:
    assert unquote(quote_word(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        r"""show a\ b 'c d' "e f" $'g\th' "i"'j'"k" --x="l m" \
  n""",
        "show \"a \\\"b\\\" \\$c\" 'd'\\''e'",
        "show one \\\n  two\\\nthree",
        "show a# b '#c' #d",
        "show a\\\n\\ b $'\\{\\'\\?'",
        "show \"${X:-a b}\" \"${X:-'y'}\" ${X:-'a b}'} x${X}y",
        'show "$(printf "%s" "in ) side")" `printf x`',
        "show 2>&1 a 3>/dev/null b </dev/null",
        "show $((1 << 2)) $(cat <<E\n)\nE\n) end",
    ],
)
def test_words_are_those_of_a_real_shell(text: str) -> None:
    script = f"show() {{ printf '%s\\0' \"$@\"; }}\n{text}"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True)
    shown = (ran.stdout + ran.stderr).split("\0")[:-1]
    words = simple_commands(lex(text))[0][1:]
    assert len(words) == len(shown)
    assert all(word.dynamic or word.text == value for word, value in zip(words, shown, strict=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b; c && d || e | f & g\nh", [["a", "b"], ["c"], ["d"], ["e"], ["f"], ["g"], ["h"]]),
        ("(cd x && a)", [["cd", "x"], ["a"]]),
        ("a > log 2>&1 b < in", [["a", "b"]]),
        ("a <<< text b", [["a", "b"]]),
        ("a \\\n  b \\  \n  c", [["a", "b", "c"]]),
        ("a \\\n# note\nb", [["a"], ["b"]]),
        ("a \\\n", [["a"]]),
        ("a 'unfinished", [["a", "unfinished"]]),
        ("", []),
    ],
)
def test_simple_commands(text: str, expected: list[list[str]]) -> None:
    assert commands(text) == expected


def test_heredoc_body_is_one_token_and_holds_no_commands() -> None:
    assert commands(HEREDOC) == [["cat"], ["vllm", "serve", "m"]]
    assert kinds(HEREDOC).count(TokenKind.HEREDOC) == 1


def test_indented_heredoc_ends_at_an_indented_delimiter() -> None:
    assert commands("cat <<-E\n\tbody\n\tE\nb") == [["cat"], ["b"]]


def test_two_heredocs_on_a_line_follow_each_other() -> None:
    assert commands("cat <<A <<B\na\nA\nb\nB\nc") == [["cat"], ["c"]]


def test_heredoc_without_its_end_runs_to_the_end() -> None:
    assert commands("cat <<E\nvllm serve m\n") == [["cat"]]


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("a HERE", Context.BARE),
        ("a 'x HERE'", Context.SINGLE),
        ('a "x HERE"', Context.DOUBLE),
        ("a $'x HERE'", Context.ANSI_C),
        ("a ${X:-HERE}", Context.PARAMETER),
        ("a $((HERE))", Context.ARITHMETIC),
        ("a # HERE", Context.COMMENT),
        ("a <<E\nHERE\nE", Context.HEREDOC),
        ("a <<\\E\nHERE\nE", Context.HEREDOC_LITERAL),
        ('a "$(b HERE)"', Context.BARE),
        ("a \"$(b 'HERE')\"", Context.SINGLE),
        ('a "it\'s HERE"', Context.DOUBLE),
        ('a "${X:-it\'s}" HERE', Context.BARE),
        ("a ${PORT:-{port}} HERE", Context.BARE),
    ],
)
def test_context_of_a_place(text: str, context: Context) -> None:
    assert context_of(text, "HERE") is context


@pytest.mark.parametrize(("text", "nested"), [("a HERE", False), ("a $(HERE)", True), ("a `HERE`", True), ("a `b` HERE", False)])
def test_substitutions_are_nested(text: str, nested: bool) -> None:
    assert lex(text).run_at(text.index("HERE")).nested is nested


@pytest.mark.parametrize(
    ("raw", "dynamic"),
    [
        ("plain", False),
        ("$X", True),
        ("'$X'", False),
        ('"a $X"', True),
        (r"\$X", False),
        (r'"\$X"', False),
        ("\"it's $X isn't\"", True),
        ("`x`", True),
        ("$(x)", True),
        ("$@", True),
        ("cost$", False),
        ("$'a$b'", False),
    ],
)
def test_dynamic_words(raw: str, dynamic: bool) -> None:
    assert Word(0, len(raw), raw, unquote(raw)).dynamic is dynamic


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "exec",
        "A=b C='d e'",
        "env A=b",
        "env -u X -i A=b",
        "nohup",
        "time -p",
        "! time",
        "taskset -c 0-3",
        "taskset -ac 0-3",
        "numactl --cpunodebind=0 -m 0",
        "sudo -E -u user X=1",
        "stdbuf -oL",
        "nice -n 5 ionice -c2 -n7",
        "timeout -k 5 60",
        "exec -a name env X=1 /usr/bin/stdbuf -o L",
        "{ then do",
        "uv run --",
        "uv run --with x",
    ],
)
def test_prefixes_are_looked_through(prefix: str) -> None:
    (words,) = simple_commands(lex(f"{prefix} prog --flag"))
    assert words[command_start(words)].text == "prog"


def test_only_prefixes_leave_no_command() -> None:
    (words,) = simple_commands(lex("A=b exec"))
    assert command_start(words) == len(words)


@pytest.mark.parametrize("text", ["bash -c 'a b'", "exec /bin/bash -lc 'a b'", "bash -euo pipefail -c 'a b' name arg"])
def test_shell_scripts_are_recognised(text: str) -> None:
    (words,) = simple_commands(lex(text))
    script = shell_script(words)
    assert script is not None
    assert script.text == "a b"


@pytest.mark.parametrize("text", ["bash script.sh", "echo -c 'a b'", "bash"])
def test_other_commands_are_no_shell_scripts(text: str) -> None:
    (words,) = simple_commands(lex(text))
    assert shell_script(words) is None
