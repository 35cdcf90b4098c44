// Every vector gives the same cart, or the same refusal, as the service's own rules.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";

import { CartError, Catalog } from "../dist/index.js";

const VECTORS = new URL("../../vectors/", import.meta.url);

function answered(catalog, asked) {
  try {
    switch (asked.operation) {
      case "add":
        return { answer: catalog.add(asked.cart, asked.item) };
      case "remove":
        return { answer: catalog.remove(asked.cart, asked.lineItemId) };
      case "update":
        return { answer: catalog.update(asked.cart, asked.lineItemId, asked.quantity) };
      default:
        return { answer: catalog.price(asked.cart) };
    }
  } catch (error) {
    if (!(error instanceof CartError)) throw error;
    const { code, status, message, errors } = error;
    return { refusal: { code, status, message, errors } };
  }
}

for (const name of readdirSync(VECTORS).filter((file) => file.endsWith(".json.gz"))) {
  test(name, () => {
    const { catalogs } = JSON.parse(gunzipSync(readFileSync(new URL(name, VECTORS))));
    for (const [number, { catalog, soldOut, carts }] of catalogs.entries()) {
      for (const [index, { answer, refusal, ...asked }] of carts.entries()) {
        let count = 0;
        const newId = () => `00000000-0000-4000-8000-${(++count).toString(16).padStart(12, "0")}`;
        const got = answered(new Catalog(catalog, { soldOut, newId }), asked);
        assert.deepEqual(got, refusal === undefined ? { answer } : { refusal }, `${name}, catalog ${number}, cart ${index}`);
      }
    }
  });
}
