"""A plain application as one would write it first: FastAPI, pydantic, SQLAlchemy, httpx. It prices and places.

Its catalog is in its tables, and read with each request unless IN_MEMORY is set. It has no keys, no limits, no
idempotency, no tokens, no events, no free units or other prices in groups. Between two commits a crash loses an order.
"""

import json
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from sqlalchemy import JSON, Column, DateTime, ForeignKey, Numeric, String, Table, event, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, selectinload

CENT = Decimal("0.01")


class Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class LineAmounts(Model):
    unit_price: Decimal
    total: Decimal


class Line(Model):
    item_id: uuid.UUID
    quantity: int
    modifier_groups: list["Group"] = []
    line_item_id: uuid.UUID | None = None
    amounts: LineAmounts | None = None


class Group(Model):
    modifier_group_id: uuid.UUID
    line_items: list[Line]


class CartAmounts(Model):
    currency: str
    sub_total: Decimal
    total: Decimal


class Cart(Model):
    store_id: uuid.UUID
    catalog_set_id: uuid.UUID
    line_items: list[Line] = []
    amounts: CartAmounts | None = None


class AddItem(Model):
    item: Line
    cart: Cart | None = None
    store_id: uuid.UUID | None = None
    catalog_set_id: uuid.UUID | None = None


class Customer(Model):
    email: str
    first_name: str
    last_name: str
    phone: str


class OrderRequest(Model):
    cart: Cart
    client_context: dict[str, str]
    fulfillment: dict[str, str]
    customer: Customer


class Amounts(Model):
    currency: str
    sub_total: Decimal
    taxes: Decimal
    total: Decimal


class PlacedOrder(Model):
    order_id: uuid.UUID
    state: str
    status: str
    partner_order_id: str | None
    cart: Cart
    customer: Customer
    fulfillment: dict[str, str]
    amounts: Amounts
    created_at: datetime


class Base(DeclarativeBase):
    pass


item_groups = Table(
    "item_groups",
    Base.metadata,
    Column("item_id", ForeignKey("items.id"), primary_key=True),
    Column("group_id", ForeignKey("modifier_groups.id"), primary_key=True),
)
group_items = Table(
    "group_items",
    Base.metadata,
    Column("group_id", ForeignKey("modifier_groups.id"), primary_key=True),
    Column("item_id", ForeignKey("items.id"), primary_key=True),
)


class ModifierGroup(Base):
    __tablename__ = "modifier_groups"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    minimum: Mapped[int]
    maximum: Mapped[int | None]
    items: Mapped[list["Item"]] = relationship(secondary=group_items)


class Item(Base):
    __tablename__ = "items"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    name: Mapped[str]
    price: Mapped[Decimal] = mapped_column(Numeric(12, 2))
    groups: Mapped[list[ModifierGroup]] = relationship(secondary=item_groups)


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    state: Mapped[str]
    status: Mapped[str]
    partner_order_id: Mapped[str | None]
    total: Mapped[Decimal] = mapped_column(Numeric(12, 2))
    document: Mapped[Any] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


CATALOG = json.loads(Path(os.environ["CATALOG"]).read_text())
CURRENCY = CATALOG["currency"]
HOOKS = os.environ["HOOKS"]
IN_MEMORY = os.environ.get("IN_MEMORY") == "true"
"""Whether the catalog is kept in memory, as if it never changed."""

engine = create_async_engine(os.environ["DATABASE_URL"])
sessions = async_sessionmaker(engine, expire_on_commit=False)

