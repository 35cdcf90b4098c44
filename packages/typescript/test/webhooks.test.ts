import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { Webhook } from "standardwebhooks";

import {
  ConfigurationError,
  type types,
  UnreadableWebhookError,
  verifyWebhook,
  WebhookError,
  type WebhookEvent,
} from "@mercato/client";

import { listen } from "./double.js";

const SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const OTHER = "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXowMTIzNDU=";
const EVENT = {
  type: "order.place",
  timestamp: "2026-01-31T18:30:00.000Z",
  data: { orderId: "o", note: "Ünï 🍵" },
};
const BODY = JSON.stringify(EVENT);

function signed(body: string, secret = SECRET, at = new Date()): Record<string, string> {
  return {
    "webhook-id": "w-1",
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    "webhook-signature": new Webhook(secret).sign("w-1", at, body),
  };
}

test("a genuine webhook is an event, from text and bytes, with the headers of Node.js and of fetch", () => {
  const headers = signed(BODY);
  const bytes = new TextEncoder().encode(BODY);
  const expected = { id: "w-1", ...EVENT };
  assert.deepEqual(verifyWebhook(SECRET, headers, BODY), expected);
  assert.deepEqual(verifyWebhook(SECRET, headers, bytes), expected);
  assert.deepEqual(verifyWebhook(SECRET, headers, Buffer.from(bytes)), expected);
  assert.deepEqual(verifyWebhook(SECRET, new Headers(headers), BODY), expected);
  const upper = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), [value]]));
  assert.deepEqual(verifyWebhook(SECRET, upper, BODY), expected);
});

test("every secret that is valid now is tried, against every signature", () => {
  assert.equal(verifyWebhook([OTHER, SECRET], signed(BODY), BODY).id, "w-1");
  const both = signed(BODY);
  both["webhook-signature"] = `${signed(BODY, OTHER)["webhook-signature"]} ${both["webhook-signature"]}`;
  assert.equal(verifyWebhook(SECRET, both, BODY).id, "w-1");
});

test("anything else is refused", () => {
  const good = signed(BODY);
  const minutes = (count: number) => new Date(Date.now() + count * 60_000);
  const wrong: [string, Record<string, string>, (string | Uint8Array)?][] = [
    ["another key", signed(BODY, OTHER)],
    ["another body", good, `${BODY} `],
    ["no UTF-8", good, new Uint8Array([0xff])],
    ["another id", { ...good, "webhook-id": "w-2" }],
    ["too old", signed(BODY, SECRET, minutes(-6))],
    ["from the future", signed(BODY, SECRET, minutes(6))],
    ["no number", { ...good, "webhook-timestamp": `${good["webhook-timestamp"]}x` }],
    ["no signature", { ...good, "webhook-signature": "v1," }],
    ["another version", { ...good, "webhook-signature": good["webhook-signature"]?.replace("v1,", "v2,") ?? "" }],
    ["no headers", {}],
  ];
  for (const [name, headers, body = BODY] of wrong) {
    assert.throws(() => verifyWebhook(SECRET, headers, body), WebhookError, name);
  }
  assert.throws(() => verifyWebhook([], good, BODY), WebhookError);
  assert.throws(() => verifyWebhook(SECRET, {}, BODY), { code: "MISSING_HEADER" });
});

test("what isn't the body or a secret is said to be the receiver's mistake", () => {
  const parsed = EVENT as unknown as string;
  assert.throws(() => verifyWebhook(SECRET, signed(BODY), parsed), ConfigurationError);
  for (const secret of ["", "whsec_", "whsec_§"]) {
    assert.throws(() => verifyWebhook(secret, signed(BODY), BODY), ConfigurationError, secret);
  }
});

test("a genuine body that isn't an event is unreadable", () => {
  for (const body of ["", "[]", "{", '{"type": "a"}', '{"type": "a", "timestamp": "b", "data": 1}']) {
    assert.throws(() => verifyWebhook(SECRET, signed(body), body), UnreadableWebhookError, body);
  }
});

test("the type of an event says what its data is", () => {
  function describe(event: WebhookEvent): string {
    switch (event.type) {
      case "order.place": {
        const placed: types.OrderPlaceData = event.data;
        return `place ${placed.orderId}`;
      }
      case "order.created":
      case "order.updated": {
        // A storefront's, or that of a merchant that isn't called.
        const changed = event.data;
        return "sequence" in changed ? `order ${changed.sequence}` : `order ${changed.orderHandling}`;
      }
      case "catalog.sync.succeeded":
      case "catalog.sync.failed": {
        const run: types.CatalogSyncWebhookData = event.data;
        return `catalog ${run.catalogIngestId}`;
      }
      case "order.validate":
      case "order.cancelled":
      case "endpoint.changed":
        return event.data === null ? "" : event.type;
      default:
        return `newer: ${JSON.stringify(event)}`;
    }
  }
  assert.equal(describe(verifyWebhook(SECRET, signed(BODY), BODY)), "place o");
  const newer = JSON.stringify({ type: "order.frozen", timestamp: "", data: {} });
  assert.match(describe(verifyWebhook(SECRET, signed(newer), newer)), /^newer: .*"order.frozen"/);
});

test("a server of Node.js answers genuine webhooks and refuses others", async (t) => {
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    try {
      const event = verifyWebhook(SECRET, request.headers, Buffer.concat(parts));
      response.writeHead(200).end(event.id);
    } catch (fault) {
      response.writeHead(fault instanceof WebhookError ? 401 : 400).end();
    }
  });
  const url = await listen(server);
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const post = (headers: Record<string, string>) => fetch(url, { method: "POST", headers, body: BODY });
  const genuine = await post(signed(BODY));
  assert.deepEqual([genuine.status, await genuine.text()], [200, "w-1"]);
  assert.equal((await post(signed(BODY, OTHER))).status, 401);
});
