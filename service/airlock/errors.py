"""Every error that Airlock answers with. A program's own failure is a result, never one of these.

AirlockError
├── InvalidArguments            the call can't be understood or is out of bounds
│   ├── InvalidJson
│   ├── PathOutsideWorkspace
│   └── LanguageUnavailable
├── BodyTooLarge
├── Unauthorized
├── Forbidden
├── NotFound
│   └── SandboxNotFound
├── MethodNotAllowed
├── Conflict
│   ├── IdempotencyConflict
│   └── IdempotencyLost
├── TooManyRuns                 a limit on concurrency; come back later
├── EngineError
│   ├── EngineUnavailable       the engine does not answer; come back later
│   ├── EngineMisconfigured     the engine answers, but can't do what the settings ask
│   └── SandboxFailed           a sandbox could not be made, or its agent does not speak
└── InternalError               a fault of Airlock's own
"""

from typing import Any, ClassVar


class AirlockError(Exception):
    """An error with a code for programs and a sentence for people."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str, *, details: dict[str, Any] | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after


class InvalidArguments(AirlockError):
    code = "INVALID_ARGUMENTS"


class InvalidJson(InvalidArguments):
    code = "INVALID_JSON"


class PathOutsideWorkspace(InvalidArguments):
    code = "PATH_OUTSIDE_WORKSPACE"


class LanguageUnavailable(InvalidArguments):
    code = "LANGUAGE_UNAVAILABLE"


class BodyTooLarge(AirlockError):
    code = "BODY_TOO_LARGE"


class Unauthorized(AirlockError):
    code = "UNAUTHORIZED"


class Forbidden(AirlockError):
    code = "FORBIDDEN"


class NotFound(AirlockError):
    code = "NOT_FOUND"


class SandboxNotFound(NotFound):
    code = "SANDBOX_NOT_FOUND"


class MethodNotAllowed(AirlockError):
    code = "METHOD_NOT_ALLOWED"


class Conflict(AirlockError):
    code = "CONFLICT"


class IdempotencyConflict(Conflict):
    code = "IDEMPOTENCY_CONFLICT"


class IdempotencyLost(Conflict):
    code = "IDEMPOTENCY_LOST"


class TooManyRuns(AirlockError):
    code = "TOO_MANY_RUNS"
    retryable = True


class EngineError(AirlockError):
    code = "ENGINE_ERROR"


class EngineUnavailable(EngineError):
    code = "ENGINE_UNAVAILABLE"
    retryable = True


class EngineMisconfigured(EngineError):
    code = "ENGINE_MISCONFIGURED"


class SandboxFailed(EngineError):
    code = "SANDBOX_FAILED"
    retryable = True


class InternalError(AirlockError):
    code = "INTERNAL_ERROR"
