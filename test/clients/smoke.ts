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
const clientOf = (account: string) => {
  const { token } = dev.serviceAccounts.find((a) => a.name === account)!;
  return createClient<paths>({ baseUrl: dev.restUrl, headers: { Authorization: `Bearer ${token}` } });
};
const script = clientOf("reader");

/** eventsOf returns the events in a text of server-sent events. */
const eventsOf = <E>(text: string) =>
  [...text.matchAll(/^id: (.+)\nevent: (.+)\ndata: (.+)\n\n/gm)].map(([, id, event, data]) => ({ id, event, data: JSON.parse(data!) }) as E);
const linesOf = <L>(text: string) => text.trimEnd().split("\n").map((line) => JSON.parse(line) as L);

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
const position = Number(revoked.response.headers.get("X-Svc-Position"));
const fresh = { "X-Svc-Min-Position": position };
const found: number[] = [];
let cursor: string | undefined;
do {
  const query = { action: "service_account.*", limit: 2, ...(cursor ? { cursor } : {}) };
  const page = await person.GET("/api/v1/audit", { params: { query, header: fresh } });
  found.push(...page.data!.items.map((r) => r.seq));
  cursor = page.data!.nextCursor;
} while (cursor);
assert.ok(found.length > 2 && found.every((seq, i) => i === 0 || seq < found[i - 1]!), found.join());
assert.equal(found[0], position);

const replayed = await person.GET("/api/v1/audit/replay", { params: { query: { fromSeq: position, toSeq: position }, header: fresh } });
assert.deepEqual(replayed.data!.steps.map((step) => step.action), ["service_account.revoked"]);
const exported = await person.GET("/api/v1/audit/export", {
  params: { query: { format: "ndjson", leaf: true, action: "service_account.revoked" }, header: fresh }, parseAs: "text",
});
const last = linesOf<components["schemas"]["ExportedRecord"]>(exported.data!).at(-1)!;
assert.equal(last.seq, position);
assert.ok(Buffer.from(last.leaf!, "base64").toString().includes(last.action));

// What a key was sent with is done once, and a token is shown once.
const key = { "Idempotency-Key": "made-by-a-client" };
const invited = await person.POST("/api/v1/invitations", { body: { email: "client@example.com" }, params: { header: key } });
assert.equal(invited.data!.role, "Viewer");
const retried = await person.POST("/api/v1/invitations", { body: { email: "client@example.com" }, params: { header: key } });
assert.deepEqual(retried.data, invited.data);
const other = await person.POST("/api/v1/invitations", { body: { email: "else@example.com" }, params: { header: key } });
assert.equal(other.error!.code, "idempotency_key_reused");
const withdrawn = await person.DELETE("/api/v1/invitations/{id}", { params: { path: { id: invited.data!.id } } });
assert.equal(withdrawn.response.status, 204);
const account = { body: { name: "shown-once", scopes: ["api.read" as const] }, params: { header: { "Idempotency-Key": "shown-once" } } };
assert.equal((await person.POST("/api/v1/service-accounts", account)).response.status, 201);
assert.equal((await person.POST("/api/v1/service-accounts", account)).error!.code, "token_already_shown");

// A job is followed to its end, and its log and its artifact are read in parts.
const ci = clientOf("ci-bot");
const submitted = await ci.POST("/api/v1/farm/jobs", {
  body: {
    name: "client", sandbox: { kind: "none" }, steps: [{ run: "echo one; echo two; echo 0123456789 > file" }],
    artifacts: [{ name: "file", paths: ["file"], required: true }],
  },
});
const id = submitted.data!.job.id;
type LogEvents = components["schemas"]["LogEvent"] | components["schemas"]["LogEndEvent"];
const followed = await ci.GET("/api/v1/farm/jobs/{id}/log/stream", { params: { path: { id } }, parseAs: "text" });
const heard = eventsOf<LogEvents>(followed.data!);
assert.equal(heard.map((e) => (e.event === "log" ? e.data.text : "")).join(""), "one\ntwo\n");
const end = heard.at(-1)!;
assert.ok(end.event === "end" && end.data.state === "succeeded" && end.data.bytes === 8, JSON.stringify(end));

const lines = await ci.GET("/api/v1/farm/jobs/{id}/log", { params: { path: { id }, query: { format: "ndjson" } }, parseAs: "text" });
assert.deepEqual(linesOf<components["schemas"]["LogLine"]>(lines.data!).map((l) => [l.offset, l.line, l.text]), [[0, 1, "one"], [4, 2, "two"]]);
const rest = await ci.GET("/api/v1/farm/jobs/{id}/log", { params: { path: { id }, header: { Range: "bytes=4-" } }, parseAs: "text" });
assert.deepEqual([rest.response.status, rest.data], [206, "two\n"]);
const beyond = await ci.GET("/api/v1/farm/jobs/{id}/log", { params: { path: { id }, header: { Range: "bytes=8-" } } });
assert.equal(beyond.error!.code, "range_not_satisfiable");

let job = await ci.GET("/api/v1/farm/jobs/{id}", { params: { path: { id } } });
while (job.data!.artifacts.state === "awaiting" || job.data!.artifacts.state === "partial") {
  await new Promise((done) => setTimeout(done, 50));
  job = await ci.GET("/api/v1/farm/jobs/{id}", { params: { path: { id } } });
}
assert.deepEqual([job.data!.artifacts.state, job.data!.outcome, job.data!.runner?.name !== ""], ["complete", "succeeded", true]);
const file = (await ci.GET("/api/v1/farm/jobs/{id}/artifacts", { params: { path: { id } } })).data!.items[0]!;
const download = (header: { Range?: string; "If-Range"?: string; "If-Match"?: string; "If-None-Match"?: string }) =>
  ci.GET("/api/v1/farm/jobs/{id}/artifacts/{artifactId}", { params: { path: { id, artifactId: file.id }, header }, parseAs: "text" });
const tag = `"${file.sha256}"`;
const part = await download({ Range: "bytes=2-4", "If-Range": tag });
assert.deepEqual([part.response.status, part.response.headers.get("Content-Range"), part.data], [206, "bytes 2-4/11", "234"]);
assert.equal((await download({ "If-None-Match": tag })).response.status, 304);
assert.equal((await download({ "If-Match": '"other"' })).error!.code, "precondition_failed");
assert.equal((await download({ Range: "bytes=11-" })).error!.details.sizeBytes, 11);

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
const said = eventsOf<Said>(text);
assert.deepEqual(awaited.filter((name) => !said.some((e) => e.event === name)), []);
for (const e of said) {
  if (e.event === "ready") continue;
  assert.equal(e.data.kind, e.event);
  assert.equal(e.data.target.type, "run");
}

// A caller has twelve streams, and is told when to try again.
const stop = new AbortController();
const open = () => script.GET("/api/v1/events/stream", { parseAs: "stream", signal: stop.signal });
const many = await Promise.all(Array.from({ length: 13 }, open));
const limited = many.filter((s) => s.error); // two, if the stream above has not ended yet
assert.ok(limited.length > 0 && limited.every((s) => s.error!.code === "rate_limited"), JSON.stringify(limited));
assert.match(limited[0]!.response.headers.get("Retry-After")!, /^\d+$/);
stop.abort();
