// Hostile text in any field is shown as text or refused, and breaks no page.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { start } from "../product.js";
import { desktop, phone, visitor, zoomed } from "./app.js";
import { crawl, pages, pathPattern } from "./crawl.js";
import { checkLayout, recordViolations, texts } from "./hostile.js";
import { createLogin, launch } from "./person.js";

let product, browser, app, ada, repo;

before(async () => {
  product = await start();
  app = product.appUrl;
  browser = await launch();
  ada = await visitor(browser, app, "ada");
  await recordViolations(ada);
  repo = (await read("/repos")).items[0].id;
});
after(async () => {
  await browser?.close();
  await product?.stop();
});

let position = "0"; // of the last write; reads wait for it
async function ask(method, path, data) {
  const headers = { "X-Svc-Tenant": "acme", ...(method === "GET" && { "X-Svc-Min-Position": position }) };
  const answer = await ada.context.request.fetch(product.restUrl + "/api/v1" + path, { method, data, headers });
  position = answer.headers()["x-svc-position"] ?? position;
  return answer;
}
const read = (path) => request("GET", path);
/** request sends a request that must be accepted, and returns its JSON. */
const request = async (method, path, data) => {
  const answer = await ask(method, path, data);
  assert.ok(answer.ok(), `${method} ${path}: ${await answer.text()}`);
  return answer.json();
};

const job = (more) => ({ name: "x", steps: [{ run: "true" }], requires: { labels: ["gpu=none"] }, ...more }); // no runner matches, so it stays queued
// What identifiers refuse, and what names refuse, in which every character must be visible.
const allTexts = "markup bidi invisible blank lines long";
const notInNames = "bidi invisible blank lines long";

const connect = (more) => ({ url: "https://code.example/acme/site", credential: "x", ...more });
const connected = async () => (await read("/repos")).items.find((r) => r.status === "active" || r.status === "paused").id;
const requiredJob = (more) => ({ requiredJobs: [{ name: "x", steps: [{ name: "x", run: "true" }], ...more }] });

/** settingsFields are the text fields of a repository's settings, which body puts into a request. */
const settingsFields = (key, id, body, only) => Object.fromEntries(Object.entries({
  "branch": [(t) => ({ branch: t }), allTexts],
  "implementer.run": [(t) => ({ implementer: { kind: "command", run: t } }), ""],
  "implementer.labels[]": [(t) => ({ implementer: { kind: "command", run: "true", labels: ["a=" + t] } }), allTexts],
  "implementer.secrets[]": [(t) => ({ implementer: { kind: "command", run: "true", secrets: [t] } }), allTexts],
  "label": [(t) => ({ label: t }), "bidi invisible blank lines long"],
  "protectedPaths[]": [(t) => ({ protectedPaths: [t] }), "lines long"],
  "requiredJobs[].name": [(t) => requiredJob({ name: t }), notInNames],
  "requiredJobs[].labels[]": [(t) => requiredJob({ labels: ["a=" + t] }), allTexts],
  "requiredJobs[].secrets[]": [(t) => requiredJob({ secrets: [t] }), allTexts],
  "requiredJobs[].steps[].name": [(t) => requiredJob({ steps: [{ name: t, run: "true" }] }), notInNames],
  "requiredJobs[].steps[].run": [(t) => requiredJob({ steps: [{ name: "x", run: t }] }), ""],
  "requiredJobs[].steps[].env{}": [(t) => requiredJob({ steps: [{ name: "x", run: "true", env: { A: t } }] }), ""],
}).map(([name, [make, refuses]]) => [key + name, { id, body: (t) => body(make(t)), refuses, only }]));

/**
 * fields are the text fields in the OpenAPI document. body returns the request's body with a text in the field, and id
 * the id in its path. refuses lists the texts that are refused besides nul and surrogate, which every field refuses.
 * maxLength is the number of characters accepted, which is tried too. only: "refused" skips texts that are accepted.
 */
