"""Every real recipe has an answer, or an honest unknown. They are in ``SPARKRUN_SHARED``, or a folder ``shared`` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkrun.api import make_context
from sparkrun.core.errors import RecipeError
from sparkrun.core.limits import Fit
from sparkrun.core.recipe import load_recipe_file
from sparkrun.core.vram_report import VramOptions, VramReport, report_vram

RECIPES = Path(os.environ.get("SPARKRUN_SHARED") or Path(__file__).resolve().parents[3] / "shared") / "recipes"
pytestmark = pytest.mark.skipif(not RECIPES.is_dir(), reason="no folder of public recipes (set SPARKRUN_SHARED)")


def reports(env: dict[str, str], options: VramOptions) -> dict[str, VramReport]:
    sctx = make_context(env=env, cwd=RECIPES, offline=True)
    found = {}
    for path in sorted(RECIPES.rglob("*.y*ml")):
        try:
            recipe = load_recipe_file(path)
        except RecipeError:
            continue  # other files of a registry
        found[str(path.relative_to(RECIPES))] = report_vram(recipe, options, sctx)
    return found


@pytest.mark.parametrize("settings", [{}, {"max_model_len": 8192}, {"tensor_parallel": 8}])
def test_every_recipe_has_an_answer_or_says_what_is_missing(env: dict[str, str], settings: dict[str, int]) -> None:
    found = reports(env, VramOptions(settings=dict(settings)))
    assert len(found) > 200
    for path, report in found.items():
        data = report.to_json()
        assert data["memory_estimate_complete"] == (report.estimate.missing is None), path
        assert data["model_weights_gb"] != 0, path
        assert data["fit"] != "unknown" or data["fit_reason"], path
        assert report.verdict.fit is not Fit.FITS or data["total_per_gpu_gb"] is not None, path


def test_what_recipes_tell_is_counted(env: dict[str, str]) -> None:
    found = {Path(path).name: report for path, report in reports(env, VramOptions()).items()}
    assert found["deepseek-v4.1-flash-mxfp4-tp4.yaml"].estimate.weights_gib == 326
    assert found["glm52.yaml"].estimate.kv.token_bytes == 656 * 78
    assert found["qwen3-1.7b-sglang.yaml"].verdict.fit is Fit.FITS
