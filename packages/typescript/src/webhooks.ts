// Webhooks for their receivers: verified by the library of Standard Webhooks, and typed.

import { Webhook } from "standardwebhooks";

import type { webhooks } from "./api.js";
import { ConfigurationError, isObject, parse, UnreadableWebhookError, WebhookError } from "./errors.js";

/** The headers of a request: those of Node.js, of fetch, or by name. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

type Body<Name extends keyof webhooks> =
  webhooks[Name]["post"]["requestBody"]["content"]["application/json"];
type Received<Event> = Event extends unknown ? Readonly<Event> & { readonly id: string } : never;

/**
 * A genuine webhook; `type` says what `data` is. A redelivery has the same `id`: store those that you have handled.
 *
 * An event type that is newer than this version of the client may arrive too: give a `switch` a `default`.
 */
export type WebhookEvent = Received<{ [Name in keyof webhooks]: Body<Name> }[keyof webhooks]>;

const NAMES = ["webhook-id", "webhook-timestamp", "webhook-signature"] as const;
const ADVICE = "Is it the body as it arrived, and the secret of this account? explainWebhookSignature says why.";

/**
 * Return the event. `secret` is the account's signing secret (`whsec_…`), or all that are valid now; `body` is the text
 * or the bytes as received.
 *
 * Throws WebhookError when none of them signed it or its time is more than five minutes off, and
 * UnreadableWebhookError.
 */
export function verifyWebhook(
  secret: string | readonly string[],
  headers: WebhookHeaders,
  body: string | Uint8Array,
): WebhookEvent {
  if (typeof body !== "string" && !(body instanceof Uint8Array)) {
    throw new ConfigurationError("Give the body as received: one that was parsed may differ from what was signed.");
  }
  const signed = Object.fromEntries(NAMES.map((name) => [name, header(headers, name)]));
  const verifiers = (typeof secret === "string" ? [secret] : secret).map(verifier);
  const text = decode(body);
  let cause: unknown = new Error("No secret is given");
  for (const webhook of verifiers) {
    try {
      webhook.verify(text, signed, { jsonParse: false });
      return event(signed["webhook-id"] ?? "", text);
    } catch (fault) {
      if (fault instanceof UnreadableWebhookError) throw fault;
      cause = fault;
    }
  }
  const words = cause instanceof Error ? cause.message : String(cause);
  throw new WebhookError("SIGNATURE_INVALID", `The webhook isn't genuine: ${words}. ${ADVICE}`, { cause });
}

function verifier(secret: string): Webhook {
  try {
    return new Webhook(secret);
  } catch (cause) {
    throw new ConfigurationError("The signing secret must be `whsec_` and base64, as the service gave it.", { cause });
  }
}

function header(headers: WebhookHeaders, name: string): string {
  const values = isFetched(headers)
    ? headers.get(name)
    : Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1];
  const value = typeof values === "string" ? values : values?.join(" ");
  if (!value) throw new WebhookError("MISSING_HEADER", `The header ${name} is missing.`);
  if (name === "webhook-timestamp" && !/^\d{1,12}$/.test(value)) {
    throw new WebhookError("TIMESTAMP_UNREADABLE", `The header ${name} isn't a number of seconds.`);
  }
  return value;
}

function isFetched(headers: WebhookHeaders): headers is Headers {
  return typeof headers.get === "function";
}

/** Bytes that aren't UTF-8 were never sent: nothing may stand for them. */
function decode(body: string | Uint8Array): string {
  try {
    return typeof body === "string" ? body : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch (cause) {
    throw new WebhookError("SIGNATURE_INVALID", "The webhook isn't genuine: its body isn't UTF-8.", { cause });
  }
}

function event(id: string, body: string): WebhookEvent {
  const { type, timestamp, data } = parse(body) ?? {};
  if (typeof type !== "string" || typeof timestamp !== "string" || !isObject(data)) {
    throw new UnreadableWebhookError(`The body of the webhook ${id} isn't an event: {type, timestamp, data}.`);
  }
  // The service signed it, and its document says what it sends.
  return { id, type, timestamp, data } as WebhookEvent;
}
