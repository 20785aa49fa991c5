"""What is typed on the command line for a launch, checked before a recipe is looked for or a host is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sparkrun.core.container_words import check_docker_words, container_name_problem, image_problem, label_problem, variable_problem
from sparkrun.core.effective import parse_overrides
from sparkrun.core.errors import UsageError
from sparkrun.core.run_options import RunOptions
from sparkrun.core.values import ConfigValue, is_off, number_of


class Bounds(NamedTuple):
    """Which whole numbers a setting takes."""

    least: int = 1
    most: float = float("inf")

    def hold(self, value: ConfigValue) -> bool:
        """Whether a value is one of them."""
        number = number_of(value)
        return number is not None and number == int(number) and self.least <= number <= self.most

    def __str__(self) -> str:
        return f"a whole number, {self.least} or more" if self.most == float("inf") else f"a whole number from {self.least} to {self.most}"


PORT = Bounds(1, 65535)
COUNT = Bounds()
BOUNDS: Mapping[str, Bounds] = {
    **dict.fromkeys(("port", "init_port", "ray_port", "dashboard_port"), PORT),
    **dict.fromkeys(("tensor_parallel", "pipeline_parallel", "data_parallel"), COUNT),
}


def check_typed_values(options: RunOptions) -> None:
    """Raise ``UsageError`` for the first value that nothing could make use of."""
    _check_numbers(options)
    _check_container_options(options)


def _check_numbers(options: RunOptions) -> None:
    given = {**parse_overrides(options.overrides), **options.settings}
    for key, bounds in BOUNDS.items():
        if key in given and not is_off(given[key]) and not bounds.hold(given[key]):
            raise UsageError(f"{key} must be {bounds}, not {given[key]!r} (from the command line)")


def _check_container_options(options: RunOptions) -> None:
    if options.container_name is not None and (problem := container_name_problem(options.container_name)):
        raise UsageError(f"--container-name: {problem}", hint="leave it out for a name made from the id")
    if options.image is not None and (problem := image_problem(options.image)):
        raise UsageError(f"--image: {problem}")
    for name in options.env:
        if problem := variable_problem(name):
            raise UsageError(f"-e: {problem}")
    for name in options.labels:
        if problem := label_problem(name):
            raise UsageError(f"--label: {problem}", hint="choose another name")
    check_docker_words(options.executor_args)
