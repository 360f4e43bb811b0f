"""Requests made from the OpenAPI schema, valid and not: no answer is a failure of the server."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from tests.app.conftest import server_of
from tests.photos.world import calibrated

schemathesis = pytest.importorskip("schemathesis")
EXAMPLES = int(os.environ.get("UNSEEN_EXAMPLES", "8"))  # of each operation, by hand more


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_no_request_makes_the_server_fail(library, mode):
    kind, n_requests = schemathesis.GenerationMode[mode], 0
    quiet = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}
    with server_of(library, calibrated()) as address:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        for operation in (result.ok() for result in schema.get_all_operations()):
            if mode == "NEGATIVE" and not (operation.body or operation.query or operation.path_parameters):
                continue  # nothing can be wrong

            @given(case=operation.as_strategy(generation_mode=kind))
            @settings(max_examples=EXAMPLES, **quiet)
            def check(case):
                nonlocal n_requests
                answer = case.call()
                n_requests += 1
                assert answer.status_code < 500, (case, answer.text)
                if answer.status_code >= 400:
                    assert set(answer.json()["error"]) == {"code", "message"}

            check()
    assert n_requests >= 40
