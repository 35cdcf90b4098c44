import assert from "node:assert/strict";
import { createServer } from "node:net";
import { test } from "node:test";
import { inspect } from "node:util";

import {
  AuthenticationError,
  CatalogFailedError,
  ConfigurationError,
  ConflictError,
  Mercato,
  MercatoError,
  NoAnswerError,
  NotFoundError,
  ProblemError,
  RateLimitError,
  ServerError,
  type types,
  UnreadableError,
  ValidationError,
  VERSION,
} from "@mercato/client";

import { type Answer, chunked, double, hangUp, json, problem, raw, silence } from "./double.js";

const ORDER = { orderId: "o-1", state: "open" };
const PLACE = { cart: { storeId: "s" } } as unknown as types.PlaceOrderRequest;
const UPDATE = { status: "paused" } as const;

test("a request has the path, query, body and headers of its operation", async (t) => {
  const { received, mercato } = await double(t, json(200, { status: "paused" }), json(202, { catalogIngestId: "c" }));
  await mercato.commerce.setStoreStatus("a/b?c", UPDATE);
  await mercato.commerce.notifyCatalogUpdate("s 1", "https://example.com/c.json");
  const [first, second] = received;
  assert.equal(`${first?.method} ${first?.target}`, "POST /v1/commerce/stores/a%2Fb%3Fc/status");
  assert.deepEqual(JSON.parse(first?.body ?? ""), UPDATE);
  assert.equal(first?.headers["content-type"], "application/json");
  assert.equal(first?.headers.authorization, "Bearer mk_test");
  assert.equal(first?.headers["user-agent"], `mercato-client-typescript/${VERSION}`);
  assert.equal(second?.target, "/v1/commerce/catalogset-notification?storeId=s+1");
});

test("an id that would make another path is refused before anything is sent", async (t) => {
  const { received, mercato } = await double(t);
  for (const id of ["", ".", "..", undefined as unknown as string]) {
    await assert.rejects(mercato.commerce.getStore(id), ConfigurationError);
  }
  assert.equal(received.length, 0);
});

test("a text or bytes of a catalog are sent as they are", async (t) => {
  const { received, mercato } = await double(t, json(200, {}), json(200, {}), json(200, {}));
  await mercato.commerce.validateCatalogSet('{"a": 1.0}');
  await mercato.commerce.validateCatalogSet(new TextEncoder().encode('{"b": 1.0}'));
  await mercato.commerce.validateCatalogSet({ c: 1 }, { storeId: "s" });
  assert.deepEqual(
    received.map(({ body }) => body),
    ['{"a": 1.0}', '{"b": 1.0}', '{"c":1}'],
  );
});

test("members and values that are newer than the client stay in an answer", async (t) => {
  const newer = { orderId: "o", state: "frozen", amounts: { total: "6.00", tokens: "7" } };
  const { mercato } = await double(t, json(200, newer));
  assert.deepEqual(await mercato.marketfront.getMarketfrontOrder("o"), newer);
});

test("an answer without a body is undefined", async (t) => {
  const { mercato } = await double(t, (response) => response.writeHead(204).end());
  assert.equal(await mercato.commerce.cancelOnboarding("o"), undefined);
});

