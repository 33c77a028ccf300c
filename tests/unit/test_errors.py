import re

from airlock import errors
from airlock.errors import AirlockError, EngineUnavailable

EVERY_ERROR = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AirlockError)
]


def depth(kind: type) -> int:
    return len(kind.__mro__) - len(AirlockError.__mro__)


def test_the_tree_in_the_docstring_is_the_hierarchy():
    drawn = re.findall(r"^([│├└─ ]*)(\w+)", errors.__doc__ or "", re.MULTILINE)
    tree = {name: len(indent) // 4 for indent, name in drawn if name in vars(errors)}
    assert tree == {kind.__name__: depth(kind) for kind in EVERY_ERROR}


def test_codes_are_unique_and_free_of_engines():
    codes = [kind.code for kind in EVERY_ERROR if kind is not AirlockError]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[A-Z_]+", code) for code in codes)
    assert not any(engine in code for code in codes for engine in ("DOCKER", "BUBBLEWRAP", "KUBERNETES"))


def test_an_error_carries_what_an_answer_needs():
    error = EngineUnavailable("The daemon is away.", details={"host": "x"}, retry_after=2)
    assert str(error) == error.message == "The daemon is away."
    assert (error.code, error.retryable, error.details, error.retry_after) == (
        "ENGINE_UNAVAILABLE",
        True,
        {"host": "x"},
        2,
    )
    assert AirlockError("x").details == {}
