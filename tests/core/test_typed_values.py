"""Values on the command line that nothing could make use of."""

from __future__ import annotations

import pytest

from sparkrun.core.errors import UsageError
from sparkrun.core.run_options import RunOptions
from sparkrun.core.typed_values import check_typed_values


def refusal(**fields: object) -> str:
    with pytest.raises(UsageError) as refused:
        check_typed_values(RunOptions(recipe="r", **fields))  # type: ignore[arg-type]
    return refused.value.message


@pytest.mark.parametrize(
    "text", ["port=abc", "port=0", "port=99999", "port=80.5", "init_port=-1", "tensor_parallel=two", "data_parallel=0"]
)
def test_a_number_out_of_its_bounds_is_named(text: str) -> None:
    key, _, _value = text.partition("=")
    assert refusal(overrides=(text,)).startswith(f"{key} must be a whole number")


@pytest.mark.parametrize("text", ["port=8000", "port=", "tensor_parallel=2", "max_model_len=x", "init_port=25000"])
def test_a_number_within_its_bounds_and_one_switched_off_pass(text: str) -> None:
    check_typed_values(RunOptions(recipe="r", overrides=(text,)))


@pytest.mark.parametrize(
    ("fields", "begins"),
    [
        ({"container_name": "a b"}, "--container-name: 'a b'"),
        ({"image": "Bad Image"}, "--image: 'Bad Image'"),
        ({"env": {"a-b": "x"}}, "-e: 'a-b'"),
        ({"labels": {"a b": "x"}}, "--label: 'a b'"),
        ({"labels": {"sparkrun.rank": "1"}}, "--label: label 'sparkrun.rank'"),
        ({"executor_args": ("image",)}, "--executor-args: 'image'"),
        ({"settings": {"port": 0}}, "port must be"),
    ],
)
def test_the_option_is_named(fields: dict[str, object], begins: str) -> None:
    assert refusal(**fields).startswith(begins)
