// The unmodified client of the wire that /api/auth speaks works against it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { as, asNew, launch, person } from "./person.js";

let product, browser, ada, ida;

before(async () => {
  product = await start();
  browser = await launch();
  ada = await person(browser, product.appUrl);
  ida = await person(browser, product.appUrl);
});
after(async () => {
  await browser?.close();
  await product?.stop();
});

const soon = (date, ms) => Math.abs(new Date(date) - Date.now() - ms) < 120_000;

test("nobody is signed in", async () => {
  assert.equal(await ada.must("getSession"), null);
  await ada.refused("organization.list", undefined, 401, "UNAUTHORIZED");
});

test("sign-in at the code host, and the session", async () => {
  await ada.byCodeHost(as("ada"));
  const { session, user } = await ada.must("getSession");
  assert.equal(user.email, "ada@acme.example");
  assert.ok(user.createdAt instanceof Date && session.expiresAt instanceof Date, "dates are dates");
  assert.ok(soon(session.expiresAt, 7 * 24 * 3600_000), "seven days, to the minute");
  const accounts = await ada.must("listAccounts");
  assert.deepEqual(accounts.map((a) => a.providerId), ["github"]);
});

test("the reactive session", async () => {
  const seen = await ada.page.evaluate(() => new Promise((resolve) => {
    window.client.useSession.subscribe((value) => { if (value.data) resolve(value.data.user.name); });
  }));
  assert.equal(seen, "Ada Lind");
});

test("workspaces", async () => {
  const list = await ada.must("organization.list");
  assert.deepEqual(list.map((o) => o.slug).sort(), ["acme", "ada"]);
  const acme = await ada.must("organization.setActive", { organizationSlug: "acme" });
  assert.equal(acme.name, "Acme");
  assert.equal((await ada.must("getSession")).session.activeOrganizationId, acme.id);
  const full = await ada.must("organization.getFullOrganization");
  assert.equal(full.members.length, 6);
  assert.ok(full.invitations.length >= 1);
  await ada.refused("organization.setActive", { organizationSlug: "nowhere" }, 400, "ORGANIZATION_NOT_FOUND");
  await ada.must("organization.setActive", { organizationId: acme.id });
  assert.equal((await ada.must("organization.checkSlug", { slug: "initech" })).status, true);
  await ada.refused("organization.checkSlug", { slug: "acme" }, 400, "ORGANIZATION_SLUG_ALREADY_TAKEN");
  const made = await ada.must("organization.create", { name: "Initech", slug: "initech", keepCurrentActiveOrganization: true });
  assert.equal(made.members[0].role, "owner");
  const renamed = await ada.must("organization.update", { organizationId: made.id, data: { name: "Initech Ltd" } });
  assert.equal(renamed.name, "Initech Ltd");
});

test("the reactive lists", async () => {
  const seen = await ada.page.evaluate(() => Promise.all(["useListOrganizations", "useActiveOrganization"].map((name) => new Promise((resolve) => {
    window.client[name].subscribe((value) => { if (value.data) resolve(value.data); });
  }))));
  assert.equal(seen[0].length, 3);
  assert.equal(seen[1].slug, "acme");
});

test("members", async () => {
  const { members, total } = await ada.must("organization.listMembers", { query: { limit: 2, sortBy: "createdAt", sortDirection: "asc" } });
  assert.equal(total, 6);
  assert.equal(members[0].user.email, "ada@acme.example");
  const me = await ada.must("organization.getActiveMember");
  assert.equal(me.role, "owner");
  assert.deepEqual(await ada.must("organization.getActiveMemberRole"), { role: "owner" });
  assert.equal((await ada.must("organization.hasPermission", { permissions: { member: ["update"] } })).success, true);
  const all = (await ada.must("organization.listMembers")).members;
  const vera = all.find((m) => m.user.email === "vera@acme.example");
  assert.equal((await ada.must("organization.updateMemberRole", { memberId: vera.id, role: "maintainer" })).role, "maintainer");
  await ada.refused("organization.updateMemberRole", { memberId: vera.id, role: "king" }, 400, "ROLE_NOT_FOUND");
  const max = all.find((m) => m.user.email === "max@acme.example");
  assert.equal((await ada.must("organization.removeMember", { memberIdOrEmail: max.id })).member.id, max.id);
  await ada.refused("organization.removeMember", { memberIdOrEmail: max.id }, 400, "MEMBER_NOT_FOUND");
});