const fields = {
  "POST /backlog/queue title": { body: (t) => ({ repoId: repo, title: t }), refuses: "blank long", maxLength: 200 },
  "POST /backlog/queue body": { body: (t) => ({ repoId: repo, title: "x", body: t }), refuses: "" },
  "POST /farm/enrollments name": { body: (t) => ({ name: t }), refuses: allTexts },
  "POST /farm/enrollments labels[]": { body: (t) => ({ name: "n", labels: ["a=" + t] }), refuses: allTexts },
  "POST /farm/enrollments exclusiveLabels[]": { body: (t) => ({ name: "n", exclusiveLabels: ["a=" + t] }), refuses: allTexts },
  "POST /farm/jobs name": { body: (t) => job({ name: t }), refuses: notInNames, maxLength: 100 },
  "POST /farm/jobs steps[].name": { body: (t) => job({ steps: [{ name: t, run: "true" }] }), refuses: notInNames, maxLength: 100 },
  "POST /farm/jobs steps[].run": { body: (t) => job({ steps: [{ run: t }] }), refuses: "" },
  "POST /farm/jobs steps[].env{}": { body: (t) => job({ steps: [{ run: "true", env: { A: t } }] }), refuses: "" },
  "POST /farm/jobs requires.labels[]": { body: (t) => job({ requires: { labels: ["a=" + t] } }), refuses: allTexts },
  "POST /farm/jobs requires.anyOf[][]": { body: (t) => job({ requires: { anyOf: [["a=" + t]] } }), refuses: allTexts },
  "POST /farm/jobs repo.name": { body: (t) => job({ repo: { name: t } }), refuses: allTexts },
  "POST /farm/jobs repo.ref": { body: (t) => job({ repo: { id: repo, ref: t } }), refuses: allTexts },
  "POST /farm/jobs repo.commit": { body: (t) => job({ repo: { id: repo, commit: t } }), refuses: allTexts },
  "POST /farm/jobs artifacts[].name": { body: (t) => job({ artifacts: [{ name: t, paths: ["a"] }] }), refuses: allTexts },
  "POST /farm/jobs artifacts[].paths[]": { body: (t) => job({ artifacts: [{ name: "a", paths: [t] }] }), refuses: "lines long" },
  "POST /farm/jobs secrets[]": { body: (t) => job({ secrets: [t] }), refuses: allTexts },
  "POST /farm/jobs concurrency.key": { body: (t) => job({ concurrency: { key: t } }), refuses: "long", maxLength: 200 },
  "POST /farm/jobs annotations{}": { body: (t) => job({ annotations: { note: t } }), refuses: "long", maxLength: 500 },
  "POST /farm/jobs idempotencyKey": { body: (t) => job({ idempotencyKey: t }), refuses: "long", maxLength: 190 },
  "POST /farm/jobs reason": { id: () => request("POST", "/farm/jobs", job()).then((j) => j.job.id), body: (t, id) => ({ action: "cancel", jobId: id, reason: t }), refuses: "long" },
  "POST /farm/runners/{id}/drain note": { id: () => runner(), body: (t) => ({ note: t }), refuses: "long", maxLength: 500 },
  "POST /farm/runners/{id}/revoke note": { id: () => runner(), body: (t) => ({ note: t }), refuses: "long", only: "refused" }, // accepting one would revoke the runner
  "PUT /farm/secrets/{name} scope.jobs[]": { id: () => "HOSTILE", body: (t) => ({ value: "v", scope: { jobs: [t] } }), refuses: notInNames },
  "PUT /farm/secrets/{name} scope.repos[]": { id: () => "HOSTILE", body: (t) => ({ value: "v", scope: { repos: [t] } }), refuses: allTexts },
  "PUT /farm/secrets/{name} scope.labels[]": { id: () => "HOSTILE", body: (t) => ({ value: "v", scope: { labels: ["a=" + t] } }), refuses: allTexts },
  "PUT /farm/secrets/{name} value": { id: () => "HOSTILE", body: (t) => ({ value: t }), refuses: "" },
  "POST /inbox/{id}/answer expectedHead": { id: () => decision(true), body: (t, id) => ({ ...answers.get(id), expectedHead: t }), refuses: allTexts },
  "POST /inbox/{id}/answer note": { id: () => decision(), body: (t, id) => ({ ...answers.get(id), note: t }), refuses: "long" },
  "POST /invitations email": { body: (t) => ({ email: t, role: "Viewer" }), refuses: allTexts },
  "POST /repos name": { body: (t) => connect({ name: t }), refuses: allTexts },
  "POST /repos url": { body: (t) => connect({ url: "https://code.example/acme/" + t }), refuses: allTexts },
  "POST /repos credential": { body: (t) => connect({ credential: t }), refuses: "bidi lines long", only: "refused" }, // others would be tried at the host
  "POST /repos readCredential": { body: (t) => connect({ readCredential: t }), refuses: "bidi lines long", only: "refused" },
  ...settingsFields("POST /repos settings.", undefined, (settings) => connect({ settings }), "refused"),
  ...settingsFields("PATCH /repos/{id} ", () => connected(), (settings) => settings),
  "POST /repos/{id}/credential credential": { id: () => connected(), body: (t) => ({ which: "write", credential: t }), refuses: "bidi lines long", only: "refused" },
  "POST /repos/{id}/pause reason": { id: () => connected(), body: (t) => ({ reason: t }), refuses: "blank long" },
  "POST /runs/{id}/cancel reason": { id: () => request("POST", "/backlog/queue", { repoId: repo, title: "to be cancelled" }).then((run) => run.id), body: (t) => ({ reason: t }), refuses: "long", maxLength: 1000 },
  "POST /service-accounts name": { body: (t) => ({ name: t, scopes: ["api.read"] }), refuses: allTexts },
  "POST /workspace/delete name": { body: (t) => ({ name: t }), refuses: allTexts }, // compared with the workspace's name
  "PATCH /workspace name": { body: (t) => ({ name: t }), refuses: notInNames, maxLength: 100 },
  "PATCH /workspace slug": { body: (t) => ({ slug: t }), refuses: allTexts },
};
const runner = async () => (await read("/farm/runners")).items[0].id;
const answers = new Map(), declines = ["request_changes", "reject", "deny"];
/**
 * decision returns the id of an open decision, with a head commit if withHead is set, and stores a body that answers it
 * in answers. It returns undefined if only two are left of the four, which the test of forms needs.
 */
