// Money between decimal text and integers of minor units, never through a floating-point number.

export const MIN_MINOR = -(2n ** 63n);
export const MAX_MINOR = 2n ** 63n - 1n;

// ISO 4217; every other currency has two decimals.
const DECIMALS: Readonly<Record<number, string>> = {
  0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
  3: "BHD IQD JOD KWD LYD OMR TND",
  4: "CLF UYW",
};

export function scaleOf(currency: string): number {
  const entry = Object.entries(DECIMALS).find(([, codes]) => codes.split(" ").includes(currency));
  return entry === undefined ? 2 : Number(entry[0]);
}

/** A decimal of the served copy, which has the currency's own scale. */
export function toMinor(text: string, scale: number): bigint {
  const match = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text);
  const [, sign = "", whole = "", fraction = ""] = match ?? [];
  const kept = fraction.slice(0, scale).padEnd(scale, "0");
  if (match === null || /[^0]/.test(fraction.slice(scale))) {
    throw new RangeError(`${JSON.stringify(text)} is not an amount with ${scale} decimals.`);
  }
  return BigInt(`${whole}${kept}`) * (sign === "-" ? -1n : 1n);
}

export function toText(minor: bigint, scale: number): string {
  const digits = (minor < 0n ? -minor : minor).toString().padStart(scale + 1, "0");
  const at = digits.length - scale;
  return `${minor < 0n ? "-" : ""}${digits.slice(0, at)}${scale === 0 ? "" : `.${digits.slice(at)}`}`;
}
