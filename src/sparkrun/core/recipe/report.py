"""What checking a recipe found, and what that means for ``recipe validate``."""

from __future__ import annotations

from typing import Literal, TypedDict, get_args

import msgspec

from sparkrun.core.recipe.schema import Finding, Severity

FailOn = Literal["error", "warning", "suggestion", "none"]

_ORDER: tuple[Severity, ...] = get_args(Severity)

SUMMARIES = {
    "recipe-syntax": "the file is not a recipe",
    "recipe-field": "a field cannot be used as it is",
    "runtime-field": "the runtime cannot do this",
    "unknown-runtime": "no such runtime",
    "builder-unknown": "no such builder",
    "builder-disabled": "the builder is switched off",
    "builder-field": "the builder cannot do this",
    "executor-unavailable": "the executor is unknown or switched off",
    "readiness-incompatible": "the runtime has no such readiness check",
    "invalid-hook-entry": "a hook cannot be run",
    "duplicate-key": "a key stands twice",
    "unknown-placeholder": "the command names a key that exists nowhere",
    "unmapped-config-key": "a default that nothing reads",
    "internal-config-key": "a default that is internal",
    "hardcoded-rendezvous-flag": "a flag that each rank gets at launch",
    "unpinned-model-revision": "the revision does not reach the engine",
    "managed-comm-env": "a network variable that is detected on each host",
    "overridden-cache-env": "a variable that is always set at launch",
    "managed-cache-env": "a variable of the managed compile cache",
    "unresolved-env-value": "a variable names a key that exists nowhere",
    "env-value-not-text": "a variable is not text to YAML",
    "empty-env-value": "a variable without a value",
    "override-unknown-selector": "a condition that never holds",
    "misplaced-config-key": "a key in the wrong place",
    "unknown-top-level-key": "an unknown key",
    "unknown-option": "an unknown option of a setting",
    "unknown-engine-flag": "a flag that the engine is not known to have",
    "non-portable-mount": "a mount that exists on one site only",
    "node-count-mismatch": "parallelism and node count do not fit",
    "model-not-in-command": "the command does not name the model",
    "deprecated-recipe-format": "the old recipe format",
    "deprecated-runtime": "an old runtime",
    "deprecated-topology": "an old way to say how many nodes",
    "deprecated-brace-escape": "braces that need no doubling",
    "deprecated-recipe-name": "a name that is not used",
    "deprecated-build-arg": "an old place for build arguments",
    "hardcoded-serve-flag": "a value that cannot be changed from outside",
    "restated-model-arg": "the model is spelt out in the command",
    "restated-managed-path": "a path that is set at launch",
    "restated-platform-env": "a variable that the platform sets",
    "inline-script": "a program inside the command",
    "nested-include": "a long chain of includes",
    "implicit-builder": "a builder that is only implied",
    "dangling-line-continuation": "a backslash that continues nothing",
    "scalar-hook-command-list": "one hook where a list is meant",
    "author-recipe-version": "a revision number of the author's own",
    "recipe-metadata": "a detail of the description",
}
"""What each rule is about, in a few words."""


class Issue(TypedDict):
    """One finding as ``recipe validate --json`` shows it."""

    severity: str
    code: str
    message: str
    summary: str
    fix: str | None
    deprecation: bool
    where: str | None


class Verdict(TypedDict):
    """The answer of ``recipe validate --json``."""

    recipe: str
    valid: bool
    failed: bool
    fail_on: str
    errors: int
    warnings: int
    suggestions: int
    issues: list[Issue]


class Report(msgspec.Struct, frozen=True):
    """All findings on one recipe, worst first, each once."""

    recipe: str
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, recipe: str, findings: tuple[Finding, ...]) -> Report:
        """The report of findings in any order."""
        return cls(recipe, tuple(sorted(dict.fromkeys(findings), key=lambda finding: _ORDER.index(finding.severity))))

    def count(self, severity: Severity) -> int:
        """How many findings are that bad."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def valid(self) -> bool:
        """Whether the recipe can be launched."""
        return not self.count("error")

    def failed(self, fail_on: FailOn) -> bool:
        """Whether a finding is at least as bad as ``fail_on``."""
        return bool(self.at_least(fail_on))

    def at_least(self, fail_on: FailOn) -> tuple[Finding, ...]:
        """The findings that are at least as bad."""
        severities = () if fail_on == "none" else _ORDER[: _ORDER.index(fail_on) + 1]
        return tuple(finding for finding in self.findings if finding.severity in severities)

    def as_json(self, fail_on: FailOn) -> Verdict:
        """The shape of ``recipe validate --json``."""
        return Verdict(
            recipe=self.recipe,
            valid=self.valid,
            failed=self.failed(fail_on),
            fail_on=fail_on,
            errors=self.count("error"),
            warnings=self.count("warning"),
            suggestions=self.count("suggestion"),
            issues=[_issue(finding) for finding in self.findings],
        )


def _issue(finding: Finding) -> Issue:
    return Issue(
        severity=finding.severity,
        code=finding.code,
        message=finding.message,
        summary=SUMMARIES.get(finding.code, finding.code.replace("-", " ")),
        fix=finding.fix,
        deprecation=finding.deprecation,
        where=finding.where,
    )