/** Answers that no Mercato service gives, and what the client makes of each. */
const ODD: Readonly<Record<string, readonly [Answer, new (...args: never[]) => MercatoError]>> = {
  "a 204 where a body is due": [(response) => response.writeHead(204).end(), UnreadableError],
  "an empty 200": [(response) => response.writeHead(200).end(), UnreadableError],
  "null": [raw(200, "null"), UnreadableError],
  "a list": [raw(200, "[]"), UnreadableError],
  "a text": [raw(200, '"yes"'), UnreadableError],
  "a page of a portal": [raw(200, "<html>Sign in</html>", "text/html"), UnreadableError],
  "half of a document": [raw(200, '{"stores": ['), UnreadableError],
  "bytes that aren't UTF-8": [raw(200, Buffer.from([0x7b, 0xff, 0x7d])), UnreadableError],
  "another object": [raw(200, "{}"), UnreadableError],
  "entries that aren't a list": [raw(200, '{"stores": {"length": 1}, "nextCursor": null}'), UnreadableError],
  "a redirect": [(response) => response.writeHead(302, { Location: "https://example.com/" }).end(), ProblemError],
  "not modified": [(response) => response.writeHead(304).end(), ProblemError],
  "a problem in chunks": [chunked(422, '{"title": "A', ' title", "errorCode": "VALIDATION_FAILED"}'), ValidationError],
  "a problem of a byte a chunk": [chunked(404, ...'{"title": "\u00e9", "errorCode": "STORE_NOT_FOUND"}'), NotFoundError],
  "a problem with a mark before it": [raw(404, '\ufeff{"errorCode": "STORE_NOT_FOUND"}'), NotFoundError],
  "a problem with errors of all kinds": [
    raw(422, '{"errors": [null, 7, "x", [], {"pointer": "/a"}, {"message": null}], "title": 5, "detail": []}'),
    ValidationError,
  ],
  "a problem whose errors aren't a list": [raw(422, '{"errors": {"a": 1}, "retryAfter": "soon"}'), ValidationError],
  "an empty problem": [(response) => response.writeHead(404).end(), NotFoundError],
  "a proxy's 502": [raw(502, "<h1>Bad Gateway</h1>", "text/html"), ServerError],
  "chunks that break off": [
    (response) => {
      response.writeHead(422, { "Content-Type": "application/problem+json" }).write('{"title": ');
      setImmediate(() => response.destroy());
    },
    NoAnswerError,
  ],
  "fewer bytes than announced": [
    (response) => {
      response.writeHead(200, { "Content-Length": "100" }).write("{}");
      setImmediate(() => response.destroy());
    },
    NoAnswerError,
  ],
  "gzip that isn't": [raw(200, "{}", "application/json", { "Content-Encoding": "gzip" }), NoAnswerError],
};

for (const [name, [answer, kind]] of Object.entries(ODD)) {
  test(`the answer to a list may be ${name}: the error says so`, async (t) => {
    const { mercato } = await double(t, ...Array.from({ length: 4 }, () => answer));
    await assert.rejects(async () => {
      for await (const _ of mercato.commerce.listStores()) assert.fail("there is no entry");
    }, kind);
  });
}

test("a 204 where an order is due isn't an order", async (t) => {
  const { received, mercato } = await double(t, (response) => response.writeHead(204).end());
  const key = { idempotencyKey: "k-1" };
  await assert.rejects(mercato.marketfront.placeOrder(PLACE, key), (fault: unknown) => {
    assert(fault instanceof UnreadableError);
    assert.equal(fault.idempotencyKey, "k-1");
    return true;
  });
  assert.equal(received.length, 1);
});

test("a list that names its own cursor as the next one ends", async (t) => {
  const page = json(200, { stores: [], nextCursor: "same" });
  const { received, mercato } = await double(t, page, page, page);
  await assert.rejects(async () => {
    for await (const _ of mercato.commerce.listStores()) assert.fail("there is no entry");
  }, UnreadableError);
  assert.equal(received.length, 2);
});

test("a catalog that failed for reasons of no known form is a CatalogFailedError", () => {
  for (const errors of [null, {}, "x", [null, 1]]) {
    const fault = new CatalogFailedError({ errors } as unknown as { errors: readonly [] });
    assert.deepEqual(fault.errors, []);
  }
});

test("a read is repeated after answers that pass and after none, up to four attempts", async (t) => {
  const { received, mercato } = await double(t, problem(503), hangUp, problem(502), json(200, ORDER), problem(504));
  assert.deepEqual(await mercato.commerce.getOrder("o"), ORDER);
  assert.equal(received.length, 4);
});

