// Both sides of an order against a running service, whose address and keys are in MERCATO_TEST_SERVICE.

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import {
  AuthenticationError,
  AuthorizationError,
  ConflictError,
  Mercato,
  NotFoundError,
  ProblemError,
  toPlace,
  type types,
  ValidationError,
  verifyWebhook,
  WebhookError,
  type WebhookEvent,
} from "@mercato/client";

interface Facts {
  readonly url: string;
  readonly commerceKey: string;
  readonly commerceSecret: string;
  readonly marketfrontKey: string;
  readonly marketfrontSecret: string;
  readonly catalogUrl: string;
  readonly receiver: number;
}

const given = process.env["MERCATO_TEST_SERVICE"];
const facts = JSON.parse(given ?? "{}") as Facts;
const options = { skip: given ? false : "there is no service" };
const hooks = `http://127.0.0.1:${facts.receiver}`;

/** What the partners' server has received; each event is also emitted by its type. */
const events: WebhookEvent[] = [];
const arrivals = new EventEmitter();
const partners = createServer(async (request, response) => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const secret = request.url === "/events" ? facts.marketfrontSecret : facts.commerceSecret;
  let event: WebhookEvent;
  try {
    event = verifyWebhook(secret, request.headers, Buffer.concat(parts));
  } catch (fault) {
    response.writeHead(fault instanceof WebhookError ? 401 : 400).end();
    return;
  }
  events.push(event);
  arrivals.emit(event.type);
  const answer =
    event.type === "order.validate"
      ? ({ isValid: true } satisfies types.ValidateReply)
      : event.type === "order.place"
        ? ({ accepted: true, partnerOrderId: "A-1" } satisfies types.PlaceReply)
        : undefined;
  if (answer) response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(answer));
  else response.writeHead(204).end();
});

let merchant: Mercato;
let storefront: Mercato;
let store: types.Store;

before(async () => {
  if (options.skip) return;
  await new Promise<void>((resolve) => partners.listen(facts.receiver, "127.0.0.1", resolve));
  merchant = new Mercato({ url: facts.url, key: facts.commerceKey });
  storefront = new Mercato({ url: facts.url, key: facts.marketfrontKey });
  const request = {
    partnerStoreId: "typescript-1",
    name: "Tea & Cake",
    address: { street: "1 Main St", coordinates: { lat: 39.8, lng: -89.6 } },
    catalogCallbackUrl: facts.catalogUrl,
    webhookUrl: `${hooks}/hooks`,
  };
  const { onboardingId } = await merchant.commerce.registerStore(request);
  store = await merchant.commerce.waitUntilLive(onboardingId, { timeout: 30_000 });
  await assert.rejects(merchant.commerce.registerStore(request), (fault) => {
    assert.ok(fault instanceof ConflictError);
    assert.equal(fault.code, "STORE_ALREADY_REGISTERED");
    assert.equal(fault.problem.onboardingId, onboardingId);
    return true;
  });
});

after(() => {
  partners.closeAllConnections();
  partners.close();
});

test("an order is found, priced, placed once, told to both sides, and completed", options, async () => {
  const { marketfront } = storefront;
  const { catalogSetId } = await marketfront.getMarketfrontStore(store.storeId);
  const { items } = await marketfront.getCatalogSet(catalogSetId);
  const itemId = Object.keys(items).find((id) => items[id]?.name === "Tea");
  assert.ok(itemId);
  const cart = await marketfront.addCartItem({
    item: { itemId, quantity: 2, modifierGroups: [] },
    storeId: store.storeId,
    catalogSetId,
  });
  const order: types.OrderCore = {
    cart,
    clientContext: { ip: "203.0.113.7", userAgent: "test/1.0" },
    fulfillment: { mode: "PICKUP", scheduleType: "ASAP" },
    amounts: { tip: "1.00" },
    customer: { email: "ada@example.com", firstName: "Ada", lastName: "L", phone: "+15550100" },
  };
  const validated = await marketfront.validateOrder(order);
  const request = toPlace(order, validated, { type: "external" });
  const created = once(arrivals, "order.created");
  const idempotencyKey = crypto.randomUUID();
  const placed = await marketfront.placeOrder(request, { idempotencyKey });
  assert.equal(placed.amounts.total, "6.00");
  assert.deepEqual(await marketfront.placeOrder(request, { idempotencyKey }), placed);
  await created;
  assert.deepEqual(
    events.filter(({ type }) => type === "order.place").map(({ id }) => id),
    [placed.orderId],
  );
  const [data] = events.flatMap((event) => (event.type === "order.created" ? [event.data] : []));
  assert.equal(data?.order.orderId, placed.orderId);

  const { commerce } = merchant;
  await commerce.updateOrderStatus(placed.orderId, { status: "confirmed" });
  const closed = marketfront.waitUntilClosed(placed.orderId, { timeout: 30_000 });
  await commerce.updateOrderStatus(placed.orderId, { status: "ready", state: "completed" });
  assert.equal((await closed).state, "completed");
  const timeline = await commerce.getOrderTimeline(placed.orderId);
  assert.equal(timeline.entries[0]?.type, "placed");
});