const decision = async (withHead) => {
  const { items } = await read("/inbox");
  const item = items.length > 2 && items.find((item) => !withHead || item.subject.headSha);
  if (item) answers.set(item.id, { action: item.actions.find((a) => declines.includes(a.id)).id, note: "Please.", ...(item.subject.headSha && { expectedHead: item.subject.headSha }) });
  return item?.id;
};

test("checkLayout finds each fault", async () => {
  await ada.open("/w/acme/farm");
  await ada.page.evaluate(() => {
    const [heading, bidi, high] = ["h2", "p", "p"].map((name) => document.querySelector("main").appendChild(document.createElement(name)));
    heading.textContent = "a\u202eb zzz and text of the page";
    bidi.append("a\u202eb ", Object.assign(document.createElement("b"), { textContent: "Text of the page" }));
    high.dataset.row = "";
    high.style.height = "999px";
    high.style.width = "2000px";
  });
  await assert.rejects(checkLayout(ada.page, "", maxHeight.desktop), (e) => /backwards: a/.test(e.message) && /backwards: Text/.test(e.message) && /too wide/.test(e.message) && /999 pixels high/.test(e.message));
});

test("every text field of the API is in the table", async () => {
  const description = JSON.parse(execFileSync(fileURLToPath(new URL("../../bin/svc-rest", import.meta.url)), ["-openapi"], { maxBuffer: 1 << 24 }));
  const found = new Set();
  const walk = (schema, route, name) => {
    while (schema.$ref) schema = description.components.schemas[schema.$ref.split("/").at(-1)];
    for (const [field, property] of Object.entries(schema.properties ?? {})) walk(property, route, name ? `${name}.${field}` : field);
    if (schema.additionalProperties?.type) walk(schema.additionalProperties, route, name + "{}");
    if (schema.items) walk(schema.items, route, name + "[]");
    const isText = [schema.type].flat().includes("string") && !schema.enum && !["uuid", "date-time"].includes(schema.format);
    if (isText) found.add(`${route} ${name}`);
  };
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, { requestBody }] of Object.entries(methods)) {
      const schema = requestBody?.content["application/json"]?.schema;
      if (schema) walk(schema, `${method.toUpperCase()} ${path.replace("/api/v1", "")}`, "");
    }
  }
  assert.deepEqual([...found].sort(), Object.keys(fields).sort());
});