test("after the last attempt the refusal is thrown", async (t) => {
  const { received, mercato } = await double(t, ...Array.from({ length: 5 }, () => problem(503)));
  await assert.rejects(mercato.commerce.getOrder("o"), ServerError);
  assert.equal(received.length, 4);
});

test("one attempt turns retries off", async (t) => {
  const { received, client } = await double(t, problem(503));
  await assert.rejects(client({ retries: { attempts: 1 } }).commerce.getOrder("o"), ServerError);
  assert.equal(received.length, 1);
});

test("a bound of retries that is undefined is the default", async (t) => {
  const { received, client } = await double(t, ...Array.from({ length: 6 }, () => problem(503)));
  const unset: object = { attempts: undefined, longestWait: undefined };
  await assert.rejects(client({ retries: { firstWait: 1, ...unset } }).commerce.getOrder("o"), ServerError);
  assert.equal(received.length, 4);
});

test("an order is placed with one idempotency key in every attempt", async (t) => {
  const { received, mercato } = await double(t, problem(503), hangUp, json(201, ORDER), json(201, ORDER));
  await mercato.marketfront.placeOrder(PLACE);
  const keys = received.map(({ headers }) => headers["idempotency-key"]);
  assert.equal(keys.length, 3);
  assert.match(String(keys[0]), /^[0-9a-f-]{36}$/);
  assert.equal(new Set(keys).size, 1);
  await mercato.marketfront.placeOrder(PLACE);
  assert.notEqual(received.at(-1)?.headers["idempotency-key"], keys[0]);
});

test("an order is cancelled with one idempotency key in every attempt", async (t) => {
  const { received, mercato } = await double(t, problem(503), hangUp, json(200, ORDER));
  await mercato.marketfront.cancelOrder("o", { reason: "CHANGED_MIND", message: null });
  assert.equal(received.length, 3);
  const sent = received.map(({ headers, body }) => `${headers["idempotency-key"]} ${body}`);
  assert.equal(new Set(sent).size, 1);
});

test("an order is adjusted with one idempotency key in every attempt", async (t) => {
  const { received, mercato } = await double(t, problem(503), hangUp, json(201, ORDER));
  await mercato.commerce.adjustOrder("o", { type: "refund", amount: "1.00", reason: "Cold", lineItemIds: [] });
  assert.equal(received.length, 3);
  assert.equal(new Set(received.map(({ headers, body }) => `${headers["idempotency-key"]} ${body}`)).size, 1);
});

test("a given idempotency key is sent, and is in the error", async (t) => {
  const { received, mercato } = await double(t, problem(409, { errorCode: "ORDER_TOTAL_DIFFERENT" }));
  const fault = await failure(mercato.marketfront.placeOrder(PLACE, { idempotencyKey: "mine" }));
  assert.ok(fault instanceof ConflictError);
  assert.equal(fault.idempotencyKey, "mine");
  assert.equal(received[0]?.headers["idempotency-key"], "mine");
  for (const idempotencyKey of ["", "ünmöglich", null as unknown as string]) {
    await assert.rejects(mercato.marketfront.placeOrder(PLACE, { idempotencyKey }), ConfigurationError);
  }
  assert.equal(received.length, 1);
});

test("a request in progress with the same key is waited for", async (t) => {
  const { received, mercato } = await double(t, problem(409, { errorCode: "REQUEST_IN_PROGRESS" }), json(201, ORDER));
  assert.deepEqual(await mercato.marketfront.placeOrder(PLACE), ORDER);
  assert.equal(received.length, 2);
});

test("what the service says is not retryable is not repeated", async (t) => {
  const { received, mercato } = await double(t, problem(502, { errorCode: "PAYMENT_FAILED", retryable: false }));
  await assert.rejects(mercato.marketfront.placeOrder(PLACE), { code: "PAYMENT_FAILED" });
  assert.equal(received.length, 1);
});

