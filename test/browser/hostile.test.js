// Whatever anybody writes into any field is shown as text or refused, and breaks no page.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { start } from "../product.js";
import { desktop, phone, visitor, zoomed } from "./app.js";
import { crawl, kind, pages } from "./crawl.js";
import { inShape, listen, texts } from "./hostile.js";
import { asNew, launch } from "./person.js";

let product, browser, app, ada, repo;

before(async () => {
  product = await start();
  app = product.appUrl;
  browser = await launch();
  ada = await visitor(browser, app, "ada");
  await listen(ada);
  repo = (await read("/repos")).items[0].id;
});
after(async () => {
  await browser?.close();
  await product?.stop();
});

let position = "0"; // what was written is in what is read
async function ask(method, path, data) {
  const headers = { "X-Svc-Tenant": "acme", ...(method === "GET" && { "X-Svc-Min-Position": position }) };
  const answer = await ada.context.request.fetch(product.restUrl + "/api/v1" + path, { method, data, headers });
  position = answer.headers()["x-svc-position"] ?? position;
  return answer;
}
const read = (path) => made("GET", path);
const made = async (method, path, data) => {
  const answer = await ask(method, path, data);
  assert.ok(answer.ok(), `${method} ${path}: ${await answer.text()}`);
  return answer.json();
};

const job = (more) => ({ name: "x", steps: [{ run: "true" }], requires: { labels: ["gpu=none"] }, ...more }); // waits for ever
const everything = "markup turned unseen blank lines long";
const named = "turned unseen blank lines long"; // by names, which have nothing that is not seen

/**
 * fields are those that the API's description has: what a request is with a text in it,
 * the texts that are refused beside nul and broken, which all refuse, and how many characters
 * it takes, which are tried as well.
 */
const fields = {
  "POST /backlog/queue title": { body: (t) => ({ repoId: repo, title: t }), refuses: "blank long", most: 200 },
  "POST /backlog/queue body": { body: (t) => ({ repoId: repo, title: "x", body: t }), refuses: "" },
  "POST /farm/enrollments name": { body: (t) => ({ name: t }), refuses: everything },
  "POST /farm/enrollments labels[]": { body: (t) => ({ name: "n", labels: ["a=" + t] }), refuses: everything },
  "POST /farm/enrollments exclusiveLabels[]": { body: (t) => ({ name: "n", exclusiveLabels: ["a=" + t] }), refuses: everything },
  "POST /farm/jobs name": { body: (t) => job({ name: t }), refuses: named, most: 100 },
  "POST /farm/jobs steps[].name": { body: (t) => job({ steps: [{ name: t, run: "true" }] }), refuses: named, most: 100 },
  "POST /farm/jobs steps[].run": { body: (t) => job({ steps: [{ run: t }] }), refuses: "" },
  "POST /farm/jobs steps[].env{}": { body: (t) => job({ steps: [{ run: "true", env: { A: t } }] }), refuses: "" },
  "POST /farm/jobs requires.labels[]": { body: (t) => job({ requires: { labels: ["a=" + t] } }), refuses: everything },
  "POST /farm/jobs requires.anyOf[][]": { body: (t) => job({ requires: { anyOf: [["a=" + t]] } }), refuses: everything },
  "POST /farm/jobs repo.name": { body: (t) => job({ repo: { name: t } }), refuses: everything },
  "POST /farm/jobs repo.ref": { body: (t) => job({ repo: { id: repo, ref: t } }), refuses: everything },
  "POST /farm/jobs repo.commit": { body: (t) => job({ repo: { id: repo, commit: t } }), refuses: everything },
  "POST /farm/jobs artifacts[].name": { body: (t) => job({ artifacts: [{ name: t, paths: ["a"] }] }), refuses: everything },
  "POST /farm/jobs artifacts[].paths[]": { body: (t) => job({ artifacts: [{ name: "a", paths: [t] }] }), refuses: "lines long" },
  "POST /farm/jobs secrets[]": { body: (t) => job({ secrets: [t] }), refuses: everything },
  "POST /farm/jobs concurrency.key": { body: (t) => job({ concurrency: { key: t } }), refuses: "long", most: 200 },
  "POST /farm/jobs annotations{}": { body: (t) => job({ annotations: { note: t } }), refuses: "long", most: 500 },
  "POST /farm/jobs idempotencyKey": { body: (t) => job({ idempotencyKey: t }), refuses: "long", most: 190 },
  "POST /farm/jobs reason": { id: () => made("POST", "/farm/jobs", job()).then((j) => j.job.id), body: (t, id) => ({ action: "cancel", jobId: id, reason: t }), refuses: "long" },
  "POST /farm/runners/{id}/drain note": { id: () => runner(), body: (t) => ({ note: t }), refuses: "long", most: 500 },
  "POST /farm/runners/{id}/revoke note": { id: () => runner(), body: (t) => ({ note: t }), refuses: "long", only: "refused" }, // it ends the runner
  "PUT /farm/secrets/{name} value": { id: () => "HOSTILE", body: (t) => ({ value: t }), refuses: "" },
  "POST /inbox/{id}/answer expectedHead": { id: () => decision(true), body: (t, id) => ({ ...heads.get(id), expectedHead: t }), refuses: everything },
  "POST /inbox/{id}/answer note": { id: () => decision(), body: (t, id) => ({ ...heads.get(id), note: t }), refuses: "long" },
  "POST /invitations email": { body: (t) => ({ email: t, role: "Viewer" }), refuses: everything },
  "POST /runs/{id}/cancel reason": { id: () => made("POST", "/backlog/queue", { repoId: repo, title: "to be cancelled" }).then((run) => run.id), body: (t) => ({ reason: t }), refuses: "long", most: 1000 },
  "POST /service-accounts name": { body: (t) => ({ name: t, scopes: ["api.read"] }), refuses: everything },
  "PATCH /workspace name": { body: (t) => ({ name: t }), refuses: named, most: 100 },
  "PATCH /workspace slug": { body: (t) => ({ slug: t }), refuses: everything },
};
const runner = async () => (await read("/farm/runners")).items[0].id;
const heads = new Map(), declines = ["request_changes", "reject", "deny"];
/** decision is one that waits: of those there are four, and two are for the forms. */
const decision = async (ofHead) => {
  const { items } = await read("/inbox");
  const one = items.length > 2 && items.find((item) => !ofHead || item.subject.headSha);
  if (one) heads.set(one.id, { action: one.actions.find((a) => declines.includes(a.id)).id, note: "Please.", ...(one.subject.headSha && { expectedHead: one.subject.headSha }) });
  return one?.id;
};

