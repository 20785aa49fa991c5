from __future__ import annotations

import json
import shlex
from collections.abc import Callable

import pytest

from sparkrun.core.plan import HostAction, LaunchPlan, RankPlan, Stage, mask
from sparkrun.core.remote import ScriptCall
from sparkrun.core.secret_names import is_secret_name, split_secrets
from sparkrun.core.shell_text import quote_word


def plan_with_secret() -> LaunchPlan:
    rank = RankPlan(rank=0, host="h", role="solo", name="n", command="serve --api-key s3cret-word -m x", secret_env={"HF_TOKEN": "hf_abc"})
    call = ScriptCall("local_start", {"COMMAND": rank.command}, {"SECRET_ENVS": ("HF_TOKEN=hf_abc",)})
    return LaunchPlan(
        cluster_id="c",
        intent_id="i",
        placement_token="p",
        recipe="r",
        recipe_ref="r.yaml",
        runtime="llama-cpp",
        executor="local",
        model="m",
        served_model_name="m",
        port=1,
        endpoint="http://h:1/v1",
        hosts=("h",),
        ranks=(rank,),
        stages=(Stage("start", (HostAction("h", "start", call, ScriptCall("local_stop", {"NAMES": ("n",)})),)),),
        secret_values=("s3cret-word", "hf_abc"),
    )


def test_no_secret_is_in_the_public_plan() -> None:
    text = json.dumps(plan_with_secret().public())
    assert "s3cret-word" not in text
    assert "hf_abc" not in text


def test_the_public_plan_says_which_secrets_there_are() -> None:
    public = plan_with_secret().public()
    assert public["ranks"][0]["secret_env"] == {"HF_TOKEN": "***"}
    assert public["stages"][0]["actions"][0]["call"]["secrets"] == {"SECRET_ENVS": ["HF_TOKEN=***"]}


def test_everything_but_secrets_is_public_unchanged() -> None:
    assert plan_with_secret().public()["ranks"][0]["command"] == "serve --api-key *** -m x"


@pytest.mark.parametrize("spell", [str, shlex.quote, quote_word, json.dumps])
def test_a_secret_with_quotes_is_masked_however_it_is_spelt(spell: Callable[[str], str]) -> None:
    secret = 'it\'s "deep" \\ down'

    assert "deep" not in mask(f"--api-key {spell(secret)}", [secret])


def test_a_short_secret_is_masked_as_a_word_only() -> None:
    assert mask("port 1234 key 1", ["1"]) == "port 1234 key ***"


@pytest.mark.parametrize("name", ["HF_TOKEN", "LLAMA_API_KEY", "MY_SECRET", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "api_key"])
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["MAX_NUM_BATCHED_TOKENS", "TOKENIZERS_PARALLELISM", "NCCL_IB_HCA", "KEYBOARD", "VLLM_TOKEN_BUDGET"])
def test_harmless_names(name: str) -> None:
    assert not is_secret_name(name)


def test_an_empty_secret_is_plain() -> None:
    assert split_secrets({"HF_TOKEN": "", "A": "1", "X_TOKEN": "t"}) == ({"HF_TOKEN": "", "A": "1"}, {"X_TOKEN": "t"})