test("another write is repeated only after 429", async (t) => {
  const { received, mercato } = await double(t, problem(429), json(200, {}), problem(503), hangUp);
  await mercato.commerce.setStoreStatus("s", UPDATE);
  assert.equal(received.length, 2);
  await assert.rejects(mercato.commerce.setStoreStatus("s", UPDATE), ServerError);
  const lost = await failure(mercato.commerce.setStoreStatus("s", UPDATE));
  assert.ok(lost instanceof NoAnswerError && lost.sent);
  assert.equal(received.length, 4);
});

test("a write that can't have arrived is repeated", async () => {
  const fetched: unknown[] = [];
  const counted: typeof fetch = (...request) => {
    fetched.push(request[0]);
    return fetch(...request);
  };
  const url = await closedPort();
  const mercato = new Mercato({ url, key: "k", retries: { firstWait: 1 }, fetch: counted });
  const fault = await failure(mercato.commerce.setStoreStatus("s", UPDATE));
  assert.ok(fault instanceof NoAnswerError);
  assert.equal(fault.sent, false);
  assert.match(fault.message, /can't be reached \(.*ECONNREFUSED.*\)\. Is the service running/);
  assert.equal(fetched.length, 4);
});

test("a Retry-After is waited for, in the problem, in the header, as a date", async (t) => {
  const passed = new Date(Date.now() - 60_000).toUTCString();
  const { mercato } = await double(
    t,
    problem(429, { retryAfter: 0.2 }, { "Retry-After": "3600" }),
    problem(429, {}, { "Retry-After": passed }),
    json(200, ORDER),
  );
  const began = performance.now();
  await mercato.commerce.getOrder("o");
  assert.ok(performance.now() - began >= 190);
});

test("a long Retry-After is not waited for, and the error has it", async (t) => {
  const { received, mercato } = await double(t, problem(429, {}, { "Retry-After": "31" }));
  const fault = await failure(mercato.commerce.getOrder("o"));
  assert.ok(fault instanceof RateLimitError);
  assert.equal(fault.retryAfter, 31);
  assert.equal(received.length, 1);
});

test("an attempt without an answer in time ends, and a read is repeated", async (t) => {
  const { received, client } = await double(t, silence, json(200, ORDER), json(200, ORDER), json(200, ORDER));
  assert.deepEqual(await client({ timeout: 500 }).commerce.getOrder("o"), ORDER);
  assert.ok(received.length > 1);
});

test("another write without an answer in time is not repeated", async (t) => {
  const { received, mercato } = await double(t, silence);
  const fault = await failure(mercato.commerce.setStoreStatus("s", UPDATE, { timeout: 500 }));
  assert.ok(fault instanceof NoAnswerError && fault.sent);
  assert.match(fault.message, /did not answer POST \/v1\/commerce\/stores\/s\/status \(timed out\)/);
  assert.equal(received.length, 1);
});

test("the timeout also bounds the body of an answer", async (t) => {
  const { client } = await double(t, (response) => response.writeHead(200).write('{"orderId":'));
  const mercato = client({ timeout: 200, retries: { attempts: 1 } });
  await assert.rejects(mercato.commerce.getOrder("o"), NoAnswerError);
});

test("a signal ends a call with its reason, before, during and between attempts", async (t) => {
  const ended = new Error("The customer has left");
  const { received, mercato } = await double(t, silence, problem(429, { retryAfter: 20 }));
  await assert.rejects(mercato.commerce.getOrder("o", { signal: AbortSignal.abort(ended) }), ended);
  assert.equal(received.length, 0);
  for (const sent of [1, 2]) {
    const stop = new AbortController();
    const call = mercato.commerce.getOrder("o", { signal: stop.signal });
    const failed = assert.rejects(call, ended);
    while (received.length < sent) await new Promise(setImmediate);
    stop.abort(ended);
    await failed;
  }
});

test("a refusal is the error of its category, with what the service said", async (t) => {
  const members = {
    type: "http://127.0.0.1/errors/VALIDATION_FAILED",
    title: "A value is not allowed",
    detail: "2 members are invalid.",
    errorCategory: "validation",
    errorCode: "VALIDATION_FAILED",
    errors: [
      { code: "VALIDATION_FAILED", message: "isn't a time zone", pointer: "/timezone" },
      { code: "VALIDATION_FAILED", message: "isn't an amount", pointer: "/minimumOrderAmount" },
    ],
    requestId: "r-1",
    retryable: false,
    traceId: "t-1",
    orderId: "o-1",
  };
  const { mercato } = await double(t, json(422, members));
  const fault = await failure(mercato.commerce.updateStore("s", {}));
  assert.ok(fault instanceof ValidationError && fault instanceof ProblemError && fault instanceof MercatoError);
  assert.equal(fault.name, "ValidationError");
  assert.deepEqual(
    [fault.code, fault.status, fault.category, fault.requestId, fault.retryable, fault.traceId, fault.type],
    ["VALIDATION_FAILED", 422, "validation", "r-1", false, "t-1", members.type],
  );
  assert.deepEqual(fault.problem, members);
  assert.deepEqual(fault.errors, members.errors);
  assert.equal(
    fault.message,
    "422 VALIDATION_FAILED: 2 members are invalid. (request r-1)\n" +
      "  /timezone: isn't a time zone [VALIDATION_FAILED]\n" +
      "  /minimumOrderAmount: isn't an amount [VALIDATION_FAILED]",
  );
});

test("each category and status has its class", async (t) => {
  const kinds: [number, string | undefined, string][] = [
    [422, "validation", "ValidationError"],
    [422, "availability", "AvailabilityError"],
    [402, "payment", "PaymentError"],
    [401, "authentication", "AuthenticationError"],
    [403, "authorization", "AuthorizationError"],
    [404, "not_found", "NotFoundError"],
    [409, "conflict", "ConflictError"],
    [429, "rate_limit", "RateLimitError"],
    [503, "server_error", "ServerError"],
    [502, "payment", "ServerError"],
    [404, undefined, "NotFoundError"],
    [422, "a newer one", "ValidationError"],
    [418, undefined, "ProblemError"],
  ];
  const { client } = await double(t, ...kinds.map(([status, errorCategory]) => problem(status, { errorCategory })));
  const mercato = client({ retries: { attempts: 1 } });
  for (const [, , name] of kinds) assert.equal((await failure(mercato.commerce.getOrder("o"))).name, name);
});

test("an answer of something else is shown, not trusted", async (t) => {
  const { url, mercato } = await double(
    t,
    (response) => response.writeHead(200).end("<html>Welcome</html>"),
    (response) => response.writeHead(401).end("<html>\n Who   are you?</html>"),
    (response) => response.writeHead(302, { Location: "/elsewhere" }).end(),
  );
  await assert.rejects(mercato.commerce.getOrder("o"), UnreadableError);
  const fault = await failure(mercato.commerce.getOrder("o"));
  assert.ok(fault instanceof AuthenticationError);
  assert.deepEqual([fault.code, fault.detail], ["HTTP_401", "<html> Who are you?</html>"]);
  assert.equal((await failure(mercato.commerce.getOrder("o"))).code, "HTTP_302", `${url} is not left with the key`);
});

test("a list is its first page, and in a loop every entry of every page", async (t) => {
  const pages = [
    json(200, { orders: [{ orderId: "1" }, { orderId: "2" }], nextCursor: "c&2" }),
    json(200, { orders: [], nextCursor: "c3" }),
    json(200, { orders: [{ orderId: "3" }], nextCursor: null }),
  ];
  const { received, mercato } = await double(t, ...pages, ...pages);
  const ids: string[] = [];
  for await (const order of mercato.commerce.listOrders({ state: "open", limit: 2 })) ids.push(order.orderId);
  assert.deepEqual(ids, ["1", "2", "3"]);
  assert.deepEqual(
    received.map(({ target }) => target),
    ["", "&cursor=c%262", "&cursor=c3"].map((more) => `/v1/commerce/orders?state=open&limit=2${more}`),
  );
  const list = mercato.commerce.listOrders();
  assert.equal(received.length, 3, "nothing is sent before it is needed");
  const page = await list;
  assert.deepEqual([page.orders.length, page.nextCursor], [2, "c&2"]);
  assert.equal(await list, page);
  assert.equal(received.length, 4);
});

test("a loop that ends early reads no further page", async (t) => {
  const { received, mercato } = await double(t, json(200, { orders: [{ orderId: "1" }], nextCursor: "c" }));
  for await (const order of mercato.commerce.listOrders()) {
    assert.equal(order.orderId, "1");
    break;
  }
  assert.equal(received.length, 1);
});

test("discovery goes on where the last page ended", async (t) => {
  const { received, mercato } = await double(
    t,
    json(200, { stores: [{ storeId: "1" }, { storeId: "2" }], hasMore: true, totalCount: 3 }),
    json(200, { stores: [{ storeId: "3" }], hasMore: false, totalCount: 3 }),
  );
  const ids: string[] = [];
  for await (const store of mercato.marketfront.discoverStores({ query: "tea", offset: 4 })) ids.push(store.storeId);
  assert.deepEqual(ids, ["1", "2", "3"]);
  assert.deepEqual(
    received.map(({ body }) => JSON.parse(body)),
    [4, 6].map((offset) => ({ query: "tea", offset })),
  );
});

test("a list that something else answers says that it isn't a Mercato service", async (t) => {
  const { mercato } = await double(t, json(200, { items: [] }));
  const read = async () => {
    for await (const store of mercato.commerce.listStores()) assert.fail(store.name);
  };
  await assert.rejects(read, UnreadableError);
});

test("a client without a usable address or key says what to give", () => {
  for (const url of ["", "127.0.0.1:8000", "ftp://h", "http://", "http://h/?a=1", "http://u:p@h", "http://h h", "http://h/v1", "http://h/v1/commerce/"]) {
    assert.throws(() => new Mercato({ url, key: "k" }), ConfigurationError, url);
  }
  for (const key of ["", " ", "a b", "schlüssel"]) {
    assert.throws(() => new Mercato({ url: "http://127.0.0.1", key }), ConfigurationError, key);
  }
});

test("the address and the key may come from the environment, and the key isn't shown", async (t) => {
  const { url, received } = await double(t, json(200, ORDER));
  Object.assign(process.env, { MERCATO_URL: `${url}/`, MERCATO_KEY: "mk_secret" });
  t.after(() => Object.assign(process.env, { MERCATO_URL: "", MERCATO_KEY: "" }));
  const mercato = new Mercato();
  await mercato.commerce.getOrder("o");
  assert.equal(received[0]?.headers.authorization, "Bearer mk_secret");
  assert.doesNotMatch(inspect(mercato, { depth: 9, showHidden: true }), /mk_secret/);
});

async function failure(call: PromiseLike<unknown>): Promise<MercatoError> {
  try {
    await call;
  } catch (fault) {
    if (fault instanceof MercatoError) return fault;
    throw fault;
  }
  throw new Error("The call has succeeded.");
}

/** Return the address of a port on which nothing listens. */
async function closedPort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  assert.ok(address !== null && typeof address === "object");
  return `http://127.0.0.1:${address.port}`;
}

test("an id with half of a character is refused as another one that makes no path", async (t) => {
  const { received, mercato } = await double(t);
  await assert.rejects(mercato.commerce.getOrder("\ud800"), ConfigurationError);
  assert.equal(received.length, 0);
});

test("a Retry-After below zero is no wait", async (t) => {
  const { client } = await double(t, problem(503, { retryAfter: -60 }));
  const fault = await failure(client({ retries: { attempts: 1 } }).commerce.getOrder("o"));
  assert.ok(fault instanceof ProblemError);
  assert.equal(fault.retryAfter, 0);
});
