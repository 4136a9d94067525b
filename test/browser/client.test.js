// Better Auth's unmodified browser client works with /api/auth.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { chooseLogin, createLogin, launch, openClient } from "./person.js";

let product, browser, ada, ida;

before(async () => {
  product = await start();
  browser = await launch();
  ada = await openClient(browser, product.appUrl);
  ida = await openClient(browser, product.appUrl);
});
after(async () => {
  await browser?.close();
  await product?.stop();
});

/** isIn reports whether a date is that far in the future, to two minutes. */
const isIn = (date, ms) => Math.abs(new Date(date) - Date.now() - ms) < 120_000;

test("without a session", async () => {
  assert.equal(await ada.call("getSession"), null);
  await ada.refused("organization.list", undefined, 401, "UNAUTHORIZED");
});

test("sign-in at the code host, and the session", async () => {
  await ada.signInWithCodeHost(chooseLogin("ada"));
  const { session, user } = await ada.call("getSession");
  assert.equal(user.email, "ada@acme.example");
  assert.ok(user.createdAt instanceof Date && session.expiresAt instanceof Date, "dates are parsed");
  assert.ok(isIn(session.expiresAt, 7 * 24 * 3600_000), "seven days, to the minute");
  const accounts = await ada.call("listAccounts");
  assert.deepEqual(accounts.map((a) => a.providerId), ["github"]);
});

test("the session store", async () => {
  const seen = await ada.page.evaluate(() => new Promise((resolve) => {
    window.client.useSession.subscribe((value) => { if (value.data) resolve(value.data.user.name); });
  }));
  assert.equal(seen, "Ada Lind");
});

test("workspaces", async () => {
  const list = await ada.call("organization.list");
  assert.deepEqual(list.map((o) => o.slug).sort(), ["acme", "ada"]);
  const acme = await ada.call("organization.setActive", { organizationSlug: "acme" });
  assert.equal(acme.name, "Acme");
  assert.equal((await ada.call("getSession")).session.activeOrganizationId, acme.id);
  const full = await ada.call("organization.getFullOrganization");
  assert.equal(full.members.length, 6);
  assert.ok(full.invitations.length >= 1);
  await ada.refused("organization.setActive", { organizationSlug: "nowhere" }, 400, "ORGANIZATION_NOT_FOUND");
  await ada.call("organization.setActive", { organizationId: acme.id });
  assert.equal((await ada.call("organization.checkSlug", { slug: "initech" })).status, true);
  await ada.refused("organization.checkSlug", { slug: "acme" }, 400, "ORGANIZATION_SLUG_ALREADY_TAKEN");
  const made = await ada.call("organization.create", { name: "Initech", slug: "initech", keepCurrentActiveOrganization: true });
  assert.equal(made.members[0].role, "owner");
  const renamed = await ada.call("organization.update", { organizationId: made.id, data: { name: "Initech Ltd" } });
  assert.equal(renamed.name, "Initech Ltd");
});

test("the workspace stores", async () => {
  const seen = await ada.page.evaluate(() => Promise.all(["useListOrganizations", "useActiveOrganization"].map((name) => new Promise((resolve) => {
    window.client[name].subscribe((value) => { if (value.data) resolve(value.data); });
  }))));
  assert.equal(seen[0].length, 3);
  assert.equal(seen[1].slug, "acme");
});

test("members", async () => {
  const { members, total } = await ada.call("organization.listMembers", { query: { limit: 2, sortBy: "createdAt", sortDirection: "asc" } });
  assert.equal(total, 6);
  assert.equal(members[0].user.email, "ada@acme.example");
  const me = await ada.call("organization.getActiveMember");
  assert.equal(me.role, "owner");
  assert.deepEqual(await ada.call("organization.getActiveMemberRole"), { role: "owner" });
  assert.equal((await ada.call("organization.hasPermission", { permissions: { member: ["update"] } })).success, true);
  const all = (await ada.call("organization.listMembers")).members;
  const vera = all.find((m) => m.user.email === "vera@acme.example");
  assert.equal((await ada.call("organization.updateMemberRole", { memberId: vera.id, role: "maintainer" })).role, "maintainer");
  await ada.refused("organization.updateMemberRole", { memberId: vera.id, role: "king" }, 400, "ROLE_NOT_FOUND");
  const max = all.find((m) => m.user.email === "max@acme.example");
  assert.equal((await ada.call("organization.removeMember", { memberIdOrEmail: max.id })).member.id, max.id);
  await ada.refused("organization.removeMember", { memberIdOrEmail: max.id }, 400, "MEMBER_NOT_FOUND");
});

