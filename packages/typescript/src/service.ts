// Sends requests with fetch: bounded in time and bytes, and repeated where that is safe.

import { ConfigurationError, MercatoError, NoAnswerError, ProblemError, RateLimitError } from "./errors.js";
import { UnreadableError, parse, problemOf } from "./errors.js";
import { REPEATABLE, ROUTES, WITHOUT_BODY } from "./operations.js";
import type { Answer, OperationId, Sent } from "./operations.js";

/** The version of this package. */
export const VERSION = "0.1.0";

/** Milliseconds for one attempt: twice what placing an order may take. */
const TIMEOUT = 30_000;
/** Milliseconds that an attempt gets even shortly before a deadline. */
const MIN_TIMEOUT = 50;
/** Bytes of the largest answer, a CatalogSet. */
const MAX_BYTES = 128 * 1024 * 1024;
/** The longest Retry-After in seconds: a day. */
const MAX_RETRY_AFTER = 86_400;

const UNAVAILABLE: ReadonlySet<number> = new Set([500, 502, 503, 504]);
/** Codes of failures before anything of the request has left. */
const NOT_SENT: ReadonlySet<unknown> = new Set([
  "EADDRNOTAVAIL",
  "EAI_AGAIN",
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** How often a request that may be repeated is sent, and after which waits, in milliseconds. */
export interface Retries {
  /** 4 without it; 1 turns retries off. */
  readonly attempts?: number;
  /** Waits are random up to a bound that doubles from this one (250), and added to a Retry-After. */
  readonly firstWait?: number;
  /** A Retry-After that is longer isn't waited for (30,000): the error has it. */
  readonly longestWait?: number;
}

/** Where the service is, and how it is called. */
export interface MercatoOptions {
  /** The address of the service, such as http://127.0.0.1:8000; `MERCATO_URL` without it. */
  readonly url?: string | undefined;
  /** The key of the account; `MERCATO_KEY` without it. */
  readonly key?: string | undefined;
  /** Milliseconds of each attempt (30,000). */
  readonly timeout?: number | undefined;
  readonly retries?: Retries | undefined;
  /** Sends the requests instead of the global fetch. */
  readonly fetch?: typeof fetch | undefined;
}

/** The options of every call. */
export interface CallOptions {
  /** Ends the call, and its waits: it throws the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds of each attempt, instead of the client's. */
  readonly timeout?: number | undefined;
}

/** The options of Place Order, Cancel Order and Adjust Order. */
export interface KeyOptions extends CallOptions {
  /**
   * What makes a repeat harmless: it is done once for each key. Without one a new key is made.
   *
   * Give a key that you have stored before, so that you can repeat the call after a crash. An error has the key too.
   */
  readonly idempotencyKey?: string | undefined;
}

/** An answer, and the seconds after which to ask again, if the service said so. */
export interface Reply<T> {
  readonly value: T;
  readonly retryAfter: number | undefined;
}

/** One service and the key for it. */
export class Service {
  readonly url: string;
  readonly #key: string;
  readonly #timeout: number;
  readonly #retries: Required<Retries>;
  readonly #fetch: typeof fetch;

  constructor(options: MercatoOptions) {
    const environment = typeof process === "undefined" ? {} : process.env;
    this.url = checkedUrl(options.url || environment["MERCATO_URL"] || "");
    this.#key = checkedKey(options.key || environment["MERCATO_KEY"] || "");
    this.#timeout = options.timeout ?? TIMEOUT;
    // Not spread: a member that is undefined would take the place of its default, and retries would never end.
    const { attempts = 4, firstWait = 250, longestWait = 30_000 } = options.retries ?? {};
    this.#retries = { attempts, firstWait, longestWait };
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
  }

  /** Send a request, with retries; return the answer. */
  async perform<Id extends OperationId>(id: Id, sent: Sent<Id>, options: CallOptions = {}): Promise<Answer<Id>> {
    return (await this.exchange(id, sent, options)).value;
  }

  /** The same, with what the service says about the next request. `deadline` is by performance.now(). */
  async exchange<Id extends OperationId>(
    id: Id,
    sent: Sent<Id>,
    options: CallOptions & { readonly deadline?: number } = {},
  ): Promise<Reply<Answer<Id>>> {
    const request = this.#request(id, sent);
    const deadline = options.deadline ?? Infinity;
    const timeout = options.timeout ?? this.#timeout;
    for (let attempt = 1; ; attempt++) {
      options.signal?.throwIfAborted();
      try {
        const remaining = Math.max(MIN_TIMEOUT, deadline - performance.now());
        return await this.#send<Answer<Id>>(request, Math.min(timeout, remaining), options.signal);
      } catch (fault) {
        if (!(fault instanceof MercatoError)) throw fault;
        fault.idempotencyKey = sent.idempotencyKey;
        const wait = this.#waitAfter(fault, attempt, request.repeats);
        if (wait === undefined || performance.now() + wait >= deadline) throw fault;
        await sleep(wait, options.signal);
      }
    }
  }

  #request<Id extends OperationId>(id: Id, sent: Sent<Id>): Request {
    const [method = "", path = ""] = ROUTES[id].split(" ");
    const ids: Readonly<Record<string, string>> = sent.path ?? {};
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(checkedId(name, ids[name])));
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(sent.query ?? {})) {
      if (value !== undefined && value !== null) query.set(name, String(value));
    }
    const headers: Record<string, string> = {
      Authorization: `Bearer ${this.#key}`,
      Accept: "application/json, application/problem+json",
      "User-Agent": `mercato-client-typescript/${VERSION}`,
    };
    if (sent.body !== undefined) headers["Content-Type"] = "application/json";
    if (sent.idempotencyKey !== undefined) {
      // JavaScript's null would be the text "null", one key for all orders.
      if (typeof sent.idempotencyKey !== "string" || !/^[\x20-\x7e]{1,255}$/.test(sent.idempotencyKey)) {
        throw new ConfigurationError("An idempotency key must have 1 to 255 printable ASCII characters.");
      }
      headers["Idempotency-Key"] = sent.idempotencyKey;
    }
    const { body } = sent;
    const raw = body === undefined || typeof body === "string" || body instanceof Uint8Array;
    return {
      method,
      target: query.size ? `${filled}?${query}` : filled,
      headers,
      body: raw ? body : JSON.stringify(body),
      repeats: method === "GET" || REPEATABLE.has(id),
      wantsBody: !(id in WITHOUT_BODY),
    };
  }

  async #send<T>(request: Request, timeout: number, signal: AbortSignal | undefined): Promise<Reply<T>> {
    const attempt = new AbortController();
    const stop = () => attempt.abort(signal?.reason);
    const timer = setTimeout(() => attempt.abort(new Error("timed out")), timeout);
    signal?.addEventListener("abort", stop, { once: true });
    try {
      const response = await this.#fetch(this.url + request.target, {
        method: request.method,
        headers: request.headers,
        body: request.body ?? null,
        redirect: "manual",
        signal: attempt.signal,
      });
      return this.#read<T>(request, response, await text(response));
    } catch (fault) {
      signal?.throwIfAborted();
      throw fault instanceof MercatoError ? fault : this.#noAnswer(request, fault);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    }
  }

  #read<T>(request: Request, { ok, status, headers }: Response, body: string): Reply<T> {
    const retryAfter = seconds(headers.get("Retry-After"));
    if (!ok) throw problemOf(status, body, headers.get("X-Request-Id") ?? undefined, retryAfter);
    const value = parse(body);
    if (value === undefined && (request.wantsBody || status !== 204)) {
      throw new UnreadableError(
        `The answer to ${request.method} ${request.target} isn't from a Mercato service. Is the URL right?`,
      );
    }
    // What the service declares it returns; members and values that are newer than this client stay in it.
    return { value: value as T, retryAfter };
  }

  #noAnswer(request: Request, fault: unknown): NoAnswerError {
    const { code, words } = failure(fault);
    if (NOT_SENT.has(code)) {
      const advice = "Is the service running, and is this its address?";
      return new NoAnswerError(`${this.url} can't be reached (${words}). ${advice}`, false, { cause: fault });
    }
    const message = `${this.url} did not answer ${request.method} ${request.target} (${words}).`;
    return new NoAnswerError(message, true, { cause: fault });
  }

  /** Return the milliseconds to wait before the next attempt, undefined when there is none. */
  #waitAfter(fault: MercatoError, attempt: number, repeats: boolean): number | undefined {
    const { attempts, firstWait, longestWait } = this.#retries;
    if (attempt >= attempts || !mayRepeat(fault, repeats)) return undefined;
    const requested = fault instanceof ProblemError ? (fault.retryAfter ?? 0) * 1000 : 0;
    if (requested > longestWait) return undefined;
    return requested + Math.min(firstWait * 2 ** (attempt - 1), longestWait) * Math.random();
  }
}

