"""Decoding that names every fault, and the refusals of what is sent."""

from mercato.platform.wire.decode import Decoder as Decoder
from mercato.platform.wire.decode import QueryDecoder as QueryDecoder
