"""How long do the import and the first fit of a new process take, once the kernels are cached?

python -m benchmarks.first_use
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np

from benchmarks._timing import arguments, show, write_json

PROGRAM = """
import json, time
start = time.perf_counter()
import unseen
package = time.perf_counter() - start
from unseen import TAEP, make_tagged_scenes
estimator = time.perf_counter() - start
data = make_tagged_scenes(n_train=100, n_test=5)
start = time.perf_counter()
TAEP(rank=2, tol=0.1).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
print(json.dumps({"import unseen": package, "from unseen import TAEP": estimator,
                  "first fit": time.perf_counter() - start}))
"""


def main() -> None:
    args = arguments(__doc__, "first_use").parse_args()
    runs = []
    for _ in range(args.rounds + 1):  # the first one may have to compile
        output = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
        runs.append(json.loads(output))
    rows = [{"process": "first here", **runs[0]}]
    rows.append(
        {"process": "later (median)"} | {key: float(np.median([r[key] for r in runs[1:]])) for key in runs[0]}
    )
    show("seconds", rows)
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
