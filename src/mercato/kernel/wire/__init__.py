"""Wire types: their base class, decoding that names every fault, and JSON encoding."""

from mercato.kernel.wire.base import MAX_ENTRIES as MAX_ENTRIES
from mercato.kernel.wire.base import Instant as Instant
from mercato.kernel.wire.base import Wire as Wire
from mercato.kernel.wire.base import as_json as as_json
from mercato.kernel.wire.base import instant as instant
from mercato.kernel.wire.base import parse_instant as parse_instant
from mercato.kernel.wire.base import parse_uuid as parse_uuid
from mercato.kernel.wire.base import redacted as redacted
from mercato.kernel.wire.decode import Decoder as Decoder
from mercato.kernel.wire.decode import QueryDecoder as QueryDecoder
