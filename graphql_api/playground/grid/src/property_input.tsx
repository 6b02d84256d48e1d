// The input of one property, with its description and its violation.

import type { JSX } from "preact";

import type { InputField, Property } from "./catalog";
import { useSession } from "./session";
import { optional, parseType } from "./type_names";
import { editorOf, enumValues } from "./values";

interface Props {
  name: string;
  field: InputField;
  property: Property | undefined;
  isNew: boolean;
  /** null: no value. */
  text: string | null;
  violation: string | null;
  onChange: (text: string | null) => void;
}

export const PropertyInput = ({ name, field, property, isNew, text, violation, onChange }: Props): JSX.Element => {
  const { catalog } = useSession();
  const editor = editorOf(catalog, field.type);
  const isNullable = property === undefined ? !field.required : !property.type.endsWith("!");
  const id = `input-${name}`;
  const hint = [property?.description ?? "", field.description?.replaceAll("`", "") ?? "", isNew && !field.required ? "Optional." : ""].filter((one, at, all) => one !== "" && all.indexOf(one) === at).join(" ");
  const shared = {
    id,
    "aria-describedby": `${id}-hint`,
    "aria-invalid": violation !== null,
    "aria-required": field.required,
  };
  const choices = editor === "boolean" ? ["true", "false"] : enumValues(catalog, field.type);
  const write = (changed: string): void => onChange(changed);
  const isLong = editor === "json" || (text ?? "").length > 60;
  return (
    <div class={`field ${violation === null ? "" : "invalid"}`}>
      <label for={id}>
        {name} <small>{parseType(optional(field.type)).isList ? optional(field.type) : parseType(field.type).name}</small>
      </label>
      {choices.length > 0 && editor !== "json" ? (
        <select {...shared} value={text ?? ""} onChange={(event) => write(event.currentTarget.value)}>
          <option value="" disabled={field.required}>
            {text === null ? "no value" : ""}
          </option>
          {choices.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      ) : isLong ? (
        <textarea {...shared} rows={3} value={text ?? ""} onInput={(event) => write(event.currentTarget.value)} />
      ) : (
        <input
          {...shared}
          type="text"
          autocomplete="off"
          inputMode={editor === "number" ? "decimal" : "text"}
          placeholder={text === null ? "no value" : ""}
          value={text ?? ""}
          onInput={(event) => write(event.currentTarget.value)}
        />
      )}
      {isNullable && !isNew && (
        <label class="check">
          <input type="checkbox" checked={text === null} onChange={(event) => onChange(event.currentTarget.checked ? null : "")} />
          no value
        </label>
      )}
      <p class="hint" id={`${id}-hint`}>
        {violation !== null && <strong class="violation">{violation} </strong>}
        {hint}
      </p>
    </div>
  );
};