test("invitations are sent, accepted, rejected and cancelled", async () => {
  const sent = await ada.call("organization.inviteMember", { email: "ida@example.com", role: "viewer" });
  assert.ok(sent.expiresAt instanceof Date && isIn(sent.expiresAt, 48 * 3600_000), "48 hours");
  await ada.refused("organization.inviteMember", { email: "ida@example.com", role: "viewer" }, 400, "USER_IS_ALREADY_INVITED_TO_THIS_ORGANIZATION");
  assert.equal((await ada.call("organization.inviteMember", { email: "ida@example.com", role: "viewer", resend: true })).id, sent.id);
  assert.ok((await ada.call("organization.listInvitations")).some((i) => i.id === sent.id));

  await ida.signInWithCodeHost(createLogin("Ida Berg", "ida@example.com"));
  const waiting = await ida.call("organization.listUserInvitations");
  assert.deepEqual(waiting.map((i) => [i.id, i.organizationName, i.status]), [[sent.id, "Acme", "pending"]]);
  const invitation = await ida.call("organization.getInvitation", { query: { id: sent.id } });
  assert.equal(invitation.inviterEmail, "ada@acme.example");
  const { member } = await ida.call("organization.acceptInvitation", { invitationId: sent.id });
  assert.equal(member.role, "viewer");
  await ida.refused("organization.acceptInvitation", { invitationId: sent.id }, 400, "INVITATION_NOT_FOUND");
  await ida.refused("organization.inviteMember", { email: "kim@example.com", role: "viewer" }, 403, "YOU_ARE_NOT_ALLOWED_TO_INVITE_USERS_TO_THIS_ORGANIZATION");
  await ida.call("organization.leave", { organizationId: sent.organizationId });

  const again = await ada.call("organization.inviteMember", { email: "ida@example.com", role: "maintainer" });
  assert.equal((await ida.call("organization.rejectInvitation", { invitationId: again.id })).invitation.status, "rejected");
  const third = await ada.call("organization.inviteMember", { email: "ida@example.com", role: "viewer" });
  assert.equal((await ada.call("organization.cancelInvitation", { invitationId: third.id })).status, "canceled");
  assert.deepEqual(await ida.call("organization.listUserInvitations"), []);
});

test("the only Owner cannot leave", async () => {
  const own = (await ida.call("organization.list"))[0];
  await ida.refused("organization.leave", { organizationId: own.id }, 400, "YOU_CANNOT_LEAVE_THE_ORGANIZATION_AS_THE_ONLY_OWNER");
});

test("sessions, and signing out", async () => {
  const second = await openClient(browser, product.appUrl);
  assert.ok((await second.call("signIn.email", { email: "ada@acme.example", password: "demonstration" })).user);
  await second.refused("signIn.email", { email: "ada@acme.example", password: "guessed" }, 401, "INVALID_EMAIL_OR_PASSWORD");
  const list = await ada.call("listSessions");
  assert.equal(list.length, 2);
  const other = (await second.call("getSession")).session;
  assert.deepEqual(await ada.call("revokeSession", { token: other.token }), { status: true });
  assert.equal(await second.call("getSession"), null);
  assert.deepEqual(await ada.call("revokeOtherSessions"), { status: true });
  assert.deepEqual(await ada.call("signOut"), { success: true });
  assert.equal(await ada.call("getSession"), null);
});

test("the error page", async () => {
  await ada.page.goto(product.appUrl + "/api/auth/error?error=access_denied");
  assert.match(await ada.page.innerText("main"), /You did not allow the sign-in/);
});

test("the browser reported no problems", () => {
  assert.deepEqual([...ada.problems, ...ida.problems], []);
});
