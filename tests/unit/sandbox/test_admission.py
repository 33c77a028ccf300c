from contextlib import ExitStack

import pytest

from airlock.errors import TooManyRuns
from airlock.sandbox.admission import Admission


def test_a_tenant_is_bounded_and_others_are_not_affected():
    admission = Admission(max_runs=10, max_runs_per_tenant=2)
    with ExitStack() as stack:
        stack.enter_context(admission.admit("a"))
        stack.enter_context(admission.admit("a"))
        with pytest.raises(TooManyRuns) as refusal, admission.admit("a"):
            pass
        assert refusal.value.retry_after
        stack.enter_context(admission.admit("b"))


def test_the_service_is_bounded():
    admission = Admission(max_runs=1, max_runs_per_tenant=2)
    with admission.admit("a"), pytest.raises(TooManyRuns, match="service"), admission.admit("b"):
        pass


def test_a_place_is_given_back_even_after_a_failure():
    admission = Admission(max_runs=1, max_runs_per_tenant=1)
    with pytest.raises(RuntimeError), admission.admit("a"):
        raise RuntimeError
    with admission.admit("b"):
        pass
