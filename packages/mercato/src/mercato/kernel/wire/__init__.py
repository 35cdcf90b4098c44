"""Decoding that names every fault, and the refusals of what is sent."""

from mercato.kernel.wire.decode import Decoder as Decoder
from mercato.kernel.wire.decode import QueryDecoder as QueryDecoder