test("a lost answer is asked for again with the same key, and the order is placed once", options, async () => {
  const order = await anOrder();
  let lost = 0;
  const losing: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (lost++) return response;
    await response.arrayBuffer();
    throw new TypeError("terminated");
  };
  const { marketfront } = new Mercato({ url: facts.url, key: facts.marketfrontKey, fetch: losing });
  const before = await count(merchant.commerce.listOrders());
  const placed = await marketfront.placeOrder(order);
  assert.equal(lost, 2);
  assert.equal(placed.partnerOrderId, "A-1");
  assert.equal(await count(merchant.commerce.listOrders()), before + 1);
});

test("every entry of every page is listed once", options, async () => {
  for (let missing = 3 - (await count(merchant.commerce.listOrders())); missing > 0; missing--) {
    await storefront.marketfront.placeOrder(await anOrder());
  }
  const all: string[] = [];
  for await (const order of merchant.commerce.listOrders({ limit: 1 })) all.push(order.orderId);
  const page = await merchant.commerce.listOrders();
  assert.deepEqual(
    all,
    page.orders.map(({ orderId }) => orderId),
  );
  assert.ok(all.length >= 3);
  const found = storefront.marketfront.discoverStores({ limit: 1 });
  assert.equal(await count(found), (await found).totalCount);
});

test("a catalog is replaced, and its event arrives", options, async () => {
  const arrived = once(arrivals, "catalog.sync.succeeded");
  const run = await merchant.commerce.replaceCatalog(store.storeId, facts.catalogUrl, { timeout: 30_000 });
  assert.equal(run.status, "succeeded");
  await arrived;
});

test("refusals are errors of their category", options, async () => {
  const { commerce } = merchant;
  await assert.rejects(commerce.updateStore(store.storeId, { timezone: "Mars" }), (fault) => {
    assert.ok(fault instanceof ValidationError);
    assert.deepEqual([fault.code, fault.status, fault.errors[0]?.pointer], ["VALIDATION_FAILED", 422, "/timezone"]);
    assert.match(String(fault.requestId), /\S/);
    return true;
  });
  await assert.rejects(commerce.getStore(crypto.randomUUID()), NotFoundError);
  await assert.rejects(commerce.listOrders({ cursor: "?" }), ProblemError);
  await assert.rejects(storefront.commerce.listStores(), AuthorizationError);
  await assert.rejects(new Mercato({ url: facts.url, key: "wrong" }).commerce.listStores(), AuthenticationError);
});

test("a forged webhook is refused, and the service says what is wrong with it", options, async () => {
  const body = '{"type": "forged"}';
  const headers = {
    "webhook-id": "1",
    "webhook-timestamp": String(Math.floor(Date.now() / 1000)),
    "webhook-signature": "v1,AAAA",
  };
  const { status } = await fetch(`${hooks}/hooks`, { method: "POST", headers, body });
  assert.equal(status, 401);
  const explained = await merchant.explainWebhookSignature({ headers, body });
  assert.match(explained.code, /^[A-Z_]+$/);
});

test("a console link is of this service", options, async () => {
  const link = await merchant.createConsoleLink({ readOnly: true });
  assert.ok(link.url.startsWith(facts.url));
});

async function anOrder(): Promise<types.PlaceOrderRequest> {
  const { marketfront } = storefront;
  const { catalogSetId } = await marketfront.getMarketfrontStore(store.storeId);
  const { items } = await marketfront.getCatalogSet(catalogSetId);
  const itemId = Object.keys(items).find((id) => items[id]?.name === "Tea");
  assert.ok(itemId);
  return {
    cart: { storeId: store.storeId, catalogSetId, lineItems: [{ itemId, quantity: 1, modifierGroups: [] }] },
    clientContext: { ip: "203.0.113.7", userAgent: "test/1.0" },
    fulfillment: { mode: "PICKUP", scheduleType: "ASAP" },
  };
}

async function count(list: AsyncIterable<unknown>): Promise<number> {
  let entries = 0;
  for await (const _ of list) entries++;
  return entries;
}
