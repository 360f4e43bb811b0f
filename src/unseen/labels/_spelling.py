"""Tables of spelling: names that data sets glue together, British and American pairs, plurals."""

from __future__ import annotations

__all__ = ["DATA_SET_NAMES", "SMALL_WORDS", "VOC_WORDS", "number_forms", "other_spellings"]

# Names of data sets that are no words in any language, with what they mean.
DATA_SET_NAMES = {
    "diningtable": "dining table",
    "tvmonitor": "tv monitor",
    "pottedplant": "potted plant",
    "trafficlight": "traffic light",
    "firehydrant": "fire hydrant",
    "stopsign": "stop sign",
    "parkingmeter": "parking meter",
    "teddybear": "teddy bear",
    "hairdrier": "hair dryer",
    "hair drier": "hair dryer",
    "sportsball": "sports ball",
    "baseballbat": "baseball bat",
    "baseballglove": "baseball glove",
    "tennisracket": "tennis racket",
}
# Classes of PASCAL VOC as people write them; the others are words already.
VOC_WORDS = {
    "aeroplane": "airplane",
    "diningtable": "dining table",
    "motorbike": "motorcycle",
    "pottedplant": "potted plant",
    "tvmonitor": "television",
}

# Left out of a phrase that has other words: they say nothing about what is in a picture.
SMALL_WORDS = frozenset({"a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"})

_PAIRS = """
aeroplane airplane, aluminium aluminum, armour armor, axe ax, catalogue catalog, centre center, cheque check,
chequered checkered, cosy cozy, colour color, coloured colored, colourful colorful, dialogue dialog,
doughnut donut, favourite favorite, fibre fiber, flavour flavor, grey gray, greyhound grayhound,
harbour harbor, jewellery jewelry, kerb curb, labour labor, licence license, litre liter, metre meter,
mould mold, moustache mustache, neighbour neighbor, neighbourhood neighborhood, omelette omelet, parlour parlor,
plough plow, programme program, pyjamas pajamas, racquet racket, sceptre scepter, sombre somber,
storey story, sulphur sulfur, theatre theater, traveller traveler, tyre tire, vapour vapor, waggon wagon,
whisky whiskey, woollen woolen, yoghurt yogurt, motorbike motorcycle, drier dryer
"""

_SPELLINGS: dict[str, str] = {}
for _pair in _PAIRS.replace("\n", " ").split(","):
    _british, _american = _pair.split()
    _SPELLINGS |= {_british: _american, _american: _british}

_IRREGULAR = """
man men, woman women, child children, person people, mouse mice, goose geese, foot feet, tooth teeth, ox oxen,
leaf leaves, loaf loaves, knife knives, wife wives, wolf wolves, shelf shelves, calf calves, half halves,
scarf scarves, thief thieves, cactus cacti, fungus fungi, penny pennies, die dice
"""

_SINGULAR: dict[str, str] = {}
_PLURAL: dict[str, str] = {}
for _pair in _IRREGULAR.replace("\n", " ").split(","):
    _one, _many = _pair.split()
    _SINGULAR[_many] = _one
    _PLURAL[_one] = _many

# Ending of a plural, and the endings that its singular may have, the likelier first.
_ENDINGS = (
    ("ies", ("y", "ie")),
    ("sses", ("ss",)),
    ("shes", ("sh",)),
    ("ches", ("ch", "che")),
    ("xes", ("x",)),
    ("zes", ("ze", "z")),
    ("oes", ("o", "oe")),
    ("ses", ("se", "s")),
    ("ves", ("ve", "f", "fe")),
    ("s", ("",)),
)
_NO_PLURAL = ("ss", "us", "is")


def other_spellings(word: str) -> list[str]:
    """The British word of an American one and the reverse; a plural of either too."""
    if word in _SPELLINGS:
        return [_SPELLINGS[word]]
    singular = word.removesuffix("s")
    return [_SPELLINGS[singular] + "s"] if singular != word and singular in _SPELLINGS else []


def number_forms(word: str) -> list[str]:
    """Singulars that a plural may have, or plurals of a singular, the likelier first."""
    return [form for form in _singulars(word) + _plurals(word) if form != word]


def _singulars(word: str) -> list[str]:
    if word in _SINGULAR:
        return [_SINGULAR[word]]
    # The last word of a compound decides: "policemen", "snowmen".
    if word.endswith("men") and len(word) > 4:
        return [word.removesuffix("men") + "man"]
    if word.endswith(_NO_PLURAL) or len(word) < 4:
        return []
    for ending, singular in _ENDINGS:
        if word.endswith(ending):
            return [word.removesuffix(ending) + other for other in singular]
    return []


def _plurals(word: str) -> list[str]:
    if word in _PLURAL:
        return [_PLURAL[word]]
    if word.endswith("s") or len(word) < 3:
        return [word + "es"] if word.endswith("ss") else []
    if word.endswith("y") and word[-2] not in "aeiou":
        return [word.removesuffix("y") + "ies"]
    return [word + "es", word + "s"] if word.endswith(("x", "z", "ch", "sh", "o")) else [word + "s"]
