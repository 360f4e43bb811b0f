"""What the paper prints: Tables 1 and 2 of Ye & Guo (2018), and the protocol that follows from them."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np

from unseen.evaluation.metrics import Summary

__all__ = ["PRINTED", "TEST_IMAGES", "ImpliedTotal", "Protocol", "implied_totals", "printed"]

Protocol = Literal["zero-shot", "generalized"]

_ROWS: Final = """
zero-shot   voc2007 ConSE    49.98 30.80 27.57 28.12
zero-shot   voc2007 LatEm-M  52.45 35.32 36.69 26.28
zero-shot   voc2007 DMP      53.52 36.70 40.44 25.72
zero-shot   voc2007 Fast0Tag 52.39 35.01 36.76 26.53
zero-shot   voc2007 TAEP     57.42 38.48 42.33 24.98
zero-shot   voc2007 TAEP-C   59.22 39.84 43.77 24.01
zero-shot   voc2007 TAEP-H   57.62 38.95 43.29 24.46
zero-shot   voc2012 ConSE    49.95 33.48 28.83 27.13
zero-shot   voc2012 LatEm-M  51.44 35.74 36.33 26.21
zero-shot   voc2012 DMP      52.92 35.73 41.04 26.12
zero-shot   voc2012 Fast0Tag 52.29 34.23 35.38 26.41
zero-shot   voc2012 TAEP     54.39 37.63 41.58 25.25
zero-shot   voc2012 TAEP-C   57.13 39.30 42.97 24.27
zero-shot   voc2012 TAEP-H   56.10 38.89 42.23 24.44
generalized voc2007 ConSE    64.10 42.11 32.29 12.78
generalized voc2007 LatEm-M  66.46 43.11 32.37 12.56
generalized voc2007 DMP      67.79 43.97 34.13 12.37
generalized voc2007 Fast0Tag 67.34 43.54 33.31 12.49
generalized voc2007 TAEP     68.16 43.61 35.29 12.01
generalized voc2007 TAEP-C   69.87 44.75 35.62 11.98
generalized voc2007 TAEP-H   69.74 44.55 35.56 12.00
generalized voc2012 ConSE    62.85 41.17 35.72 13.04
generalized voc2012 LatEm-M  63.06 39.95 32.35 13.31
generalized voc2012 DMP      64.24 41.29 32.39 13.02
generalized voc2012 Fast0Tag 64.63 41.28 32.46 12.97
generalized voc2012 TAEP     64.67 40.60 34.07 12.75
generalized voc2012 TAEP-C   65.33 42.10 36.74 12.53
generalized voc2012 TAEP-H   65.10 41.39 35.95 12.94
"""


def _parse(rows: str) -> dict[tuple[str, str, str], Summary]:
    table = {}
    for line in rows.strip().splitlines():
        protocol, data_set, method, *figures = line.split()
        table[protocol, data_set, method] = Summary(*(float(figure) / 100.0 for figure in figures))
    return table


# (protocol, data set, method) to the printed figures, as fractions.
PRINTED: Final = _parse(_ROWS)
# Its data sets; VOC2012 is tested on what is published as validation images.
TEST_IMAGES: Final[dict[str, int]] = {"voc2007": 4952, "voc2012": 5823}
_N_LABELS: Final[dict[str, int]] = {"zero-shot": 10, "generalized": 20}


class ImpliedTotal(NamedTuple):
    """What a printed row says of k + a: labels predicted and labels true, for each image."""

    method: str
    total: float


def printed(protocol: Protocol, data_set: str, method: str) -> Summary | None:
    """The printed figures of a method, as fractions, or None if the paper has no such row.

    Parameters
    ----------
    protocol : {"zero-shot", "generalized"}
        Table 1 or Table 2.
    data_set : str
        "voc2007" or "voc2012".
    method : str
        As the paper writes it.

    Returns
    -------
    Summary or None
    """
    return PRINTED.get((protocol, data_set, method))


def implied_totals(protocol: Protocol, data_set: str) -> tuple[ImpliedTotal, ...]:
    """``k + a = Hamming * L / (1 - micro-F1)`` of each printed row; empty for a data set the paper has not.

    A prediction of the k best labels of each image, with a labels true on average, obeys this identity whatever
    its quality. Rows that agree tell how the paper's predictions were made.

    Parameters
    ----------
    protocol : {"zero-shot", "generalized"}
        Table 1 (L = 10) or Table 2 (L = 20).
    data_set : str
        "voc2007" or "voc2012".

    Returns
    -------
    tuple of ImpliedTotal
        In the order of the table.
    """
    return tuple(
        ImpliedTotal(method, float(np.round(row.hamming * _N_LABELS[protocol] / (1.0 - row.micro_f1), 6)))
        for (of_protocol, of_data_set, method), row in PRINTED.items()
        if (of_protocol, of_data_set) == (protocol, data_set)
    )
