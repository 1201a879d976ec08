"""Who may do what: API keys, the browser's session, scopes.

Default-deny twice: a REST view without ``required_scopes`` answers nobody (:class:`HasScope`), and every other view
asks for a sign-in (Django's ``LoginRequiredMiddleware``) unless it opens itself by :func:`require_scope`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, Literal, cast

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.core.cache import cache
from django.core.exceptions import PermissionDenied as PageDenied
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from rest_framework.authentication import BaseAuthentication, CSRFCheck, SessionAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, PermissionDenied, Throttled
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import SimpleRateThrottle

from documents.models import ApiKey
from documents.problem_details import problem, wants_problem

Scope = Literal["read", "chat", "write", "ops"]
SCOPES: tuple[Scope, ...] = ("read", "chat", "write", "ops")
_IMPLIED: dict[str, frozenset[str]] = {"write": frozenset({"read"})}
# A key in an address ends in histories and logs: it is refused there, whatever it is worth.
QUERY_KEY_NAMES = frozenset({"api_key", "api-key", "apikey", "key", "access_token", "token", "authorization"})
_MAX_KEY_LENGTH = 200
# Compared with when there is no such key, so that an unknown prefix takes as long as a wrong secret.
_NO_HASH = "sha512$$" + "0" * 128


@dataclass(frozen=True)
class Principal:
    """Who calls: a person, or a key that acts as itself. ``id`` (``user:7``, ``key:Ab12Cd34``) guards what is theirs.

    A key made for a person has the person's ``id`` and its own ``scopes``.
    """

    id: str
    label: str
    user: Any | None
    scopes: frozenset[str]
    by_key: bool = False

    def allows(self, scope: str, permission: str = "") -> bool:
        """Whether ``scope`` is given; for a signed-in person who writes, the model ``permission`` decides."""
        if scope == "write" and not self.by_key:
            return bool(permission) and self.user is not None and bool(self.user.has_perm(permission))
        return scope in self.scopes


def scopes_of(text: str) -> frozenset[str]:
    """The scopes in a key's space-separated field, with those that they include; unknown words give nothing."""
    named = {word for word in text.split() if word in SCOPES}
    return frozenset(named.union(*(_IMPLIED.get(word, frozenset()) for word in named)))


def principal_of_key(key: ApiKey) -> Principal:
    """The key's person, or the key itself where it has none."""
    identity = f"user:{key.user_id}" if key.user_id is not None else f"key:{key.prefix}"
    return Principal(id=identity, label=key.name, user=key.user, scopes=scopes_of(key.scopes), by_key=True)


def principal_of_user(user: Any) -> Principal:
    """A signed-in person: reads and chats; staff sees operations too; writing goes by model permission."""
    scopes = {"read", "chat", "ops"} if user.is_staff else {"read", "chat"}
    return Principal(id=f"user:{user.pk}", label=user.get_username(), user=user, scopes=frozenset(scopes))


def principal_of(request: HttpRequest | Request) -> Principal:
    """Who made this request; raises ``NotAuthenticated`` where nobody is known."""
    plain = _plain(request)
    known = getattr(plain, "principal", None)
    if isinstance(known, Principal):
        return known
    user = request.user
    if not user.is_authenticated:
        raise NotAuthenticated
    return principal_of_user(user)


# ---- Authentication --------------------------------------------------------------------------------------------------
def find_key(raw: str) -> ApiKey:
    """The usable key with this text; raises ``AuthenticationFailed``.

    The row is read each time: a revocation holds at once, in every process.
    """
    candidate = None
    if raw.isascii() and raw.isprintable() and len(raw) <= _MAX_KEY_LENGTH:
        prefix = raw.partition(".")[0]
        candidate = ApiKey.objects.select_related("user").filter(prefix=prefix).first()
    matches = ApiKey.objects.key_generator.verify(raw, candidate.hashed_key if candidate is not None else _NO_HASH)
    if candidate is None or not matches:
        raise AuthenticationFailed(_("There is no such API key."), code="invalid_key")
    if candidate.revoked:
        raise AuthenticationFailed(_("This API key was revoked; ask for a new one."), code="key_revoked")
    if candidate.expiry_date is not None and candidate.expiry_date <= timezone.now():
        raise AuthenticationFailed(_("This API key has expired; ask for a new one."), code="key_expired")
    if candidate.user is not None and not candidate.user.is_active:
        raise AuthenticationFailed(_("The person of this API key is not active."), code="user_inactive")
    return cast(ApiKey, candidate)


