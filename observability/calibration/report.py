"""A calibration as plain text: thresholds beside each other, then levels before and after."""

from __future__ import annotations

from observability.calibration.asked import LEVELS
from observability.calibration.fitting import LEAST_KEPT, MOST_FOUND_FOR_LABELS
from observability.calibration.run import Calibration
from observability.evaluation.tables import NOTHING, table

_THRESHOLDS = {
    "reference": "found from",
    "covered_reference": "found from, where the text covers the question",
    "highly_relevant": "highly relevant from",
    "agreement": "highly relevant from, where both searches agree",
}
_GROUPS = {
    "unanswerable_far": "no answer, far from the subject",
    "unanswerable_near": "no answer, near it",
    "labels": "labelled",
    "recent": "asked lately",
}


def report(result: Calibration) -> str:
    """The whole of it, without the last line that says what became of it."""
    site, found, kept = result.site, result.unanswerable, result.labels
    source = f"calibrated on {site.in_force.date}" if site.calibrated else "as shipped"
    lines = [
        f"{site.embedder} {site.version} over {site.chunks} chunks",
        "",
        table(("similarity", f"in force ({source})", "proposed"), _thresholds(result)),
    ]
    lines += [f"  {name} is set and stays in force." for name in _set_by_environment(result)]
    lines += [
        "",
        f"Questions without an answer that find something: {found.before} of {found.asked} before, {found.after} after",
    ]
    if kept is not None:
        lines.append(
            f"Labelled questions: {kept.ranked} of {kept.asked} have their document among the first; of those it is "
            f"shown for {kept.before} before, {kept.after} after"
        )
        if kept.after < LEAST_KEPT * kept.ranked:
            lines.append(
                f"  {LEAST_KEPT:.0%} of these cannot be kept without answering more than {MOST_FOUND_FOR_LABELS:.0%} "
                "of the questions that have no answer: the proposal stops there."
            )
    return "\n".join([*lines, "", "Levels", table(("", "", "asked", *LEVELS), _levels(result))])


def _thresholds(result: Calibration) -> list[tuple[str, str, str]]:
    rows = []
    for name, label in _THRESHOLDS.items():
        values = [getattr(fit, name) for fit in (result.site.in_force, result.proposed)]
        if any(value is not None for value in values):
            before, after = (NOTHING if value is None else f"{value:.2f}" for value in values)
            rows.append((label, before, after))
    return rows


def _set_by_environment(result: Calibration) -> list[str]:
    named = {
        "RETRIEVAL_REFERENCE_THRESHOLD": result.site.reference,
        "RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD": result.site.highly_relevant,
    }
    return [f"{name}={value:g}" for name, value in named.items() if value is not None]


def _levels(result: Calibration) -> list[tuple[str, ...]]:
    rows = []
    for name, mix in result.levels.items():
        rows.append((_GROUPS.get(name, name), "before", str(mix.asked), *(str(mix.before[level]) for level in LEVELS)))
        rows.append(("", "after", "", *(str(mix.after[level]) for level in LEVELS)))
    return rows
