"""The recipe format as a JSON Schema, for editors: what may be written, with the same tolerance as loading."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sparkrun.core.recipe.conditional import SELECTORS
from sparkrun.core.recipe.detect import RUNTIME_NAMES

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"

_Text = str | int | float
_Switch = bool | Literal[0, 1, "true", "false", "yes", "no", "on", "off"]
_Texts = list[_Text] | _Text
_Mapping = dict[str, Any]
_Seconds = Annotated[float, Meta(ge=0)] | str
_Nodes = Annotated[int, Meta(ge=1)] | Annotated[str, Meta(pattern="^[0-9]+$")]


class AuthoredHook(msgspec.Struct, omit_defaults=True):
    """A command, or (in pre_exec) a copy into each container."""

    command: Annotated[str | None, Meta(description="shell command")] = None
    timeout: Annotated[_Seconds | None, Meta(description="seconds; 0 is no limit")] = None
    copy: Annotated[str | None, Meta(description="file or folder to copy into each container")] = None
    dest: Annotated[str | None, Meta(description="where to copy it to; /workspace/mods/<name> if not given")] = None
    source_host: Annotated[str | None, Meta(description="host that has the file; this machine if not given")] = None


class AuthoredOverride(msgspec.Struct, omit_defaults=True):
    """Defaults, environment or image that hold when every condition does."""

    when: Annotated[_Mapping, Meta(description=f"conditions: {', '.join(SELECTORS)}, config.<key>")]
    defaults: Annotated[_Mapping | None, Meta(description="configuration of the engine")] = None
    env: Annotated[_Mapping | None, Meta(description="environment of the container")] = None
    container: Annotated[str | None, Meta(description="image")] = None


class AuthoredHostImage(msgspec.Struct):
    """The image of one host."""

    host: str
    image: str


class AuthoredReadiness(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a launch waits for."""

    port_timeout_s: Annotated[_Seconds | None, Meta(description="seconds until the port must be open (1800)")] = None
    health_timeout_s: Annotated[_Seconds | None, Meta(description="seconds until the engine must be healthy (900)")] = None
    inference: Annotated[_Switch | None, Meta(description="whether a first answer is waited for")] = None
    inference_style: Literal["auto", "openai-chat-stream-v1", "openai-responses-stream-v1", "anthropic-messages-stream-v1"] | None = None
    inference_timeout_s: Annotated[_Seconds | None, Meta(description="seconds until the first answer must be there (1200)")] = None
    inference_prompt: Annotated[str | None, Meta(description="what is asked")] = None


_Hooks = list[AuthoredHook | str] | AuthoredHook | str


