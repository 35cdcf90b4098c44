"""The dry run: reports what a run would find in a document, and changes nothing."""

import asyncio
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from mercato.features.catalogs.builder import Builder, BuildOverrunError
from mercato.features.catalogs.queries import CompiledCatalogs
from mercato.features.catalogs.runs import faults_of, warnings_of
from mercato.features.catalogs.uploads import Receive
from mercato.platform.slots import Slots
from mercato_catalog.building.packed import unpack
from mercato_catalog.diff import diff
from mercato_catalog.model import (
    NO_ONBOARDING,
    BuildFailed,
    BuildRequest,
    Built,
    CompiledCatalog,
    Unchanged,
)
from mercato_catalog.validation.findings import Rule
from mercato_contract.catalogs import CatalogDiff, CatalogFault, CatalogValidation
from mercato_contract.decoding import Decoder
from mercato_contract.decoding.checks import refuse, uri_fault
from mercato_contract.json_texts import is_too_deep, without_mark
from mercato_contract.problems import Reason
from mercato_contract.refusals import InvalidRequest
from mercato_contract.wire import Wire
from mercato_outbound.client import Outbound
from mercato_outbound.document import Document, NewDocument
from mercato_outbound.results import NotModified, PullLimits, RequestFailed

CONCURRENCY: Final = 2
"""Dry runs of one partner at a time: all partners share one building process."""

MAX_REQUEST: Final = 1024 * 1024
"""Bytes up to which a body is searched for a callbackUrl. A longer one is always a document."""

RETRY_AFTER: Final = 2
"""Seconds for Retry-After when a partner has too many."""


class CatalogSource(Wire):
    """The URL from which the document to check is pulled."""

    callback_url: str


class _Members(Struct, rename="camel"):
    items: msgspec.Raw | UnsetType = UNSET
    callback_url: msgspec.Raw | UnsetType = UNSET


_read_members: Final = msgspec.json.Decoder(_Members).decode
"""Skips all other members: a body of 32 MiB may have millions."""

_NEITHER: Final = (
    ("/items", "items is required in a CatalogSet: an object of items by id. It may be empty."),
    ("/callbackUrl", "callbackUrl is required in a body that isn't a CatalogSet: the URL of one."),
)

_request: Final = Decoder(CatalogSource)


class Subject(Struct, frozen=True):
    """The store that a document is checked for."""

    onboarding_id: UUID
    store_id: UUID
    catalog_set_id: UUID


class DryRuns(Struct, frozen=True):
    """Builds documents, given or pulled, and keeps nothing."""

    outbound: Outbound
    builder: Builder
    compiled: CompiledCatalogs
    limits: PullLimits
    default_currency: str
    new_document: NewDocument
    slots: Slots = field(
        default_factory=lambda: Slots(
            CONCURRENCY,
            full=f"{CONCURRENCY} dry runs of this account are in progress. Wait until one has ended.",
            retry_after=RETRY_AFTER,
        )
    )

    async def check(
        self, receive: Receive, *, partner_id: UUID, subject: Subject | None
    ) -> CatalogValidation:
        """Return what a run would report of the document in the body that `receive` reads, or at the URL in it.

        The limit is checked before the body is read, so that refused requests take no memory.
        Raises what `receive` raises, ValidationFailed for a callbackUrl that isn't a URL, and RateLimited.
        """
        with self.slots.slot(partner_id), self.new_document() as document:
            await receive(document.write)
            return await self._pull_and_check(document, subject)

    async def _pull_and_check(self, document: Document, subject: Subject | None) -> CatalogValidation:
        url = callback_url(await document.read()) if document.size <= MAX_REQUEST else None
        if url is None:
            return await self._check(document, subject)
        refuse([("/callbackUrl", uri_fault(url, "callbackUrl"))])
        try:
            pulled = await self.outbound.pull(url, limits=self.limits, etag=None)
        except RequestFailed as failure:
            return _invalid(Rule.NOT_FETCHED, failure.message)
        assert not isinstance(pulled, NotModified)
        with pulled.document:
            return await self._check(pulled.document, subject)

    async def _check(self, document: Document, subject: Subject | None) -> CatalogValidation:
        owner = (
            (NO_ONBOARDING, NO_ONBOARDING) if subject is None else (subject.onboarding_id, subject.store_id)
        )
        request = BuildRequest(owner[0], NO_ONBOARDING, owner[1], self.default_currency)
        try:
            result = await self.builder.build(document, request, serves=False)
        except BuildOverrunError as overrun:
            return _invalid(Rule.TOO_LARGE, overrun.message)
        assert not isinstance(result, Unchanged)
        faults = result.faults if isinstance(result, BuildFailed) else ()
        changes = None
        if isinstance(result, Built) and subject is not None:
            before = await self.compiled.get(subject.catalog_set_id)
            # In a thread: of a large document it takes a large part of a second.
            changes = await asyncio.to_thread(_changes, before, result.compiled)
        return CatalogValidation(
            valid=not faults,
            errors=faults_of(faults),
            warnings=warnings_of(result.warnings),
            summary=result.summary if isinstance(result, Built) else None,
            diff=changes,
        )


def callback_url(document: bytes) -> str | None:
    """Return the URL that a request has in place of a document; None if the body itself is the document.

    A body of broken JSON is treated as a document: the check reports where it breaks.
    Raises InvalidRequest for any other that has neither `items` nor a callbackUrl that is a string: what was meant is
    unknown, so both are named.
    """
    if b'"items"' in document and b'"callbackUrl"' not in document:
        return None
    text = without_mark(document)
    if is_too_deep(text):
        return None
    try:
        members = _read_members(text)
    except msgspec.ValidationError:
        pass  # not an object
    except (msgspec.MsgspecError, UnicodeDecodeError):
        if document.strip():
            return None
    else:
        if members.items is not UNSET:
            return None
        if members.callback_url is UNSET:
            reasons = [Reason(code=InvalidRequest.code, message=text, pointer=at) for at, text in _NEITHER]
            raise InvalidRequest(
                "The body is neither a CatalogSet, which has items, nor a request with a callbackUrl to pull one from.",
                errors=reasons,
            )
    return _request(document).callback_url


def _changes(before: CompiledCatalog, after: bytes) -> CatalogDiff:
    return diff(before, unpack(after))


def _invalid(rule: Rule, message: str) -> CatalogValidation:
    fault = CatalogFault(code=rule.id, message=message)
    return CatalogValidation(valid=False, errors=(fault,), warnings=(), summary=None, diff=None)
