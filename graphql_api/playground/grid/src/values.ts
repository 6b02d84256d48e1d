// Conversion between texts that people type or read, and JSON values of GraphQL types.

import type { Catalog, Property } from "./catalog";
import { parseType } from "./type_names";

export class InvalidText extends Error {}

const scalarKind = (catalog: Catalog, name: string): "text" | "number" | "boolean" | "any" | "enum" => {
  const described = catalog.types[name];
  if (described === undefined) return "any";
  if (described.kind === "enum") return "enum";
  return described.kind === "scalar" ? described.json : "any";
};

/** How a value of this type is entered. */
export type Editor = "text" | "number" | "boolean" | "enum" | "json" | "long-text";

export const editorOf = (catalog: Catalog, type: string): Editor => {
  const { name, isList } = parseType(type);
  const kind = scalarKind(catalog, name);
  return isList || kind === "any" ? "json" : kind === "text" && name === "String" ? "long-text" : kind;
};

export const enumValues = (catalog: Catalog, type: string): string[] => {
  const described = catalog.types[parseType(type).name];
  return described?.kind === "enum" ? described.values : [];
};

/** Convert a text to the value of a type. Throws InvalidText with what to enter instead. */
export const parseText = (catalog: Catalog, type: string, text: string): unknown => {
  const { name, isList } = parseType(type);
  const kind = scalarKind(catalog, name);
  if (isList) return parseList(catalog, name, text);
  if (kind === "number") {
    const value = Number(text.trim());
    if (text.trim() === "" || !Number.isFinite(value)) throw new InvalidText("Enter a number.");
    return value;
  }
  if (kind === "boolean") {
    if (text !== "true" && text !== "false") throw new InvalidText("Choose true or false.");
    return text === "true";
  }
  return kind === "any" ? parseJson(text) : text;
};

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (problem) {
    throw new InvalidText(`Enter JSON: ${(problem as Error).message}`);
  }
};

const parseList = (catalog: Catalog, name: string, text: string): unknown => {
  if (text.trim().startsWith("[")) return parseJson(text);
  const parts = text.split(",").map((part) => part.trim());
  return parts.filter((part) => part !== "").map((part) => parseText(catalog, name, part));
};

/** The text of a value in an editor. */
export const formatText = (value: unknown): string => {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};

const percent = (text: string): string =>
  [...text].map((one) => `%${one.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`).join("");

/** The text of an id of one or several parts. */
export const formatId = (values: unknown[], separator: string): string => {
  const texts = values.map(formatText);
  if (texts.length === 1) return texts[0] ?? "";
  return texts.map((text) => text.replaceAll("%", "%25").replaceAll(separator, percent(separator))).join(separator);
};

/** The text of a value in a cell; nested values are JSON. */
export const formatCell = (value: unknown): string => (value === null || value === undefined ? "" : formatText(value));

/** Whether the values of a property are aligned as numbers. */
export const isNumeric = (catalog: Catalog, property: Property): boolean => {
  const { name, isList } = parseType(property.type);
  return !isList && (scalarKind(catalog, name) === "number" || name === "BigInt" || name === "Decimal");
};

const COUNT = new Intl.NumberFormat("en-US");

export const count = (value: number): string => COUNT.format(value);

export const plural = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** Capacity units with at most three digits after the point. */
export const units = (value: number): string => plural(Math.round(value * 1000) / 1000, "unit");