def authenticate_key(request: HttpRequest | Request) -> tuple[Any, ApiKey] | None:
    """The person (or nobody) and the key of an ``Authorization: Bearer`` header; None without one."""
    plain = _plain(request)
    if QUERY_KEY_NAMES.intersection(name.lower() for name in plain.GET):
        raise AuthenticationFailed(
            _("A key in an address is refused and should now be revoked. Send it in a header, Authorization: Bearer."),
            code="key_in_query",
        )
    scheme, _space, raw = get_authorization_header(cast(Request, plain)).decode("latin-1").partition(" ")
    if scheme.lower() != "bearer":
        return None
    key = find_key(raw.strip())
    plain.principal = principal_of_key(key)  # type: ignore[attr-defined]
    return key.user or AnonymousUser(), key


class ApiKeyAuthentication(BaseAuthentication):
    """``Authorization: Bearer <key>``."""

    def authenticate(self, request: Request) -> tuple[Any, ApiKey] | None:
        return authenticate_key(request)

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="kbsite"'


class BrowserAuthentication(SessionAuthentication):
    """The browser's session, with the CSRF token asked for whenever something is changed."""

    def enforce_csrf(self, request: Request) -> None:
        _check_csrf(request)


# ---- Permission ------------------------------------------------------------------------------------------------------
class HasScope(BasePermission):
    """A view names its scope: ``required_scopes = "read"``, or ``{"GET": "read", "POST": "write"}``.

    Where that is ``write``, ``required_permissions`` (by method) names the model permission that lets a signed-in
    person do it. A view that names nothing answers nobody.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        declared = getattr(view, "required_scopes", None)
        if not declared:
            return False
        if request.auth is None and not request.user.is_authenticated:
            return False
        principal = principal_of(request)
        scope = _scope_for(request.method or "", declared)
        permission = getattr(view, "required_permissions", {}).get(request.method, "")
        if scope is None:  # no such method here: whoever may use the view at all is told so (405)
            return any(principal.allows(each) for each in _scopes_in(declared))
        if not principal.allows(scope, permission):
            raise _missing(principal, scope)
        return True


def _scope_for(method: str, declared: str | Mapping[str, str]) -> str | None:
    if isinstance(declared, str):
        return declared
    if method in declared:
        return declared[method]
    return declared.get("GET") if method in SAFE_METHODS else None


def _scopes_in(declared: str | Mapping[str, str]) -> set[str]:
    return {declared} if isinstance(declared, str) else set(declared.values())


def _missing(principal: Principal, scope: str) -> PermissionDenied:
    detail = (
        _("This API key does not have the scope “%(scope)s”.") % {"scope": scope}
        if principal.by_key
        else _("You do not have the right to do this.")
    )
    return PermissionDenied(detail, code="missing_scope")


# ---- Throttling ------------------------------------------------------------------------------------------------------
class PrincipalThrottle(SimpleRateThrottle):
    """So many calls a minute for each caller and each ``throttle_scope`` of a view (``DEFAULT_THROTTLE_RATES``).

    A view may limit it to some methods by ``throttle_methods``. A minute begins with a caller's first call. Calls are
    counted by one atomic step each: kept as a list that is read and written back, calls at once would not see each
    other, least of all those of another process.
    """

    since: float

    def __init__(self) -> None:
        """The rate is looked up when the scope is known."""

    def allow_request(self, request: Request, view: Any) -> bool:
        methods = getattr(view, "throttle_methods", None)
        if methods is not None and request.method not in methods:
            return True
        return self.admits(view.throttle_scope, request)

    def admits(self, scope: str, request: HttpRequest | Request) -> bool:
        """Count this call; False where it is one too many."""
        self.scope = scope
        self.rate = cast("dict[str, str | None]", api_settings.DEFAULT_THROTTLE_RATES)[scope]
        self.num_requests, self.duration = self.parse_rate(self.rate)
        if self.num_requests is None or self.duration is None:
            return True
        key = f"throttle:{scope}:{principal_of(request).id}"
        self.since = cast(float, cache.get_or_set(f"{key}:since", time.time(), self.duration))
        # The count outlives its minute, so that it cannot vanish between these two steps.
        counter = f"{key}:{self.since}"
        cache.add(counter, 0, 2 * self.duration)
        try:
            return cache.incr(counter) <= self.num_requests
        except ValueError:  # a full cache has let go of it
            return True

    def wait(self) -> float | None:
        """Seconds until the next minute begins."""
        return max(0.0, self.since + (self.duration or 0) - time.time())


# ---- Plain Django views ----------------------------------------------------------------------------------------------
AnyView = Callable[..., Any]


def require_scope(scope: Scope, *, throttle: str = "", permission: str = "") -> Callable[[AnyView], AnyView]:
    """Let a plain view (sync or async) be called with a key of ``scope`` or by a signed-in person who has it.

    Takes over from ``LoginRequiredMiddleware`` and from the CSRF middleware: a session that changes something must
    bring its token, a key needs none. Pages send the nameless to the sign-in, programs get a 401.
    ``principal_of(request)`` then tells who it is.
    """

    def decorate(view: AnyView) -> AnyView:
        if iscoroutinefunction(view):

            @functools.wraps(view)
            async def guarded_async(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
                refusal = await sync_to_async(_admit)(request, scope, throttle, permission)
                if refusal is not None:
                    return refusal
                return await cast(Awaitable[HttpResponseBase], view(request, *args, **kwargs))

            return _opened(guarded_async)

        @functools.wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            refusal = _admit(request, scope, throttle, permission)
            return refusal if refusal is not None else cast(HttpResponseBase, view(request, *args, **kwargs))

        return _opened(guarded)

    return decorate


def _opened(view: Any) -> AnyView:
    view.csrf_exempt = True
    view.login_required = False
    return cast(AnyView, view)


def _admit(request: HttpRequest, scope: Scope, throttle: str, permission: str) -> HttpResponseBase | None:
    """None where the call may go on, else what to answer."""
    try:
        if authenticate_key(request) is None:
            if not request.user.is_authenticated:
                raise NotAuthenticated
            _check_csrf(request)
            request.principal = principal_of_user(request.user)  # type: ignore[attr-defined]
        principal = principal_of(request)
        if not principal.allows(scope, permission):
            raise _missing(principal, scope)
        counter = PrincipalThrottle()
        if throttle and not counter.admits(throttle, request):
            raise Throttled(wait=counter.wait())
    except (NotAuthenticated, AuthenticationFailed) as refusal:
        if request.method in SAFE_METHODS and not wants_problem(request) and isinstance(refusal, NotAuthenticated):
            return redirect_to_login(request.get_full_path())
        return _refusal(refusal, headers={"WWW-Authenticate": 'Bearer realm="kbsite"'})
    except PermissionDenied as refusal:
        if not wants_problem(request):
            raise PageDenied(str(refusal.detail)) from refusal
        return _refusal(refusal)
    except Throttled as refusal:
        return _refusal(refusal, headers=retry_after(getattr(refusal, "wait", None)))
    return None


def retry_after(wait: float | None) -> dict[str, str]:
    """The header of a 429, in whole seconds, never 0."""
    return {"Retry-After": str(max(1, -int(-(wait or 1) // 1)))}


def _refusal(
    refusal: AuthenticationFailed | NotAuthenticated | PermissionDenied | Throttled,
    headers: Mapping[str, str] | None = None,
) -> HttpResponseBase:
    return problem(
        status=refusal.status_code, code=str(refusal.get_codes()), detail=str(refusal.detail), headers=headers
    )


def _check_csrf(request: HttpRequest | Request) -> None:
    check = CSRFCheck(lambda _request: None)  # type: ignore[arg-type]
    check.process_request(request)
    reason = check.process_view(request, cast(Any, None), (), {})
    if reason:
        raise PermissionDenied(_("CSRF check failed: %(reason)s") % {"reason": reason}, code="csrf_failed")


def _plain(request: HttpRequest | Request) -> HttpRequest:
    return request._request if isinstance(request, Request) else request
