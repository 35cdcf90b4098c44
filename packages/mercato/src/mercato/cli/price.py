"""`mercato price`: recomputes what an order cost, offline."""

from typing import Final
from uuid import UUID

from msgspec import structs

from mercato.cli import FAILED, UnusableError
from mercato.cli.catalog import build_valid
from mercato.cli.inputs import read_file, settings
from mercato.cli.options import Json, Source, group
from mercato.cli.output import print_json, say, wrap
from mercato.features.catalogs.building.packed import unpack
from mercato.features.orders.amounts import PriceProof, ProofOrder, verify_prices
from mercato.platform.errors import Problem
from mercato.platform.wire import Decoder
from mercato.settings import MiB
from mercato_contract.money import MoneyError
from mercato_contract.wire import Wire

price = group("price", "Prices: verify an order's.")


class _CatalogSet(Wire):
    """The id of a served CatalogSet; a merchant's own document has none."""

    catalog_set_id: UUID | None = None


_decode_order: Final = Decoder(ProofOrder)
_decode_set: Final = Decoder(_CatalogSet)


@price.command
def verify(order: Source, catalog_set: Source, /, *, json: Json = False) -> int:
    """Recompute an order from the CatalogSet that it was placed from, without a server, and show what differs.

    ORDER is the JSON of an order as either API returns it, or as a webhook carries it. CATALOGSET is the JSON of
    the set that `cart.catalogSetId` names: sets never change, so anybody who kept both can repeat the computation.

    Exit code 0: equal; 1: different; 2: a document can't be read, or the order is of another set.
    """
    if order == catalog_set == "-":
        raise UnusableError("Standard input holds one document. Name a file for the other one.")
    proof = _verify(order, catalog_set)
    if json:
        print_json(proof)
    else:
        _print(proof)
    return 0 if proof.equal else FAILED


def _verify(order: str, catalog_set: str) -> PriceProof:
    bounds = settings()
    try:
        placed = _decode_order(read_file(order, max_bytes=MiB))
    except Problem as problem:
        raise UnusableError(f"{order} isn't an order: {problem.detail}") from None
    # A set that names no currency is in the network's, which is also the order's.
    document, built = build_valid(
        catalog_set, structs.replace(bounds, default_currency=placed.amounts.currency)
    )
    set_id = _decode_set(document.body).catalog_set_id
    if set_id != placed.cart.catalog_set_id:
        raise UnusableError(
            f"The order is of the CatalogSet {placed.cart.catalog_set_id}, and {document.name} is "
            f"{set_id or 'a document without catalogSetId'}. Get the set that the order names."
        )
    try:
        return verify_prices(placed, unpack(built.compiled))
    except (Problem, MoneyError) as error:
        raise UnusableError(f"{order} can't be recomputed: {error}") from None


def _print(proof: PriceProof) -> None:
    for difference in proof.differences:
        say(*wrap(difference.message, first=f"{difference.path}: ", indent="  "))
    if proof.equal:
        say(f"Equal: {proof.total} {proof.currency}, by CatalogSet {proof.catalog_set_id}.")
    else:
        count = len(proof.differences)
        say(f"Different: {count} amount{'s' if count > 1 else ''} of the order.")
