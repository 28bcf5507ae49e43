import { API, byId, el, fetchJson, notice } from "./common.js";

function shape(content, schemas) {
  const [kind, { schema }] = Object.entries(content)[0];
  if (!schema.$ref) return [el("p", {}, "Answers ", el("code", {}, kind), ".")];
  const name = schema.$ref.split("/").at(-1);
  const rows = Object.entries(schemas[name].properties ?? {}).map(([field, { description, type, anyOf, $ref }]) => {
    const known = $ref ?? anyOf?.map((one) => one.type ?? one.$ref).join(" or ") ?? type ?? "";
    return el("li", {}, el("code", {}, field), " ", el("span", { class: "dim" }, String(known).replaceAll("#/components/schemas/", "")), description ? ` ${description}` : "");
  });
  return [el("p", {}, "Answers ", el("strong", {}, name), ":"), el("ul", {}, rows)];
}

try {
  const { paths, components } = await fetchJson(`${API}/openapi.json`);
  notice("");
  byId("operations").append(...Object.entries(paths).flatMap(([where, methods]) => Object.entries(methods).map(([method, operation]) =>
    el("details", { class: "panel operation" },
      el("summary", {}, el("code", {}, `${method.toUpperCase()} ${where}`), ` ${operation.summary}`),
      operation.parameters.length ? el("ul", {}, operation.parameters.map(({ name, in: place, description }) => el("li", {}, el("code", {}, name), ` (${place}) ${description ?? ""}`))) : null,
      ...shape(operation.responses["200"].content, components.schemas)))));
} catch (error) {
  notice(error.message, true);
}
