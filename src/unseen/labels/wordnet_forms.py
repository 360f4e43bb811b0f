"""Which nouns of WordNet a written name may be a form of: WordNet's morphology of nouns (morphy)."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["as_lemma", "base_forms"]

# Endings of plurals and what they stand for, in the order in which WordNet's morphy tries them.
_PLURALS = (
    ("s", ""),
    ("ses", "s"),
    ("ves", "f"),
    ("xes", "x"),
    ("zes", "z"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("men", "man"),
    ("ies", "y"),
)


def as_lemma(name: str) -> str:
    """``"Dining  table"`` as WordNet writes it, ``"dining_table"``."""
    return "_".join(name.lower().replace("_", " ").split())


def base_forms(name: str, exceptions: Callable[[str], tuple[str, ...]]) -> list[str]:
    """Lemmas that a name may be a form of: as written, then the listed exceptions or else what the rules give.

    Parameters
    ----------
    name : str
    exceptions : callable
        Gives the singulars of an irregular plural.

    Returns
    -------
    list of str
        Not all of them are nouns. Hyphens are tried as spaces, and spaces as hyphens, after the name as it is.
    """
    forms: list[str] = []
    written = as_lemma(name)
    for form in dict.fromkeys([written, written.replace("-", "_"), written.replace("_", "-")]):
        forms += [form, *(exceptions(form) or _regular_singulars(form))]
    return list(dict.fromkeys(forms))


def _regular_singulars(form: str) -> list[str]:
    if len(form) <= 2 or form.endswith("ss"):  # no plurals, says morphy: a boss is not several Bos
        return []
    return [form.removesuffix(plural) + singular for plural, singular in _PLURALS if form.endswith(plural)]
