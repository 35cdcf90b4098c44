"""One-time links to the console."""

from typing import Annotated
from uuid import UUID

from msgspec import Meta

from mercato_contract.wire import Instant, Wire, redacted


class ConsoleLinkRequest(Wire):
    """What the link's session may do and see; without any member, all of the account."""

    read_only: Annotated[bool, Meta(description="The session changes nothing.")] | None = None
    store_id: Annotated[UUID, Meta(description="The session sees this store alone.")] | None = None


@redacted("url")
class ConsoleLink(Wire):
    """A link that signs a browser in, once."""

    url: Annotated[str, Meta(description="Send it to one person. Opening it asks before it is used.")]
    expires_at: Annotated[Instant, Meta(description="When it can no longer be opened: after 15 minutes.")]
