"""What crosses the wire: the base of every struct, decoding with every fault named, and JSON out."""

from mercato.wire.base import MAX_ENTRIES as MAX_ENTRIES
from mercato.wire.base import Instant as Instant
from mercato.wire.base import Wire as Wire
from mercato.wire.base import as_json as as_json
from mercato.wire.base import instant as instant
from mercato.wire.base import parse_instant as parse_instant
from mercato.wire.base import parse_uuid as parse_uuid
from mercato.wire.base import redacted as redacted
from mercato.wire.decode import Decoder as Decoder
from mercato.wire.decode import QueryDecoder as QueryDecoder