if engine.dialect.name == "sqlite":

    @event.listens_for(engine.sync_engine, "connect")
    def _durable(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()


async def session() -> AsyncIterator[AsyncSession]:
    async with sessions() as opened:
        yield opened


Session = Annotated[AsyncSession, Depends(session)]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with sessions() as db:
        app.state.items = fill(db)
        await db.commit()
    async with httpx.AsyncClient(base_url=HOOKS, timeout=5) as client:
        app.state.store = client
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


def fill(db: AsyncSession) -> dict[str, Item]:
    """Add the catalog's items and modifier groups, and return the items by their ids."""
    items = {
        id_: Item(id=id_, name=item["name"], price=Decimal(item["basePrice"]))
        for id_, item in CATALOG["items"].items()
    }
    groups = {
        id_: ModifierGroup(
            id=id_,
            minimum=group.get("minimumAllowed") or 0,
            maximum=group.get("maximumAllowed"),
            items=[items[item] for item in group["itemIds"]],
        )
        for id_, group in CATALOG["modifierGroups"].items()
    }
    for id_, item in items.items():
        item.groups = [groups[group] for group in CATALOG["items"][id_].get("modifierGroupIds", ())]
    db.add_all(items.values())
    return items


async def items_of(db: AsyncSession, lines: list[Line]) -> dict[str, Item]:
    """Return the items of the lines with what may be chosen with each."""
    if IN_MEMORY:
        cached: dict[str, Item] = app.state.items
        return cached
    query = select(Item).where(Item.id.in_({str(line.item_id) for line in lines}))
    found = await db.scalars(query.options(selectinload(Item.groups).selectinload(ModifierGroup.items)))
    return {item.id: item for item in found}


def price_of(line: Line, item: Item | None) -> Decimal:
    """Return what one unit of a line costs, with its modifiers, or refuse it."""
    if item is None:
        raise HTTPException(422, f"There is no item {line.item_id}.")
    total = item.price
    groups = {group.id: group for group in item.groups}
    chosen = dict.fromkeys(groups, 0)
    for sent in line.modifier_groups:
        group = groups.get(str(sent.modifier_group_id))
        if group is None:
            raise HTTPException(422, f"{item.name} has no modifier group {sent.modifier_group_id}.")
        options = {option.id: option for option in group.items}
        for below in sent.line_items:
            option = options.get(str(below.item_id))
            if option is None:
                raise HTTPException(422, f"The group has no item {below.item_id}.")
            chosen[group.id] += below.quantity
            total += below.quantity * option.price
    for id_, group in groups.items():
        if chosen[id_] < group.minimum or (group.maximum is not None and chosen[id_] > group.maximum):
            raise HTTPException(422, f"{item.name} needs another number of choices.")
    return total


async def price(db: AsyncSession, cart: Cart) -> Cart:
    """Set the amounts of the cart's lines and of the cart."""
    sub_total = Decimal(0)
    items = await items_of(db, cart.line_items)
    for line in cart.line_items:
        unit = price_of(line, items.get(str(line.item_id)))
        line.amounts = LineAmounts(unit_price=unit, total=unit * line.quantity)
        line.line_item_id = line.line_item_id or uuid.uuid4()
        sub_total += line.amounts.total
    cart.amounts = CartAmounts(currency=CURRENCY, sub_total=sub_total, total=sub_total)
    return cart


@app.post("/v1/marketfront/carts/add")
async def add(request: AddItem, db: Session) -> Cart:
    cart = request.cart
    if cart is None:
        if request.store_id is None or request.catalog_set_id is None:
            raise HTTPException(422, "A new cart needs storeId and catalogSetId.")
        cart = Cart(store_id=request.store_id, catalog_set_id=request.catalog_set_id)
    cart.line_items.append(request.item)
    return await price(db, cart)


@app.post("/v1/marketfront/orders/place", status_code=201)
async def place(request: OrderRequest, db: Session) -> PlacedOrder:
    """Price the order, let the store validate it, store it, submit it to the store, store the answer."""
    cart = await price(db, request.cart)
    assert cart.amounts is not None
    store: httpx.AsyncClient = app.state.store
    document = {"order": request.model_dump(mode="json", by_alias=True)}
    said = (await store.post("/validate", json=document)).raise_for_status().json()
    if not said.get("isValid", True):
        raise HTTPException(409, "The store refuses the order.")
    order = Order(
        id=str(uuid.uuid4()),
        state="open",
        status="pending",
        total=cart.amounts.total,
        document=document["order"],
        created_at=datetime.now(UTC),
    )
    db.add(order)
    await db.commit()
    answer = await store.post("/place", json=document | {"orderId": order.id})
    said = answer.raise_for_status().json()
    if not said.get("accepted", True):
        order.state = "cancelled"
        await db.commit()
        raise HTTPException(409, "The store refuses the order.")
    order.partner_order_id = said.get("partnerOrderId")
    await db.commit()
    return PlacedOrder(
        order_id=uuid.UUID(order.id),
        state=order.state,
        status=order.status,
        partner_order_id=order.partner_order_id,
        cart=cart,
        customer=request.customer,
        fulfillment=request.fulfillment,
        amounts=Amounts(
            currency=cart.amounts.currency,
            sub_total=cart.amounts.sub_total,
            taxes=Decimal(0).quantize(CENT),
            total=cart.amounts.total,
        ),
        created_at=order.created_at,
    )


if __name__ == "__main__":
    import socket

    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run(sockets=[listener])
