// GraphQL type texts such as `[UUID!]!`.

export interface TypeText {
  /** The named type. */
  name: string;
  isList: boolean;
  isRequired: boolean;
}

export const parseType = (text: string): TypeText => ({
  name: text.replace(/[[\]!]/g, ""),
  isList: text.startsWith("["),
  isRequired: text.endsWith("!"),
});

/** The same type without the outer exclamation mark. */
export const optional = (text: string): string => text.replace(/!$/, "");
