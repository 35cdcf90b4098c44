// A double of the service: it gives the answers of a script, and keeps what it was sent.

import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

import { Mercato, type MercatoOptions } from "@mercato/client";

export interface Received {
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export type Answer = (response: ServerResponse, request: Received) => void;

/** Return an answer with a JSON body. */
export const json =
  (status: number, value: unknown, headers: Record<string, string> = {}): Answer =>
  (response) =>
    response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(value));

/** Return an answer with a problem. */
export const problem = (status: number, members: Record<string, unknown> = {}, headers?: Record<string, string>) =>
  json(status, { title: "A title", status, ...members }, headers);

/** Return an answer with these bytes. */
export const raw =
  (status: number, body: string | Buffer, type = "application/json", headers: Record<string, string> = {}): Answer =>
  (response) =>
    response.writeHead(status, { "Content-Type": type, ...headers }).end(body);

/** Return a problem that is sent in these chunks. */
export const chunked =
  (status: number, ...chunks: string[]): Answer =>
  (response) => {
    response.writeHead(status, { "Content-Type": "application/problem+json" });
    for (const chunk of chunks) response.write(chunk);
    response.end();
  };

/** Never answers. */
export const silence: Answer = () => undefined;

/** Closes the connection without an answer. */
export const hangUp: Answer = (response) => response.destroy();

/** Start a service that gives these answers in turn, and a client of it that hardly waits between attempts. */
export async function double(context: TestContext, ...answers: Answer[]) {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { method = "", url: target = "", headers } = request;
    const one = { method, target, headers, body: Buffer.concat(parts).toString() };
    received.push(one);
    (answers.shift() ?? json(500, { title: "The script has ended" }))(response, one);
  });
  const url = await listen(server);
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const client = (options: MercatoOptions = {}) =>
    new Mercato({ url, key: "mk_test", retries: { firstWait: 1 }, ...options });
  return { url, received, client, mercato: client() };
}

/** Listen on a free port of loopback; return the address. */
export async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