test("the API stores hostile text unchanged, or refuses it and names the field", async () => {
  for (const [key, field] of Object.entries(fields)) {
    const [, method, path, name] = key.match(/^(\S+) (\S+) (\S+)$/);
    const refused = ["nul", "surrogate", ...field.refuses.split(" ")];
    for (const [kind, text] of [...Object.entries(texts), ["widest", field.maxLength && "W".repeat(field.maxLength)]]) {
      if (!text || field.only === "refused" && !refused.includes(kind)) continue;
      const id = field.id && await field.id();
      if (field.id && !id) continue; // none is left to try it on
      const answer = await ask(method, path.replace(/\{\w+\}/, id), field.body(text, id));
      const responseText = await answer.text();
      if (!refused.includes(kind)) {
        assert.ok(answer.ok(), `${key}, ${kind}: ${responseText}`);
        continue;
      }
      assert.ok([409, 422].includes(answer.status()), `${key}, ${kind}: ${answer.status()} ${responseText}`);
      const { code, details } = JSON.parse(responseText);
      if (answer.status() === 422) {
        assert.equal(code, "validation_failed", key);
        const topField = name.split(/[.[{]/)[0];
        assert.ok(Object.keys(details).some((path) => path === "body" || path.split(".")[0] === topField), `${key}, ${kind}: ${responseText}`);
      }
    }
  }
  await request("PATCH", "/workspace", { name: texts.markup });
  await request("POST", `/farm/runners/${await runner()}/resume`);
});

test("a hostile name from the code host is shown as text", async () => {
  await request("POST", "/invitations", { email: "eve@example.com", role: "Maintainer" });
  const eve = await visitor(browser, app);
  await recordViolations(eve);
  await eve.page.goto(app + "/account");
  await eve.page.click("text=Continue with GitHub");
  await createLogin(`${texts.markup} ${"W".repeat(30)}`, "eve@example.com")(eve.page);
  await eve.page.waitForURL(app + "/account");
  eve.problems.length = 0; // reported by the code host's pages
  await checkLayout(eve.page, "account", maxHeight.desktop);
  await eve.page.getByRole("button", { name: /^Accept/ }).click();
  await eve.page.waitForURL(app + "/w/acme/dashboard");
  await eve.page.goto(app + "/w");
  await checkLayout(eve.page, "workspaces", maxHeight.desktop);
  await ada.open("/w/acme/members");
  const row = ada.page.locator(".person-row", { hasText: "eve@example.com" });
  await row.getByText("<script>").first().waitFor();
  await row.locator(".role summary").click();
  await row.getByRole("button", { name: "Viewer", exact: true }).click();
  await ada.page.locator("dialog[open]").getByText("<script>").first().waitFor();
  await checkLayout(ada.page, "a confirmation with the name", maxHeight.desktop);
  await ada.page.locator("dialog[open] [data-close]").click();
  assert.deepEqual([...ada.problems, ...eve.problems], []);
});

// script prints hostile output and creates files with hostile names.
const script = [
  "printf '%s\\n' \"$TEXT\"",
  "printf '\\033[31mred\\033[5;9999m \\033[2J\\033[H\\033]0;title\\a\\033]8;;javascript:ran=1\\alink\\033]8;;\\a\\n'",
  "printf '\\377\\376\\355\\240\\200 \\342\\200\\256turned\\000\\r\\n'",
  "head -c 10000 /dev/zero | tr '\\0' W; echo",
  "mkdir -p \"out/<img src=x onerror=ran=1>\"; touch \"out/<img src=x onerror=ran=1>/$(head -c 200 /dev/zero | tr '\\0' W)\"; touch \"out/$(printf 'a\\342\\200\\256b')\"",
].join("\n");
let jobPath; // of the job below

test("hostile output and files of a job are shown as text", async () => {
  const { job: { id } } = await request("POST", "/farm/jobs", {
    name: texts.markup.slice(0, 100), sandbox: { kind: "none" }, // not every machine has bubblewrap
    steps: [{ name: "W".repeat(100), run: script, env: { TEXT: texts.markup } }, { name: texts.markup.slice(0, 100), run: "exit 3" }],
    artifacts: [{ name: "w".repeat(100), paths: ["out/**"], when: "always" }], annotations: { note: "W".repeat(500) },
  });
  jobPath = `/w/acme/farm/jobs/${id}`;
  await ada.open(jobPath);
  await ada.page.locator("h1 .pill", { hasText: "Failed" }).waitFor({ timeout: 30_000 });
  const lines = ada.page.locator(".lines");
  await lines.getByText("<script>").first().waitFor();
  await lines.locator(".red", { hasText: "red" }).waitFor();
  assert.equal(await lines.locator("a[href^=javascript]").count(), 0);
  await lines.getByText('artifact left out: "out/<img src=x').first().waitFor();
  await ada.page.locator(".left-out").getByText(/^out\/<img src=x.*some system cannot store its path/).first().waitFor();
  assert.deepEqual(ada.problems, []);
});

// rawTexts are percent-encoded, and contain invalid UTF-8 and a value too large for a form, which browsers do not send.
const rawTexts = { ...Object.fromEntries(["blank", "lines", "long"].map((name) => [name, encodeURIComponent(texts[name])])), nul: "a%00b", bytes: "a%ff%fe%ed%a0%80b", tooLarge: "W".repeat(70_000) };

/** submitForm submits a form of the page with a text in a field, without the page's scripts and validation. */
const submitForm = (page, { action, method, name }, text) => Promise.all([page.waitForEvent("load"), page.evaluate(({ action, method, name, text }) => {
  const form = [...document.forms].find((f) => f.getAttribute("action") === action && f.method === method && f.elements[name]);
  const field = [form.elements[name]].flat()[0];
  if (field.options) field.add(new Option(text, text, true, true));
  else field.type = "hidden";
  field.value = text;
  HTMLFormElement.prototype.submit.call(form);
}, { action, method, name, text })]);

test("hostile text in any field of any form is shown as text or refused", async () => {
  const tried = new Set(), faults = [];
  const { page } = ada;
  const tryForms = async (path) => {
    const fields = await page.evaluate(() => [...document.forms].flatMap((form) => [...form.elements].filter((field) => field.name && !["checkbox", "submit"].includes(field.type)).map((field) => (
      { action: form.getAttribute("action"), method: form.method, name: field.name, values: Object.fromEntries(new FormData(form)) }))));
    for (const field of fields) {
      const key = `${field.method} ${pathPattern(field.action).split("?")[0]} ${field.name}`;
      if (tried.has(key)) continue;
      tried.add(key);
      for (const [name, text] of Object.entries(rawTexts)) {
        const query = Object.entries({ ...field.values, [field.name]: "" }).filter(([name]) => name !== field.name).map(([name, value]) => `${name}=${encodeURIComponent(value)}&`).join("") + `${field.name}=${text}`;
        const answer = field.method === "get" ? await ada.context.request.get(app + field.action.split("?")[0] + "?" + query.slice(0, 8_000))
          : await ada.context.request.post(app + field.action, { data: query, headers: { Origin: app, "Content-Type": "application/x-www-form-urlencoded" } });
        if (answer.status() >= 500) faults.push(`${key}, ${name}: ${answer.status()}`);
      }
      if (/export/.test(field.action)) continue; // downloads a file
      await page.goto(app + path);
      if (!await page.evaluate(({ action, method, name }) => [...document.forms].some((form) => form.getAttribute("action") === action && form.method === method && form.elements[name]), field)) continue; // gone, such as an answered decision
      await submitForm(page, field, texts.markup + texts.bidi);
      await checkLayout(page, key, maxHeight.desktop).catch((e) => faults.push(e.message.slice(0, 800)));
    }
  };
  await crawl(ada, app, pages, tryForms);
  await page.goto(app + "/sign-in");
  await tryForms("/sign-in");
  assert.equal(faults.length, 0, faults.join("\n"));
  assert.ok(tried.size > 25, `${tried.size} fields`);
  assert.deepEqual(ada.problems, []);
  await request("POST", `/farm/runners/${await runner()}/resume`);
});

// maxHeight is the maximum height of a row in pixels, by width of the window.
const maxHeight = { desktop: 520, zoomed: 520, phone: 640 };

test("every page keeps its layout with all these texts", async () => {
  const faults = [];
  await crawl(ada, app, [...pages, jobPath], async (path, pattern) => {
    await ada.page.locator("main details > summary").evaluateAll((list) => list.slice(0, 20).forEach((summary) => summary.click()));
    await ada.page.waitForFunction(() => !document.querySelector(".htmx-request"));
    for (const [size, viewport] of [["phone", phone], ["zoomed", zoomed], ["desktop", desktop]]) {
      await ada.page.setViewportSize(viewport);
      await checkLayout(ada.page, `${pattern} at ${viewport.width}`, maxHeight[size]).catch((e) => faults.push(e.message.slice(0, 800)));
    }
  });
  assert.equal(faults.length, 0, faults.join("\n"));
  assert.deepEqual(ada.problems, []);
});
