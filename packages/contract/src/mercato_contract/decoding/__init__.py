"""From bytes to the types of the contract: decoding that reports every fault. Nothing here knows HTTP or a file."""

from mercato_contract.decoding.decode import Decoder as Decoder
from mercato_contract.decoding.decode import QueryDecoder as QueryDecoder
