// A whole order through a client whose types were generated from the OpenAPI document.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import createClient from "openapi-fetch";

import type { components, paths } from "./mercato.js";

type Schemas = components["schemas"];
type Facts = Record<"base" | "commerceKey" | "marketfrontKey" | "catalogUrl" | "webhookUrl", string>;

const facts = JSON.parse(process.argv[2] ?? "{}") as Facts;
const signedIn = (key: string) =>
  createClient<paths>({ baseUrl: facts.base, headers: { Authorization: `Bearer ${key}` } });
const pos = signedIn(facts.commerceKey);
const front = signedIn(facts.marketfrontKey);

/** Return the answer, or fail with the problem's own words. */
async function good<T>(asked: Promise<{ data?: T; error?: Schemas["ProblemDetail"] }>): Promise<T> {
  const { data, error } = await asked;
  if (data === undefined) throw new Error(`${error?.errorCode}: ${error?.detail}`);
  return data;
}

/** Ask until the condition holds, for at most twenty seconds. */
async function until<T>(ask: () => Promise<T>, done: (answer: T) => boolean): Promise<T> {
  for (let left = 1000; left > 0; left--) {
    const answer = await ask();
    if (done(answer)) return answer;
    await sleep(20);
  }
  throw new Error("It never came to that.");
}

async function live(): Promise<Schemas["Store"]> {
  const body: Schemas["OnboardingRequest"] = {
    partnerStoreId: "client-2",
    name: "Tea & Cake",
    address: { street: "1 Main St", coordinates: { lat: 39.8, lng: -89.6 } },
    catalogCallbackUrl: facts.catalogUrl,
    webhookUrl: facts.webhookUrl,
  };
  const { onboardingId } = await good(pos.POST("/v1/commerce/onboarding/stores", { body }));
  const params = { path: { onboardingId } };
  await until(
    () => good(pos.GET("/v1/commerce/onboarding/stores/{onboardingId}", { params })),
    (now) => now.status === "ready_to_activate",
  );
  const again = await pos.POST("/v1/commerce/onboarding/stores", { body });
  assert.equal(again.error?.onboardingId, onboardingId);
  return good(pos.POST("/v1/commerce/onboarding/stores/{onboardingId}/activate", { params }));
}

async function bought(storeId: string): Promise<Schemas["Order"]> {
  await until(
    () => good(front.POST("/v1/marketfront/stores/discover", { body: { query: "cake" } })),
    (page) => page.stores.some((one) => one.storeId === storeId),
  );
  const store = await good(
    front.GET("/v1/marketfront/stores/{storeId}", { params: { path: { storeId } } }),
  );
  const catalogSetId = store.catalogSetId;
  const catalog = await good(
    front.GET("/v1/marketfront/catalog-sets/{catalogSetId}", { params: { path: { catalogSetId } } }),
  );
  const itemId = Object.entries(catalog.items).find(([, item]) => item.name === "Tea")?.[0];
  assert.ok(itemId);
  const cart = await good(
    front.POST("/v1/marketfront/carts/add", {
      body: { item: { itemId, quantity: 2, modifierGroups: [] }, storeId, catalogSetId },
    }),
  );
  const { isValid, validatedOrderToken, order } = await good(
    front.POST("/v1/marketfront/orders/validate", {
      body: {
        cart,
        clientContext: { ip: "203.0.113.7", userAgent: "program/1.0" },
        fulfillment: { mode: "PICKUP", scheduleType: "ASAP" },
        amounts: { tip: "1.00" },
        customer: { email: "ada@example.com", firstName: "Ada", lastName: "L", phone: "+15550100" },
      },
    }),
  );
  assert.ok(isValid);
  // What was answered goes back as it is.
  const place = {
    params: { header: { "Idempotency-Key": randomUUID() } },
    body: { ...order, validatedOrderToken, payment: { type: "external" } },
  };
  const placed = await good(front.POST("/v1/marketfront/orders/place", place));
  const again = await front.POST("/v1/marketfront/orders/place", place);
  assert.deepEqual(again.data, placed);
  assert.equal(again.response.headers.get("Idempotent-Replayed"), "true");
  return placed;
}

const store = await live();
const { orderId } = await bought(store.storeId);
const params = { path: { orderId } };
const status = "/v1/commerce/orders/{orderId}/status";
await good(pos.POST(status, { params, body: { status: "confirmed" } }));
await good(pos.POST(status, { params, body: { status: "ready", state: "completed" } }));
const read = await good(front.GET("/v1/marketfront/orders/{orderId}", { params }));
assert.deepEqual([read.state, read.amounts.total], ["completed", "6.00"]);
const { orders } = await good(pos.GET("/v1/commerce/orders"));
// The merchant's ids are UUIDs, so they are the ones that are served.
assert.deepEqual(
  orders.map((one) => [one.orderId, one.cart.lineItems[0]?.partnerItemId]),
  [[orderId, read.cart.lineItems[0]?.itemId]],
);
const timeline = await good(pos.GET("/v1/commerce/orders/{orderId}/timeline", { params }));
assert.equal(timeline.entries[0]?.type, "placed");
console.log(JSON.stringify({ orderId, state: read.state }));
