// Better Auth's browser client, unmodified, with the organization plugin.
import { createAuthClient } from "better-auth/client";
import { organizationClient } from "better-auth/client/plugins";

window.client = createAuthClient({ plugins: [organizationClient()] });
