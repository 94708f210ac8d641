/** Axes for any property: numbers on a linear or log scale, everything else as categories. */
import { numeric } from "../../lib/api";
import { digitsOf, distinct, said, token, type Table } from "./data";
import { domainOf, scale, ticks, type Tick } from "./scale";

export type Axis = {
  property: string;
  numbers: boolean;
  log: boolean;
  at: (value: unknown) => number;
  ticks: Tick[];
  where: (tick: Tick) => number;
};

/** Whether a log scale suits a property: all values positive, and spanning a factor of 50 or more. */
export function wide(table: Table, property: string): boolean {
  const sizes = table
    .column(property)
    .map(numeric)
    .filter((value): value is number => value !== null && Number.isFinite(value));
  return sizes.length > 1 && Math.min(...sizes) > 0 && Math.max(...sizes) / Math.min(...sizes) >= 50;
}

/** Make the axis of a property from pixel `from` to `to`. */
export function axis(table: Table, property: string, from: number, to: number, log: boolean, about = 5): Axis {
  const column = table.column(property);
  if (table.isNumber(property)) {
    const sizes = column.map((value) => numeric(value) ?? NaN);
    const positive = log && sizes.every((value) => Number.isNaN(value) || value > 0);
    const by = scale(domainOf([sizes], positive), from, to, positive);
    const few = distinct(sizes.filter(Number.isFinite)) as number[];
    const marks =
      few.length <= 8 ? few.map((value) => ({ value, label: said(value, digitsOf(property)) })) : ticks(by, about);
    return {
      property,
      numbers: true,
      log: positive,
      at: (value) => by.at(numeric(value) ?? NaN),
      ticks: marks,
      where: (tick) => by.at(tick.value),
    };
  }
  const values = distinct(column);
  const place = new Map(values.map((value, i) => [token(value), i]));
  const step = (to - from) / Math.max(1, values.length);
  const at = (i: number): number => from + step * (i + 0.5);
  const every = Math.max(1, Math.ceil(values.length / 24));
  const marks = values.map((value, i) => ({ value: i, label: said(value) })).filter((_, i) => i % every === 0);
  return {
    property,
    numbers: false,
    log: false,
    at: (value) => at(place.get(token(value)) ?? NaN),
    ticks: marks,
    where: (tick) => at(tick.value),
  };
}
