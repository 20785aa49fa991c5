"""Embedded bash, run on hosts by `bash -s`."""

from sparkrun.scripts.catalog import SCRIPTS, ScriptSpec, compose_script, compose_scripts, load_script, split_script, whole_script

__all__ = ["SCRIPTS", "ScriptSpec", "compose_script", "compose_scripts", "load_script", "split_script", "whole_script"]