test("an invitation, from the sending to the leaving", async () => {
  const sent = await ada.must("organization.inviteMember", { email: "ida@example.com", role: "viewer" });
  assert.ok(sent.expiresAt instanceof Date && soon(sent.expiresAt, 48 * 3600_000), "48 hours");
  await ada.refused("organization.inviteMember", { email: "ida@example.com", role: "viewer" }, 400, "USER_IS_ALREADY_INVITED_TO_THIS_ORGANIZATION");
  assert.equal((await ada.must("organization.inviteMember", { email: "ida@example.com", role: "viewer", resend: true })).id, sent.id);
  assert.ok((await ada.must("organization.listInvitations")).some((i) => i.id === sent.id));

  await ida.byCodeHost(asNew("Ida Berg", "ida@example.com"));
  const waiting = await ida.must("organization.listUserInvitations");
  assert.deepEqual(waiting.map((i) => [i.id, i.organizationName, i.status]), [[sent.id, "Acme", "pending"]]);
  const letter = await ida.must("organization.getInvitation", { query: { id: sent.id } });
  assert.equal(letter.inviterEmail, "ada@acme.example");
  const { member } = await ida.must("organization.acceptInvitation", { invitationId: sent.id });
  assert.equal(member.role, "viewer");
  await ida.refused("organization.acceptInvitation", { invitationId: sent.id }, 400, "INVITATION_NOT_FOUND");
  await ida.refused("organization.inviteMember", { email: "kim@example.com", role: "viewer" }, 403, "YOU_ARE_NOT_ALLOWED_TO_INVITE_USERS_TO_THIS_ORGANIZATION");
  await ida.must("organization.leave", { organizationId: sent.organizationId });

  const again = await ada.must("organization.inviteMember", { email: "ida@example.com", role: "maintainer" });
  assert.equal((await ida.must("organization.rejectInvitation", { invitationId: again.id })).invitation.status, "rejected");
  const third = await ada.must("organization.inviteMember", { email: "ida@example.com", role: "viewer" });
  assert.equal((await ada.must("organization.cancelInvitation", { invitationId: third.id })).status, "canceled");
  assert.deepEqual(await ida.must("organization.listUserInvitations"), []);
});

test("the only Owner stays", async () => {
  const own = (await ida.must("organization.list"))[0];
  await ida.refused("organization.leave", { organizationId: own.id }, 400, "YOU_CANNOT_LEAVE_THE_ORGANIZATION_AS_THE_ONLY_OWNER");
});

test("sessions, and signing out", async () => {
  const second = await person(browser, product.appUrl);
  assert.ok((await second.must("signIn.email", { email: "ada@acme.example", password: "demonstration" })).user);
  await second.refused("signIn.email", { email: "ada@acme.example", password: "guessed" }, 401, "INVALID_EMAIL_OR_PASSWORD");
  const list = await ada.must("listSessions");
  assert.equal(list.length, 2);
  const other = (await second.must("getSession")).session;
  assert.deepEqual(await ada.must("revokeSession", { token: other.token }), { status: true });
  assert.equal(await second.must("getSession"), null);
  assert.deepEqual(await ada.must("revokeOtherSessions"), { status: true });
  assert.deepEqual(await ada.must("signOut"), { success: true });
  assert.equal(await ada.must("getSession"), null);
});

test("the page of an error", async () => {
  await ada.page.goto(product.appUrl + "/api/auth/error?error=access_denied");
  assert.match(await ada.page.innerText("main"), /You did not allow the sign-in/);
});

test("the browser had nothing to complain of", () => {
  assert.deepEqual([...ada.complaints, ...ida.complaints], []);
});