test("the look at pages finds what it looks for", async () => {
  await ada.open("/w/acme/farm");
  await ada.page.evaluate(() => {
    const [head, late, high] = ["h2", "p", "p"].map((name) => document.querySelector("main").appendChild(document.createElement(name)));
    head.textContent = "a\u202eb zzz and what the page says";
    late.append("a\u202eb ", Object.assign(document.createElement("b"), { textContent: "Said by the page" }));
    high.dataset.row = "";
    high.style.height = "999px";
    high.style.width = "2000px";
  });
  await assert.rejects(inShape(ada.page, "", tallest.desktop), (e) => /backwards: a/.test(e.message) && /backwards: Said/.test(e.message) && /too wide/.test(e.message) && /999 pixels high/.test(e.message));
});

test("every text that the API takes is in the table", async () => {
  const description = JSON.parse(execFileSync(fileURLToPath(new URL("../../bin/svc-rest", import.meta.url)), ["-openapi"], { maxBuffer: 1 << 24 }));
  const found = new Set();
  const walk = (schema, at, name) => {
    while (schema.$ref) schema = description.components.schemas[schema.$ref.split("/").at(-1)];
    for (const [field, of] of Object.entries(schema.properties ?? {})) walk(of, at, name ? `${name}.${field}` : field);
    if (schema.additionalProperties?.type) walk(schema.additionalProperties, at, name + "{}");
    if (schema.items) walk(schema.items, at, name + "[]");
    const plain = [schema.type].flat().includes("string") && !schema.enum && !["uuid", "date-time"].includes(schema.format);
    if (plain) found.add(`${at} ${name}`);
  };
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, { requestBody }] of Object.entries(methods)) {
      const schema = requestBody?.content["application/json"]?.schema;
      if (schema) walk(schema, `${method.toUpperCase()} ${path.replace("/api/v1", "")}`, "");
    }
  }
  assert.deepEqual([...found].sort(), Object.keys(fields).sort());
});