class AuthoredRecipe(msgspec.Struct, omit_defaults=True):
    """A sparkrun recipe: a model, an engine, and how it is served."""

    model: Annotated[str, Meta(description="org/name, org/name:QUANT (GGUF), an absolute path, file:///path or pkg://package/file")]
    recipe_version: Annotated[_Text | None, Meta(description='version of the format: "2"')] = None
    sparkrun_version: Annotated[_Text | None, Meta(description="old name of recipe_version")] = None
    min_sparkrun_version: Annotated[_Text | None, Meta(description="oldest sparkrun that can read this recipe")] = None
    name: Annotated[_Text | None, Meta(description="not used: a recipe is called by its file")] = None
    description: Annotated[_Text | None, Meta(description="one line for lists")] = None
    model_revision: Annotated[_Text | None, Meta(description="branch, tag or commit of the model")] = None
    runtime: Annotated[str | None, Meta(description="engine; told from the command if not given", examples=list(RUNTIME_NAMES))] = None
    runtime_version: Annotated[_Text | None, Meta(description="for information")] = None
    mode: Annotated[Literal["auto", "solo", "cluster"] | None, Meta(description="old way to say how many nodes")] = None
    solo_only: Annotated[_Switch | None, Meta(description="old way to write max_nodes: 1")] = None
    cluster_only: Annotated[_Switch | None, Meta(description="old way to write min_nodes: 2")] = None
    min_nodes: Annotated[_Nodes | None, Meta(description="fewest nodes (1)")] = None
    max_nodes: Annotated[_Nodes | None, Meta(description="most nodes (no limit)")] = None
    container: Annotated[str | None, Meta(description="image; the platform's image for the engine if not given")] = None
    containers: Annotated[list[AuthoredHostImage] | AuthoredHostImage | None, Meta(description="images of single hosts")] = None
    builder: Annotated[str | None, Meta(description="how the image comes to be", examples=["docker-pull", "eugr", "uv-venv"])] = None
    builder_config: Annotated[_Mapping | None, Meta(description="settings of the builder")] = None
    build_args: Annotated[_Texts | None, Meta(description="arguments of the eugr builder")] = None
    mods: Annotated[_Texts | None, Meta(description="folders with a run.sh that changes the container")] = None
    defaults: Annotated[_Mapping | None, Meta(description="configuration of the engine; {key} in the command, or its flag")] = None
    overrides: Annotated[list[AuthoredOverride] | AuthoredOverride | None, Meta(description="conditional settings; later ones win")] = None
    env: Annotated[_Mapping | None, Meta(description="environment of the container; {config.KEY} and {launch.FIELD} are filled in")] = None
    command: Annotated[str | None, Meta(description="command that serves, with {placeholders}; made from defaults if not given")] = None
    runtime_config: Annotated[_Mapping | None, Meta(description="settings of the engine that are no flags")] = None
    metadata: Annotated[_Mapping | None, Meta(description="description, maintainer, sizes for the memory estimate")] = None
    pre_exec: Annotated[_Hooks | None, Meta(description="in every container, before serving")] = None
    post_exec: Annotated[_Hooks | None, Meta(description="in the head's container, once it answers")] = None
    post_commands: Annotated[_Hooks | None, Meta(description="on this machine, after post_exec")] = None
    stop_after_post: Annotated[_Switch | None, Meta(description="stop the workload after the post hooks")] = None
    benchmark: Annotated[_Mapping | None, Meta(description="how to benchmark it")] = None
    layout: Annotated[_Mapping | None, Meta(description="which ranks go where")] = None
    executor: Annotated[str | None, Meta(description="how processes are run", examples=["docker", "local", "k8s"])] = None
    executor_config: Annotated[_Mapping | None, Meta(description="settings of the executor (volumes, shm_size, ulimit, …)")] = None
    scheduler: Annotated[str | None, Meta(description="how hosts are chosen")] = None
    distribution_config: Annotated[_Mapping | None, Meta(description="which models and images are shipped")] = None
    cluster_config: Annotated[_Mapping | None, Meta(description="cache folders and a model that is in place already")] = None
    runtime_cache: Annotated[_Switch | _Mapping | None, Meta(description="compile cache that is kept on each host")] = None
    readiness: Annotated[AuthoredReadiness | None, Meta(description="what a launch waits for")] = None
    capabilities: Annotated[_Texts | None, Meta(description="what the model can do (tools, vision)")] = None
    unsupported_capabilities: Annotated[_Texts | None, Meta(description="what the model cannot do")] = None
    include: Annotated[str | None, Meta(description="a recipe this one stands on: a file beside it, or @registry/recipe")] = None


def recipe_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12). Unknown keys are allowed, as loading keeps them.

    A recipe that includes another may leave out ``model``.
    """
    (root,), definitions = msgspec.json.schema_components([AuthoredRecipe], ref_template="#/$defs/{name}")
    recipe = definitions[root["$ref"].rpartition("/")[2]]
    recipe["anyOf"] = [{"required": [key]} for key in recipe.pop("required", [])] + [{"required": ["include"]}]
    for name in recipe["properties"]:
        recipe["properties"][name].pop("default", None)
    return {"$schema": SCHEMA_ID, "title": "sparkrun recipe", **root, "$defs": definitions}
