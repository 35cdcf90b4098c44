// Waits for background work of the service: asks as often as it says, until a deadline.

import { DeadlineError, NoAnswerError, RateLimitError, ServerError } from "./errors.js";
import type { Answer, OperationId, Sent } from "./operations.js";
import { type CallOptions, type Service, sleep } from "./service.js";

/** The default deadline in milliseconds: enough for the longest pull behind some queued runs. */
const TIMEOUT = 300_000;
const FIRST_STEP = 100;
/** The longest time in milliseconds between two requests without a Retry-After. */
const MAX_STEP = 2_000;

/** The options of a wait. */
export interface WaitOptions {
  /** Ends the wait: it throws the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds after which the wait ends with a DeadlineError (300,000). */
  readonly timeout?: number | undefined;
}

/**
 * Ask until it is done; return that state. Throws DeadlineError, and what the first request throws.
 *
 * After the first answer, a later one that fails only delays the next request.
 */
export async function poll<Id extends OperationId>(
  service: Service,
  id: Id,
  sent: Sent<Id>,
  done: (state: Answer<Id>) => boolean,
  { signal, timeout = TIMEOUT }: WaitOptions = {},
  firstPause = 0,
): Promise<Answer<Id>> {
  const deadline = performance.now() + timeout;
  let step = FIRST_STEP;
  let wait = firstPause;
  let last: Answer<Id> | undefined;
  for (;;) {
    if (performance.now() + wait >= deadline) {
      throw new DeadlineError(`Not done after ${timeout / 1000} s; \`last\` is the last state.`, last);
    }
    await sleep(wait, signal);
    let retryAfter: number | undefined;
    try {
      const reply = await service.exchange(id, sent, { signal, deadline });
      if (done(reply.value)) return reply.value;
      last = reply.value;
      retryAfter = reply.retryAfter;
    } catch (fault) {
      const passing = fault instanceof NoAnswerError || fault instanceof ServerError || fault instanceof RateLimitError;
      if (last === undefined || !passing) throw fault;
      retryAfter = fault instanceof NoAnswerError ? undefined : fault.retryAfter;
    }
    wait = retryAfter ? retryAfter * 1000 : step;
    if (!retryAfter) step = Math.min(2 * step, MAX_STEP);
  }
}

/** Options of a single request within a wait. */
export const once = ({ signal }: WaitOptions): CallOptions => ({ signal });
