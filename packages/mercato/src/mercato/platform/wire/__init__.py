"""Decoding that reports every fault, and the representation of refusals."""

from mercato.platform.wire.decode import Decoder as Decoder
from mercato.platform.wire.decode import QueryDecoder as QueryDecoder