interface Request {
  readonly method: string;
  readonly target: string;
  readonly headers: Record<string, string>;
  readonly body: string | Uint8Array | undefined;
  readonly repeats: boolean;
  /** Whether an answer without a body isn't one to this request. */
  readonly wantsBody: boolean;
}

/** Tell whether the same request may succeed later, and is safe to repeat. */
function mayRepeat(fault: MercatoError, repeats: boolean): boolean {
  if (fault instanceof NoAnswerError) return repeats || !fault.sent;
  if (fault instanceof RateLimitError) return true;
  if (!(fault instanceof ProblemError)) return false;
  const passing = UNAVAILABLE.has(fault.status) || fault.code === "REQUEST_IN_PROGRESS";
  return repeats && passing && fault.retryable !== false;
}

/** Wait, unless the signal ends it. */
export async function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", done, { once: true });
    function done(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      if (signal?.aborted) reject(signal.reason as Error);
      else resolve();
    }
  });
}

/** Read a body up to the limit. */
async function text(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  const parts: string[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    // Leaving the loop ends the answer.
    if (size > MAX_BYTES) throw new UnreadableError(`The answer has more than ${MAX_BYTES} bytes.`);
    parts.push(decoder.decode(chunk, { stream: true }));
  }
  return parts.join("") + decoder.decode();
}

