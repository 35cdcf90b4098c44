import assert from "node:assert/strict";
import { test } from "node:test";

import { CatalogFailedError, DeadlineError, Mercato, ServerError, toPlace, type types } from "@mercato/client";

import { double, hangUp, json, problem } from "./double.js";

const onboarding = (status: string, more: object = {}) => json(200, { onboardingId: "o", status, errors: [], ...more });

test("a store is waited for, through failures, and activated", async (t) => {
  const down = Array.from({ length: 4 }, () => problem(503));
  const { received, mercato } = await double(
    t,
    onboarding("pending_catalog"),
    ...down,
    onboarding("catalog_ingesting"),
    onboarding("ready_to_activate"),
    json(200, { storeId: "s" }),
  );
  assert.equal((await mercato.commerce.waitUntilLive("o")).storeId, "s");
  assert.equal(received.at(-1)?.target, "/v1/commerce/onboarding/stores/o/activate");
});

test("a store that was activated meanwhile is returned", async (t) => {
  const { mercato } = await double(
    t,
    onboarding("ready_to_activate"),
    problem(409, { errorCategory: "conflict" }),
    onboarding("active", { storeId: "s" }),
    json(200, { storeId: "s", name: "Tea" }),
  );
  assert.equal((await mercato.commerce.waitUntilLive("o")).name, "Tea");
});

test("a catalog that fails is an error with every fault", async (t) => {
  const errors = [{ path: "/items/1", message: "has no price" }];
  const { mercato } = await double(t, onboarding("catalog_failed", { errors }));
  await assert.rejects(mercato.commerce.waitUntilLive("o"), (fault) => {
    assert.ok(fault instanceof CatalogFailedError);
    assert.deepEqual(fault.errors, errors);
    assert.equal(fault.message, "The catalog can't be served:\n  /items/1: has no price");
    return true;
  });
});

test("a catalog is replaced after the wait that the service asks for", async (t) => {
  const { received, mercato } = await double(
    t,
    json(202, { catalogIngestId: "c", statusUrl: "" }, { "Retry-After": "1" }),
    json(200, { status: "succeeded" }),
  );
  const began = performance.now();
  assert.equal((await mercato.commerce.replaceCatalog("s", "http://127.0.0.1/c")).status, "succeeded");
  assert.ok(performance.now() - began >= 990);
  assert.equal(received.at(-1)?.target, "/v1/commerce/stores/s/catalog-ingest/c/status");
});

test("a catalog that is sent for later is waited for until it is built", async (t) => {
  const { received, mercato } = await double(
    t,
    json(202, { catalogIngestId: "c", statusUrl: "" }, { "Retry-After": "3600" }),
    json(200, { status: "processing" }),
    json(200, { status: "processing", catalogSetId: "s-2", activateAt: "2026-02-01T05:00:00.000Z" }),
  );
  const run = await mercato.commerce.publishCatalog("s", { items: {} }, { activateAt: "2026-02-01T05:00:00Z" });
  assert.equal(run.catalogSetId, "s-2");
  assert.equal(`${received[0]?.method} ${received[0]?.target}`, "PUT /v1/commerce/stores/s/catalog?activateAt=2026-02-01T05%3A00%3A00Z");
  assert.equal(received[0]?.body, '{"items":{}}');
});

test("a wait ends at its deadline with the last state, or with its signal", async () => {
  const order = { orderId: "o", state: "open" };
  const open = () => Promise.resolve(Response.json(order));
  const mercato = new Mercato({ url: "http://127.0.0.1", key: "k", fetch: open });
  await assert.rejects(mercato.marketfront.waitUntilClosed("o", { timeout: 1000 }), (fault) => {
    assert.ok(fault instanceof DeadlineError);
    assert.deepEqual(fault.last, order);
    return true;
  });
  const signal = AbortSignal.timeout(50);
  await assert.rejects(mercato.marketfront.waitUntilClosed("o", { signal }), { name: "TimeoutError" });
});

test("what the first request of a wait throws is thrown", async (t) => {
  const { mercato } = await double(t, hangUp, ...Array.from({ length: 3 }, () => problem(503)));
  await assert.rejects(mercato.marketfront.waitUntilClosed("o"), ServerError);
});

test("what was validated is placed at exactly that total", () => {
  const order = { amounts: { tip: "1.00" }, customer: null } as unknown as types.OrderCore;
  const checked = { amounts: { total: "6.00" }, errors: [{ code: "STORE_CLOSED" }] };
  const valid = { isValid: true, validatedOrderToken: "t", order: checked } as unknown as types.ValidateOrderResponse;
  assert.deepEqual(toPlace(order, valid, { type: "external" }), {
    amounts: { tip: "1.00", total: "6.00" },
    customer: null,
    validatedOrderToken: "t",
    payment: { type: "external" },
  });
  assert.throws(() => toPlace(order, { ...valid, isValid: false }), /The order is invalid: STORE_CLOSED\./);
});
