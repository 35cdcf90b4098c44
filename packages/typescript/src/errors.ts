// Every failure is a MercatoError: refusals by category, and failures before there is an answer.

import type { CatalogFault, OrderError, ProblemDetail } from "./api.js";

/** A ProblemDetail (RFC 9457) as received: any member may be missing, and there may be others. */
export type Problem = Readonly<Partial<ProblemDetail> & Record<string, unknown>>;

const SHOWN = 5; // Faults that the text of an error lists; all of them are in `errors`.
const EXCERPT = 200; // Characters shown of a body that isn't a problem document.

/** The base of all errors. `code` says what happened; `status` and `problem` are those of a refusal's answer. */
export class MercatoError extends Error {
  readonly code: string;
  readonly status: number | undefined = undefined;
  readonly problem: Problem | undefined = undefined;
  /** The key of the failed request, if it had one. */
  idempotencyKey: string | undefined = undefined;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.name = new.target.name;
  }
}

/** The URL, the key or another argument is missing or unusable. */
export class ConfigurationError extends MercatoError {
  constructor(message: string, options?: ErrorOptions) {
    super("CONFIGURATION", message, options);
  }
}

/** The service could not be reached, or did not answer in time. */
export class NoAnswerError extends MercatoError {
  /** Whether the request may have arrived and been performed. */
  readonly sent: boolean;

  constructor(message: string, sent: boolean, options?: ErrorOptions) {
    super("NO_ANSWER", message, options);
    this.sent = sent;
  }
}

/** The answer isn't from a Mercato service. Check the URL. */
export class UnreadableError extends MercatoError {
  constructor(message: string, options?: ErrorOptions) {
    super("UNREADABLE", message, options);
  }
}

/** The wait has timed out; `last` is the last state that the service reported. */
export class DeadlineError<State = unknown> extends MercatoError {
  readonly last: State | undefined;

  constructor(message: string, last: State | undefined) {
    super("DEADLINE", message);
    this.last = last;
  }
}

/** The catalog was refused; `last` is the onboarding or run, `errors` are those of the catalog. */
export class CatalogFailedError<State extends { errors?: readonly CatalogFault[] }> extends MercatoError {
  readonly last: State;
  readonly errors: readonly CatalogFault[];

  constructor(last: State) {
    const errors = listed(last.errors);
    const lines = errors.map((fault) => `  ${fault.path || "-"}: ${fault.message}`);
    super("CATALOG_FAILED", ["The catalog can't be served:", ...lines].join("\n"));
    this.last = last;
    this.errors = errors;
  }
}

/** The service refused. `code` is the problem's `errorCode`, `errors` say where and why. */
export class ProblemError extends MercatoError {
  override readonly status: number;
  /** Every member of the answer, also extensions such as `orderId`. */
  override readonly problem: Problem;
  readonly category: string | undefined;
  readonly title: string;
  readonly detail: string;
  readonly errors: readonly OrderError[];
  /** What support asks for. */
  readonly requestId: string | undefined;
  /** The seconds to wait before the next attempt. */
  readonly retryAfter: number | undefined;
  readonly retryable: boolean | undefined;
  readonly traceId: string | undefined;
  /** The address of a page with advice. */
  readonly type: string | undefined;

  constructor(status: number, problem: Problem, requestId?: string, retryAfter?: number) {
    const code = text(problem.errorCode) ?? `HTTP_${status}`;
    const title = text(problem.title) ?? "";
    const detail = text(problem.detail) ?? "";
    const errors = listed(problem.errors);
    const id = text(problem.requestId) ?? requestId;
    super(code, describe(`${status} ${code}: ${detail || title}${id ? ` (request ${id})` : ""}`, errors));
    this.status = status;
    this.problem = problem;
    this.category = text(problem.errorCategory);
    this.title = title;
    this.detail = detail;
    this.errors = errors;
    this.requestId = id;
    // An answer may be from anybody: a number below zero isn't a wait.
    this.retryAfter = typeof problem.retryAfter === "number" ? Math.max(problem.retryAfter, 0) : retryAfter;
    this.retryable = typeof problem.retryable === "boolean" ? problem.retryable : undefined;
    this.traceId = text(problem.traceId);
    this.type = text(problem.type);
  }
}

/** The request is invalid: `errors` has each fault with a pointer into the body. */
export class ValidationError extends ProblemError {}

/** Not available now: the store is closed, an item is sold out or its price changed. */
export class AvailabilityError extends ProblemError {}

/** The store refused the payment. */
export class PaymentError extends ProblemError {}

/** No key, or one that is wrong, expired or revoked. */
export class AuthenticationError extends ProblemError {}

/** The key is for the other surface. */
export class AuthorizationError extends ProblemError {}

/** It doesn't exist, or isn't yours. */
export class NotFoundError extends ProblemError {}

/** The request conflicts with the present state. */
export class ConflictError extends ProblemError {}

/** Too many requests; `retryAfter` has the seconds to wait. */
export class RateLimitError extends ProblemError {}

/** The service, or a store behind it, can't answer now. */
export class ServerError extends ProblemError {}

/** The webhook isn't genuine: answer it with 401. */
export class WebhookError extends MercatoError {}

/** The webhook is genuine, but its body can't be read: answer it with 400. */
export class UnreadableWebhookError extends MercatoError {
  constructor(message: string, options?: ErrorOptions) {
    super("UNREADABLE_WEBHOOK", message, options);
  }
}

const CATEGORIES: ReadonlyMap<string | undefined, typeof ProblemError> = new Map([
  ["validation", ValidationError],
  ["availability", AvailabilityError],
  ["payment", PaymentError],
  ["authentication", AuthenticationError],
  ["authorization", AuthorizationError],
  ["not_found", NotFoundError],
  ["conflict", ConflictError],
  ["rate_limit", RateLimitError],
  ["server_error", ServerError],
]);
const STATUSES: ReadonlyMap<number, typeof ProblemError> = new Map([
  [400, ValidationError],
  [401, AuthenticationError],
  [403, AuthorizationError],
  [404, NotFoundError],
  [409, ConflictError],
  [422, ValidationError],
  [429, RateLimitError],
]);

/** Return the error for an answer that isn't a success, whatever its body. */
export function problemOf(status: number, body: string, requestId?: string, retryAfter?: number): ProblemError {
  const problem = parse(body) ?? {
    title: "Not a problem that this service describes",
    detail: body.slice(0, 4 * EXCERPT).split(/\s+/).join(" ").trim().slice(0, EXCERPT),
  };
  const kind =
    status >= 500
      ? ServerError
      : (CATEGORIES.get(text(problem.errorCategory)) ?? STATUSES.get(status) ?? ProblemError);
  return new kind(status, problem, requestId, retryAfter);
}

/** Return the object of a JSON text, undefined if it isn't one. */
export function parse(body: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Return the objects of a list, none if it isn't one: an answer may be from anybody. */
function listed<Entry>(value: readonly Entry[] | null | undefined): readonly Entry[] {
  return Array.isArray(value) ? (value as readonly Entry[]).filter((entry) => isObject(entry)) : [];
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function describe(headline: string, errors: readonly OrderError[]): string {
  if (errors.length < 2 && !errors.some((error) => error.pointer)) return headline;
  const lines = errors.slice(0, SHOWN).map((one) => `  ${one.pointer || "-"}: ${one.message} [${one.code}]`);
  const more = errors.length - SHOWN;
  return [headline, ...lines, ...(more > 0 ? [`  and ${more} more`] : [])].join("\n");
}
