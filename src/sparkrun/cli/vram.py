"""``sparkrun recipe vram``."""

from __future__ import annotations

import click

from sparkrun.cli.options import echo_json, host_options, hosts_of, json_option
from sparkrun.cli.recipe_names import RecipeName
from sparkrun.cli.state import CliState


@click.command()
@click.argument("name", type=RecipeName())
@host_options
@click.option("--tp", "--tensor-parallel", "tp", type=click.IntRange(min=1), help="Tensor parallelism.")
@click.option("--pp", "--pipeline-parallel", "pp", type=click.IntRange(min=1), help="Pipeline parallelism.")
@click.option("--max-model-len", type=click.IntRange(min=1), help="Context length in tokens.")
@click.option("--gpu-mem", "--gpu-memory-utilization", "gpu_mem", type=float, help="Fraction of the GPU's memory.")
@click.option("-o", "overrides", multiple=True, metavar="KEY=VALUE", help="Any other setting of the recipe.")
@click.option("--no-auto-detect", is_flag=True, help="By the recipe's metadata alone; read no file of the model, ask no hub.")
@click.option("--offline", is_flag=True, help="Ask no hub.")
@json_option
@click.pass_obj
def vram(
    state: CliState,
    name: str,
    hosts: tuple[str, ...],
    hosts_file: str | None,
    cluster: str | None,
    tp: int | None,
    pp: int | None,
    max_model_len: int | None,
    gpu_mem: float | None,
    overrides: tuple[str, ...],
    no_auto_detect: bool,
    offline: bool,
    as_json: bool,
) -> None:
    """Tell how much memory a recipe takes on each GPU, and whether that fits.

    Measured against the cluster's hosts as they are saved, else against a DGX Spark. No host is contacted; the hub is asked for what
    neither the recipe nor this machine's files tell.
    """
    from sparkrun import api

    wanted = {"tensor_parallel": tp, "pipeline_parallel": pp, "max_model_len": max_model_len, "gpu_memory_utilization": gpu_mem}
    options = api.VramOptions(
        hosts=hosts_of(hosts, hosts_file, cluster),
        overrides=overrides,
        settings={key: value for key, value in wanted.items() if value is not None},
        auto_detect=not no_auto_detect,
    )
    report = api.vram(name, options, sctx=state.context(offline=offline or None))
    if as_json:
        echo_json(report.to_json())
    else:
        from sparkrun.cli.memory_text import report_lines

        click.echo("\n".join((f"{report.recipe}: {report.model}, {report.runtime}", *report_lines(report))))