/** Return the seconds of a Retry-After, a number or a date; undefined if it is malformed. */
function seconds(header: string | null): number | undefined {
  if (header === null) return undefined;
  const given = /^\s*\d+\s*$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(given) ? undefined : Math.min(Math.max(given, 0), MAX_RETRY_AFTER);
}

/** Return what fetch says about a failure: it wraps the error of the connection. */
function failure(fault: unknown): { code: unknown; words: string } {
  let inner = fault;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  if (!(inner instanceof Error)) return { code: undefined, words: String(inner) };
  const code: unknown = "code" in inner ? inner.code : undefined;
  return { code, words: inner.message || String(code ?? inner.name) };
}

function checkedUrl(given: string): string {
  const text = given.trim().replace(/\/+$/, "");
  const like = "Give one like http://127.0.0.1:8000.";
  if (!text) throw new ConfigurationError(`No address of a service is given: url, or MERCATO_URL. ${like}`);
  if (text.includes("@")) {
    throw new ConfigurationError("The URL of a service must not have a user name. Give the key separately.");
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || /[?#\s]/.test(text)) {
    throw new ConfigurationError(`${JSON.stringify(text.slice(0, 100))} isn't the URL of a service. ${like}`);
  }
  const surface = /\/v1(\/commerce|\/marketfront)?$/.exec(text)?.[0];
  if (surface) {
    const shown = JSON.stringify(text.slice(0, 100));
    throw new ConfigurationError(`${shown} ends in ${surface}, which the client adds itself. Give the part before it.`);
  }
  return text;
}

function checkedKey(given: string): string {
  const text = given.trim();
  if (!text) {
    throw new ConfigurationError(
      "No key is given: key, or MERCATO_KEY. The operator's `mercato partner create` prints one.",
    );
  }
  if (!/^[\x21-\x7e]+$/.test(text)) {
    throw new ConfigurationError("The key contains a space or another character that keys never have.");
  }
  return text;
}

/** Refuse what would make another path: nothing, the dots that a URL resolves, and halves of a character. */
function checkedId(name: string, id: string | undefined): string {
  if (typeof id === "string" && !/^\.{0,2}$|\p{Surrogate}/u.test(id)) return id;
  throw new ConfigurationError(`${name} is ${JSON.stringify(id)}, which isn't an id. Give the UUID as a string.`);
}
