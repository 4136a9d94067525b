// A client that is made from the description alone, as its users make theirs:
// it has to compile, and to get the right answers from a running service.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

interface Dev {
  restUrl: string;
  people: { email: string; password: string; role: string; workspaceSlug: string }[];
  serviceAccounts: { name: string; token: string }[];
}

const dev: Dev = JSON.parse(readFileSync(process.argv[2]!, "utf8"));
const token = dev.serviceAccounts.find((a) => a.name === "reader")!.token;
const script = createClient<paths>({ baseUrl: dev.restUrl, headers: { Authorization: `Bearer ${token}` } });

const runs = await script.GET("/api/v1/runs", { params: { query: { status: "active", limit: 5 } } });
assert.equal(runs.response.status, 200);
assert.equal(runs.data!.items.length, 5);
const first = runs.data!.items[0]!;
const run = await script.GET("/api/v1/runs/{id}", { params: { path: { id: first.id } } });
assert.equal(run.data!.run.issueTitle, first.issueTitle);
assert.equal(run.data!.timeline.stages.length, 7);

const insights = await script.GET("/api/v1/insights", { params: { query: { range: "90d" } } });
assert.deepEqual(insights.data!.kpis.map((k) => k.unit), ["pct", "pct", "duration_ms", "cents", "count"]);
assert.ok(insights.data!.kpis.every((k) => k.series.length === 90));

const repos = await script.GET("/api/v1/repos");
const counted = await script.GET("/api/v1/runs", {
  params: { query: { status: "active", repo: repos.data!.items[0]!.id, counts: true } },
});
assert.equal(counted.data!.counts!.active, repos.data!.items[0]!.active);

const dashboard = await script.GET("/api/v1/dashboard");
const etag = dashboard.response.headers.get("ETag")!;
const again = await script.GET("/api/v1/dashboard", { params: { header: { "If-None-Match": etag } } });
assert.equal(again.response.status, 304);

const refused = await script.GET("/api/v1/members");
assert.equal(refused.error!.code, "service_principal_refused");
const wrong = await script.GET("/api/v1/runs", { params: { query: { status: "active", limit: 0 } } });
assert.deepEqual(Object.keys(wrong.error!.details), ["limit"]);

const owner = dev.people.find((p) => p.role === "Owner" && p.workspaceSlug === "acme")!;
const signedIn = await fetch(`${dev.restUrl}/api/auth/sign-in/email`, {
  method: "POST", headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ email: owner.email, password: owner.password }),
});
const cookie = signedIn.headers.get("Set-Cookie")!.split(";")[0]!;
const person = createClient<paths>({ baseUrl: dev.restUrl, headers: { Cookie: cookie, "X-Svc-Tenant": "acme" } });
const made = await person.POST("/api/v1/service-accounts", { body: { name: "made-by-a-client", scopes: ["api.read"] } });
assert.equal(made.response.status, 201);
assert.match(made.data!.token, /^tok_svc_/);
const revoked = await person.POST("/api/v1/service-accounts/{id}/revoke", { params: { path: { id: made.data!.account.id } } });
assert.equal(revoked.data!.status, "revoked");
const records = await person.GET("/api/v1/audit", { params: { query: { action: "service_account.*", limit: 1 } } });
assert.equal(records.data!.items.length, 1);

// The names to listen for, and what comes with them, are in the description.
type Said = components["schemas"]["StreamReady"] | components["schemas"]["StreamEvent"];
const awaited: Said["event"][] = ["ready", "run.queued", "run.stage_entered", "decision.raised"];
const stream = await script.GET("/api/v1/events/stream", { params: { header: { "Last-Event-ID": "0" } }, parseAs: "stream" });
assert.equal(stream.response.status, 200);
const reader = stream.response.body!.pipeThrough(new TextDecoderStream()).getReader();
let text = "";
while (!awaited.every((name) => text.includes(`\nevent: ${name}\n`))) {
  const { value, done } = await reader.read();
  assert.ok(!done, "the stream has ended");
  text += value;
}
await reader.cancel();
for (const [, name, data] of text.matchAll(/^event: (.+)\ndata: (.+)\n\n/gm)) {
  if (name === "ready") continue;
  const { kind, target }: components["schemas"]["StreamEventData"] = JSON.parse(data!);
  assert.equal(kind, name);
  assert.equal(target.type, "run");
}