test("what the API is sent is kept as text, or refused with the field's name", async () => {
  for (const [key, field] of Object.entries(fields)) {
    const [, method, path, name] = key.match(/^(\S+) (\S+) (\S+)$/);
    const refused = ["nul", "broken", ...field.refuses.split(" ")];
    for (const [kind, text] of [...Object.entries(texts), ["widest", field.most && "W".repeat(field.most)]]) {
      if (!text || field.only === "refused" && !refused.includes(kind)) continue;
      const id = field.id && await field.id();
      if (field.id && !id) continue; // there is no more of it
      const answer = await ask(method, path.replace(/\{\w+\}/, id), field.body(text, id));
      const said = await answer.text();
      if (!refused.includes(kind)) {
        assert.ok(answer.ok(), `${key}, ${kind}: ${said}`);
        continue;
      }
      assert.ok([409, 422].includes(answer.status()), `${key}, ${kind}: ${answer.status()} ${said}`);
      const { code, details } = JSON.parse(said);
      if (answer.status() === 422) {
        assert.equal(code, "validation_failed", key);
        const first = name.split(/[.[{]/)[0];
        assert.ok(Object.keys(details).some((at) => at === "body" || at.split(".")[0] === first), `${key}, ${kind}: ${said}`);
      }
    }
  }
  await made("PATCH", "/workspace", { name: texts.markup });
  await made("POST", `/farm/runners/${await runner()}/resume`);
});

test("somebody of the code host with any name is a member like others", async () => {
  await made("POST", "/invitations", { email: "eve@example.com", role: "Maintainer" });
  const eve = await visitor(browser, app);
  await listen(eve);
  await eve.page.goto(app + "/account");
  await eve.page.click("text=Continue with GitHub");
  await asNew(`${texts.markup} ${"W".repeat(30)}`, "eve@example.com")(eve.page);
  await eve.page.waitForURL(app + "/account");
  eve.complaints.length = 0; // of the code host's pages
  await inShape(eve.page, "account", tallest.desktop);
  await eve.page.getByRole("button", { name: /^Accept/ }).click();
  await eve.page.waitForURL(app + "/w/acme/dashboard");
  await eve.page.goto(app + "/w");
  await inShape(eve.page, "workspaces", tallest.desktop);
  await ada.open("/w/acme/members");
  const row = ada.page.locator(".person-row", { hasText: "eve@example.com" });
  await row.getByText("<script>").first().waitFor();
  await row.locator("select").first().selectOption("Viewer");
  await ada.page.locator("dialog[open]").getByText("<script>").first().waitFor();
  await inShape(ada.page, "a question with a name in it", tallest.desktop);
  await ada.page.getByRole("button", { name: "Cancel" }).last().click();
  assert.deepEqual([...ada.complaints, ...eve.complaints], []);
});

const log = [
  "printf '%s\\n' \"$TEXT\"",
  "printf '\\033[31mred\\033[5;9999m \\033[2J\\033[H\\033]0;title\\a\\033]8;;javascript:ran=1\\alink\\033]8;;\\a\\n'",
  "printf '\\377\\376\\355\\240\\200 \\342\\200\\256turned\\000\\r\\n'",
  "head -c 10000 /dev/zero | tr '\\0' W; echo",
  "mkdir -p \"out/<img src=x onerror=ran=1>\"; touch \"out/<img src=x onerror=ran=1>/$(head -c 200 /dev/zero | tr '\\0' W)\"; touch \"out/$(printf 'a\\342\\200\\256b')\"",
].join("\n");
let done;

test("a job prints and makes whatever it likes", async () => {
  const { job: { id } } = await made("POST", "/farm/jobs", {
    name: texts.markup.slice(0, 100), sandbox: { kind: "none" }, // not every machine has bubblewrap
    steps: [{ name: "W".repeat(100), run: log, env: { TEXT: texts.markup } }, { name: texts.markup.slice(0, 100), run: "exit 3" }],
    artifacts: [{ name: "w".repeat(100), paths: ["out/**"], when: "always" }], annotations: { note: "W".repeat(500) },
  });
  done = `/w/acme/farm/jobs/${id}`;
  await ada.open(done);
  await ada.page.locator("h1 .pill", { hasText: "Failed" }).waitFor({ timeout: 30_000 });
  const lines = ada.page.locator(".lines");
  await lines.getByText("<script>").first().waitFor();
  await lines.locator(".red", { hasText: "red" }).waitFor();
  assert.equal(await lines.locator("a[href^=javascript]").count(), 0);
  await ada.page.getByText("out/<img src=x").first().waitFor();
  assert.deepEqual(ada.complaints, []);
});

// What only a raw request can send: bytes that are no text, and a form that is too large.
const raw = { ...Object.fromEntries(["blank", "lines", "long"].map((name) => [name, encodeURIComponent(texts[name])])), nul: "a%00b", bytes: "a%ff%fe%ed%a0%80b", flood: "W".repeat(70_000) };

/** send has a form of the page go with a text in a field, as a browser without scripts and checks would. */
const send = (page, { action, method, name }, text) => Promise.all([page.waitForEvent("load"), page.evaluate(({ action, method, name, text }) => {
  const form = [...document.forms].find((f) => f.getAttribute("action") === action && f.method === method && f.elements[name]);
  const field = [form.elements[name]].flat()[0];
  if (field.options) field.add(new Option(text, text, true, true));
  else field.type = "hidden";
  field.value = text;
  HTMLFormElement.prototype.submit.call(form);
}, { action, method, name, text })]);

test("what is written into any field of any form is shown as text or refused", async () => {
  const tried = new Set(), wrong = [];
  const { page } = ada;
  const fill = async (path) => {
    const all = await page.evaluate(() => [...document.forms].flatMap((form) => [...form.elements].filter((field) => field.name && !["checkbox", "submit"].includes(field.type)).map((field) => (
      { action: form.getAttribute("action"), method: form.method, name: field.name, with: Object.fromEntries(new FormData(form)) }))));
    for (const field of all) {
      const key = `${field.method} ${kind(field.action).split("?")[0]} ${field.name}`;
      if (tried.has(key)) continue;
      tried.add(key);
      for (const [name, text] of Object.entries(raw)) {
        const query = Object.entries({ ...field.with, [field.name]: "" }).filter(([name]) => name !== field.name).map(([name, value]) => `${name}=${encodeURIComponent(value)}&`).join("") + `${field.name}=${text}`;
        const answer = field.method === "get" ? await ada.context.request.get(app + field.action.split("?")[0] + "?" + query.slice(0, 8_000))
          : await ada.context.request.post(app + field.action, { data: query, headers: { Origin: app, "Content-Type": "application/x-www-form-urlencoded" } });
        if (answer.status() >= 500) wrong.push(`${key}, ${name}: ${answer.status()}`);
      }
      if (/export/.test(field.action)) continue; // a file
      await page.goto(app + path);
      if (!await page.evaluate(({ action }) => [...document.forms].some((form) => form.getAttribute("action") === action), field)) continue; // answered
      await send(page, field, texts.markup + texts.turned);
      await inShape(page, key, tallest.desktop).catch((e) => wrong.push(e.message.slice(0, 800)));
    }
  };
  await crawl(ada, app, pages, fill);
  await page.goto(app + "/sign-in");
  await fill("/sign-in");
  assert.equal(wrong.length, 0, wrong.join("\n"));
  assert.ok(tried.size > 25, `${tried.size} fields`);
  assert.deepEqual(ada.complaints, []);
  await made("POST", `/farm/runners/${await runner()}/resume`);
});

// A row is never higher than this.
const tallest = { desktop: 520, zoomed: 520, phone: 640 };

test("every page stays in shape with all of it", async () => {
  const wrong = [];
  await crawl(ada, app, [...pages, done], async (path, kind) => {
    await ada.page.locator("main details > summary").evaluateAll((list) => list.slice(0, 20).forEach((summary) => summary.click()));
    await ada.page.waitForFunction(() => !document.querySelector(".htmx-request"));
    for (const [size, viewport] of [["phone", phone], ["zoomed", zoomed], ["desktop", desktop]]) {
      await ada.page.setViewportSize(viewport);
      await inShape(ada.page, `${kind} at ${viewport.width}`, tallest[size]).catch((e) => wrong.push(e.message.slice(0, 800)));
    }
  });
  assert.equal(wrong.length, 0, wrong.join("\n"));
  assert.deepEqual(ada.complaints, []);
});
