"use strict";

const at = (id) => document.getElementById(id);

// call asks /api/auth for something. A refusal is thrown in the service's words.
async function call(path, body) {
  const answer = await fetch("/api/auth" + path, body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.message);
  return value;
}

// row makes an item of a list: what it says, and a button for each action.
function row(text, actions) {
  const item = document.createElement("li");
  const words = document.createElement("span");
  words.textContent = text;
  item.append(words);
  for (const [label, act] of actions) {
    const button = document.createElement("button");
    button.textContent = label;
    button.addEventListener("click", () => attempt(act));
    item.append(button);
  }
  return item;
}

// attempt does something and shows what there is afterwards, or what went wrong.
async function attempt(act) {
  at("problem").hidden = true;
  try {
    await act();
    await show();
  } catch (problem) {
    at("problem").textContent = problem.message;
    at("problem").hidden = false;
  }
}

async function show() {
  const session = await call("/get-session");
  at("stranger").hidden = session !== null;
  at("person").hidden = session === null;
  if (session === null) return;
  at("name").textContent = session.user.name;
  at("email").textContent = session.user.email;
  const [workspaces, invitations] = await Promise.all([
    call("/organization/list"), call("/organization/list-user-invitations"),
  ]);
  const active = session.session.activeOrganizationId;
  at("workspaces").replaceChildren(...workspaces.map((w) =>
    row(`${w.name} (${w.slug})`, w.id === active ? [] : [["Make active", () => call("/organization/set-active", { organizationId: w.id })]])));
  at("invited").hidden = invitations.length === 0;
  at("invitations").replaceChildren(...invitations.map((i) => row(`${i.organizationName}, as ${i.role}`, [
    ["Accept", () => call("/organization/accept-invitation", { invitationId: i.id })],
    ["Reject", () => call("/organization/reject-invitation", { invitationId: i.id })],
  ])));
}

at("sign-in")?.addEventListener("click", () => attempt(async () => {
  const provider = document.querySelector("main").dataset.provider;
  location.assign((await call("/sign-in/social", { provider, callbackURL: "/" })).url);
}));
at("sign-out").addEventListener("click", () => attempt(() => call("/sign-out", {})));
attempt(() => {});
