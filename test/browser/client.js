// Better Auth's own browser client, as its users set it up.
import { createAuthClient } from "better-auth/client";
import { organizationClient } from "better-auth/client/plugins";

window.client = createAuthClient({ plugins: [organizationClient()] });
